"""Use cases of tokens and tickets: create, list, revoke, rotate, authenticate.

Promises: a secret is returned once, by the call that makes it; the store has its digest. A token that is
revoked, expired or used up counts no more from the next request on. Never: logs a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from holdfast.core import codec
from holdfast.core.access import ALL_PROJECTS, Principal
from holdfast.core.check import check_name, check_page, check_positive, check_whole, shown
from holdfast.core.rights import ROLES_OF, Operation
from holdfast.core.token import TokenKind, TokenState, make_token, token_digest, token_kind
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput
from holdfast.queue.by import By
from holdfast.store.backends import secret_ids
from holdfast.store.store import Store
from holdfast.sync.access import scripts
from holdfast.sync.access.token import KINDS, Token

USE_SECONDS: Final = 60.0
"""How often the last use of a token is stored, at most."""
TICKET_SECONDS: Final = 30.0
LIFE_SECONDS_MAX: Final = 10 * 366 * 86_400.0
USES_MAX: Final = 10_000
LIST_MAX: Final = 100
"""Roles, projects and scopes of a token, each."""
PREFIX: Final = "tok_"


class Issued(NamedTuple):
    """A token with its secret, which is not readable again."""

    token: Token
    secret: str


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to create."""

    name: str
    roles: Sequence[str]
    projects: Sequence[str] = (ALL_PROJECTS,)
    scopes: Sequence[str] | None = None
    expires_in_seconds: float | None = None
    kind: TokenKind = TokenKind.USER
    principal: str = ""
    """'' for `<kind>:<name>`."""
    node_id: str | None = None
    uses: int | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        allowed = ROLES_OF[KINDS[self.kind]]
        for role in _listed("roles", self.roles):
            if role not in allowed:
                names = ", ".join(sorted(allowed))
                raise InvalidInput(
                    f"roles has {shown(role)}, which a token of kind {self.kind} cannot have: use {names}"
                )
        if not self.roles:
            raise InvalidInput("roles is empty: name at least one role")
        for project in _listed("projects", self.projects):
            if project != ALL_PROJECTS:
                check_project("projects", project)
        if not self.projects:
            raise InvalidInput("projects is empty: name projects, or 'all'")
        for scope in _listed("scopes", self.scopes or ()):
            if scope not in Operation.__members__.values():
                raise InvalidInput(f"scopes has {shown(scope)}: it is no operation")
        if self.expires_in_seconds is not None:
            check_positive("expires_in_seconds", self.expires_in_seconds, most=LIFE_SECONDS_MAX)
        if self.uses is not None:
            check_whole("uses", self.uses, least=1, most=USES_MAX)

    def row(self, token_id: str, by: By, now: float) -> Token:
        return Token(
            id=token_id,
            kind=self.kind,
            name=self.name,
            principal=self.principal or f"{self.kind}:{self.name}",
            roles=tuple(self.roles),
            projects=tuple(self.projects),
            scopes=None if self.scopes is None else tuple(self.scopes),
            node_id=self.node_id,
            uses_left=self.uses,
            created_by=by.actor,
            created_at=now,
            expires_at=None if self.expires_in_seconds is None else now + self.expires_in_seconds,
        )


class Ticket(msgspec.Struct, frozen=True):
    """What a ticket stands for."""

    principal: Principal
    token_id: str | None = None
    """None for the bootstrap token, which has no row."""
    digest: str = ""
    """Of the secret that the ticket was opened with: a rotated token keeps its id."""


