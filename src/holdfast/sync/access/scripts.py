"""Transactions of tokens and tickets.

Promises: the row of a token, its event and what a caller writes beside it (its audit) are one transaction. A
ticket is deleted by the transaction that reads it, so one caller gets it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.errors import NotFound
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import record
from holdfast.sync.access.token import Token, to_token


def own(statement: str) -> str:
    """The name of a statement of this package."""
    return f"holdfast.sync.access:{statement}"


def create(
    dialect: Dialect, ids: Ids, now: float, *, token: Token, sha256: str, beside: Beside | None
) -> Script[Token]:
    """Adds a token. The outcome for `beside` is the token."""
    yield from begin(beside, now)
    token = replace(token, created_at=now)
    yield call(own("add_token"), digest=sha256, **token.columns())
    yield from end(beside, token, now)
    yield from _tell(dialect, ids, now, "token.created", token)
    return token


def revoke(
    dialect: Dialect, ids: Ids, now: float, *, token_id: str, beside: Beside | None
) -> Script[Token]:
    """Revokes a token, from this commit on. The outcome for `beside` is the token. A second call changes
    nothing."""
    yield from begin(beside, now)
    token = yield from _locked(token_id)
    after = token if token.revoked_at is not None else replace(token, revoked_at=now)
    if token.revoked_at is None:
        yield call(own("revoke_token"), id=token_id, now=now)
    yield from end(beside, after, now)
    if token.revoked_at is None:
        yield from _tell(dialect, ids, now, "token.revoked", token)
    return after


def rotate(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    token_id: str,
    sha256: str,
    beside: Beside | None,
) -> Script[Token]:
    """Gives a token another secret. The one before does not count from this commit on. A lifetime starts
    again. The outcome for `beside` is the token."""
    yield from begin(beside, now)
    token = yield from _locked(token_id)
    if token.revoked_at is not None:
        raise NotFound(f"token {token_id} is revoked: create another one")
    life = None if token.expires_at is None else max(0.0, token.expires_at - token.created_at)
    after = replace(token, expires_at=None if life is None else now + life)
    yield call(own("rotate_token"), id=token_id, digest=sha256, expires_at=after.expires_at)
    yield from end(beside, after, now)
    yield from _tell(dialect, ids, now, "token.rotated", token)
    return after


def spend(sha256: str, now: float) -> Script[Token | None]:
    """Takes one use of a join token, in the transaction of what it is used for. None: it does not count."""
    rows = yield call(own("spend_token"), digest=sha256, now=now)
    return to_token(rows[0]) if rows else None


def find(sha256: str) -> Script[Token | None]:
    rows = yield call(own("token_by_digest"), digest=sha256)
    return to_token(rows[0]) if rows else None


def get(token_id: str) -> Script[Token | None]:
    rows = yield call(own("get_token"), id=token_id)
    return to_token(rows[0]) if rows else None


def page(after: str, limit: int) -> Script[list[Token]]:
    rows = yield call(own("tokens_after"), after=after, limit=limit)
    return [to_token(row) for row in rows]


def note_use(token_id: str, now: float) -> Script[None]:
    yield call(own("note_token_use"), id=token_id, now=now)


def add_ticket(sha256: str, principal_json: str, expires_at: float, now: float) -> Script[None]:
    """Adds a ticket, and removes those that have ended."""
    yield call(own("prune_tickets"), now=now)
    yield call(
        own("add_ticket"), digest=sha256, principal_json=principal_json, expires_at=expires_at
    )


def take_ticket(sha256: str, now: float) -> Script[str | None]:
    """The text that was stored with the ticket, once. None for a ticket that was used or has ended."""
    rows: list[Any] = yield call(own("take_ticket"), digest=sha256)
    if not rows or rows[0][1] <= now:
        return None
    text: str = rows[0][0]
    return text


def _locked(token_id: str) -> Script[Token]:
    rows = yield call(own("lock_token"), id=token_id)
    if not rows:
        raise NotFound(f"there is no token {token_id}: see the list of tokens")
    return to_token(rows[0])


def _tell(dialect: Dialect, ids: Ids, now: float, kind: str, token: Token) -> Script[None]:
    record_id = yield from dialect.record_ref(ids.record(now))
    data = {"token": token.id, "name": token.name, "principal": token.principal}
    yield from record(dialect, record_id, now, [NewEvent(kind, now, "", "", data)], Counter())
