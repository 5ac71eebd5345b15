"""Transactions of tokens and tickets.

Promises: the row of a token, its event and what a caller writes beside it (its audit) are one transaction. A
ticket is deleted by the transaction that reads it, so one caller gets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.token import BOOTSTRAP
from holdfast.errors import NotFound
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, statements_of
from holdfast.store.scripts.work import record
from holdfast.sync.access.token import Token, to_token

HOLDERS_MAX: Final = 1_000
"""Holders of secrets that a look at two principals follows."""


own: Final = statements_of("holdfast.sync.access")
"""Names the statements of this package."""


def add_holder(principal: str, holder: str) -> Script[None]:
    """`holder` has got a secret of the principal."""
    if principal and holder:
        yield call(own("add_holder"), principal=principal, holder=holder)


def holders(principal: str) -> Script[set[str]]:
    """Who may speak in the name of the principal: those that have made or rotated its secrets, theirs, and so
    on. The administrator of the server has made the first ones: that says nothing about who uses them."""
    found: set[str] = set()
    names = [principal]
    while names and len(found) < HOLDERS_MAX:
        rows = yield call(own("holders_of"), names=names)
        names = sorted({row[0] for row in rows} - found - {BOOTSTRAP.name})
        found.update(names)
    return found


def related(one: str, other: str) -> Script[bool]:
    """Whether one of two principals may speak in the name of the other."""
    if other in (yield from holders(one)):
        return True
    return one in (yield from holders(other))


def create(
    dialect: Dialect, ids: Ids, now: float, *, token: Token, sha256: str, beside: Beside | None
) -> Script[Token]:
    """Adds a token. The outcome for `beside` is the token."""
    yield from begin(beside, now)
    token = replace(token, created_at=now)
    yield call(own("add_token"), digest=sha256, **token.columns())
    yield from add_holder(token.principal, token.created_by)
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
    holder: str,
    beside: Beside | None,
) -> Script[Token]:
    """Gives a token another secret, which `holder` gets. The one before does not count from this commit on. A
    lifetime starts again. The outcome for `beside` is the token."""
    yield from begin(beside, now)
    token = yield from _locked(token_id)
    if token.revoked_at is not None:
        raise NotFound(f"token {token_id} is revoked: create another one")
    life = None if token.expires_at is None else max(0.0, token.expires_at - token.created_at)
    after = replace(token, expires_at=None if life is None else now + life)
    yield call(own("rotate_token"), id=token_id, digest=sha256, expires_at=after.expires_at)
    yield from add_holder(token.principal, holder)
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


def valid(digests: Sequence[str], now: float) -> Script[set[str]]:
    """Those of these digests whose tokens count now."""
    rows = yield call(own("valid_digests"), digests=list(digests), now=now)
    return {row[0] for row in rows}


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