class Tokens:
    """The use cases of tokens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secrets = secret_ids()
        self._used: dict[str, float] = {}

    async def create(self, new: NewToken, by: By) -> Issued:
        by.of_unversioned("a token")
        now = self._store.now()
        secret = self._secret(new.kind)
        row = new.row(PREFIX + self._store.ids.task(now).replace("-", ""), by, now)
        token = await self._store.run(
            partial(scripts.create, token=row, sha256=token_digest(secret), beside=by.beside)
        )
        return Issued(token, secret)

    async def list(self, *, after: str = "", limit: int = 100) -> list[Token]:
        """One page, by time of creation. `after`: the last id of the page before."""
        check_page(limit)
        return await self._store.read(lambda: scripts.page(after, limit))

    async def revoke(self, token_id: str, by: By) -> Token:
        """NotFound if there is no such token."""
        check_name("token_id", token_id)
        by.of_unversioned("a token")
        return await self._store.run(partial(scripts.revoke, token_id=token_id, beside=by.beside))

    async def rotate(self, token_id: str, by: By) -> Issued:
        """Gives the token another secret."""
        check_name("token_id", token_id)
        by.of_unversioned("a token")
        secret = self._secret(_kind_of(await self.get(token_id)))
        token = await self._store.run(
            partial(
                scripts.rotate,
                token_id=token_id,
                sha256=token_digest(secret),
                holder=by.actor,
                beside=by.beside,
            )
        )
        return Issued(token, secret)

    async def get(self, token_id: str) -> Token | None:
        """The token of an id; None if there is none."""
        return await self._store.read(lambda: scripts.get(token_id))

    async def are_related(self, one: str, other: str) -> bool:
        """Whether one of two principals has made or rotated a secret of the other, also through others."""
        return await self._store.read(lambda: scripts.related(one, other))

    async def of_digest(self, digest: str) -> Token | None:
        """The token of the digest of its secret, whatever its state; None if there is none."""
        return await self._store.read(lambda: scripts.find(digest))

    async def valid(self, digests: Sequence[str]) -> set[str]:
        """Those of these digests whose tokens count now."""
        now = self._store.now()
        return await self._store.read(lambda: scripts.valid(digests, now))

    async def find(self, secret: str, *, used_up: bool = False) -> Token | None:
        """The token of a secret, if it counts now. A text that is no token is not looked up. `used_up`: or a
        join token without uses left, because the registration that it paid for may be repeated."""
        if token_kind(secret) is None:
            return None
        token = await self.of_digest(token_digest(secret))
        now = self._store.now()
        states = {TokenState.VALID, TokenState.USED_UP} if used_up else {TokenState.VALID}
        if token is None or token.state(now) not in states:
            return None
        await self._note_use(token, now)
        return token

    async def open_ticket(self, ticket: Ticket) -> str:
        """A text that `take_ticket` accepts once, within `TICKET_SECONDS`."""
        secret = self._secrets.secret() + self._secrets.secret()
        text = codec.dumps(msgspec.to_builtins(ticket))
        await self._store.run(
            lambda _dialect, _ids, now: scripts.add_ticket(
                token_digest(secret), text, now + TICKET_SECONDS, now
            )
        )
        return secret

    async def take_ticket(self, secret: str) -> Ticket | None:
        """What the ticket stands for; None if it was used, has ended, or its token counts no more."""
        text = await self._store.run(
            lambda _dialect, _ids, now: scripts.take_ticket(token_digest(secret), now)
        )
        if text is None:
            return None
        ticket = msgspec.convert(codec.loads(text), Ticket)
        if ticket.token_id is None:
            return ticket
        token = await self.of_digest(ticket.digest)
        if token is None or token.state(self._store.now()) is not TokenState.VALID:
            return None
        return Ticket(token.as_principal(), token.id, ticket.digest)

    def _secret(self, kind: TokenKind) -> str:
        return make_token(kind, bytes.fromhex(self._secrets.secret() + self._secrets.secret()))

    async def _note_use(self, token: Token, now: float) -> None:
        last = max(self._used.get(token.id, 0.0), token.used_at or 0.0)
        if now - last < USE_SECONDS:
            return
        if len(self._used) > USES_MAX:
            self._used.clear()
        self._used[token.id] = now
        await self._store.run(
            lambda _dialect, _ids, now: scripts.note_use(token.id, now), small=True, repeatable=True
        )


def _kind_of(token: Token | None) -> TokenKind:
    return TokenKind.USER if token is None else token.kind


def _listed(field: str, names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str) or len(names) > LIST_MAX:
        raise InvalidInput(f"{field} has to be a list of at most {LIST_MAX} names")
    for name in names:
        check_name(field, name)
    return names
