"""Credentials of connections that stay open: WebSockets and event streams.

Promises: a page of another origin than the server's own and those of `origins` is refused. A ticket opens one
connection. A token, or a node, has at most `CONNECTIONS_MAX` connections at a gateway. `OpenSession.renewed`
reads the token again, so that a revoked one ends its connections.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from holdfast.core.access import Principal
from holdfast.core.errors import Forbidden, RateLimited, Unauthenticated
from holdfast.core.token import TokenState
from holdfast.gateway.auth.addresses import address_of
from holdfast.gateway.auth.bearer import BOOTSTRAP_ID, Authenticated
from holdfast.gateway.auth.cookies import authorization_of
from holdfast.gateway.feed.feed import GATEWAY_CONNECTIONS_MAX
from holdfast.gateway.feed.ports import TICKET
from holdfast.gateway.gateway import Gateway

CONNECTIONS_MAX: Final = 50
"""Connections of one token, or of one node, at one gateway."""


class OpenSession:
    """The credential of one connection."""

    def __init__(self, door: Door, who: Authenticated) -> None:
        self._door = door
        self._who = who
        self._is_open = True
        self._counts_for = key_of(who)
        door.opened[self._counts_for] += 1

    @property
    def principal(self) -> Principal:
        return self._who.principal

    @property
    def token_id(self) -> str | None:
        return self._who.token_id

    @property
    def digest(self) -> str:
        """Of the secret of the token. Empty: the credential is no token."""
        return self._who.digest

    async def renewed(self) -> OpenSession | None:
        """The same credential, read again, in the place of this one. None: it does not count any more."""
        who = await self._door.again(self._who)
        if who is None:
            return None
        self._who = who
        return self

    def joined(self, node: str) -> None:
        """A join token has made this node: the connection counts for the node from now on."""
        if self._is_open:
            self._door.closed(self._counts_for)
            self._counts_for = key_of_node(node)
            self._door.opened[self._counts_for] += 1

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._door.closed(self._counts_for)


def key_of(who: Authenticated) -> str:
    """What the connections of a credential are counted for: all credentials of a node together."""
    node = who.principal.node
    return who.credential if node is None else key_of_node(node)


def key_of_node(node: str) -> str:
    return f"node:{node}"


class Door:
    """Accepts connections (`feed.ports.FeedDoor`). A connection that it refuses gets Unauthenticated,
    Forbidden or RateLimited."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.opened = gateway.opened

    async def connect(self, connection: HTTPConnection) -> OpenSession:
        """By header, by the session of a browser, or by a ticket in the URL. Checks the origin and counts the
        connection."""
        if not self._is_own(connection):
            raise Forbidden("this origin is not allowed: add it to server.origins")
        address = address_of(connection)
        ticket = connection.query_params.get(TICKET)
        if ticket is None:
            return await self._by(authorization_of("GET", connection.headers), address)
        limits, now = self._gateway.addresses, self._gateway.services.clock.monotonic()
        limits.check(address, ticket, now)
        taken = await self._gateway.services.tokens.take_ticket(ticket)
        if taken is None:
            limits.failed(address, now)
            raise Unauthenticated("the ticket is not valid: get another one")
        credential = taken.token_id or taken.principal.name
        who = Authenticated(taken.principal, credential, taken.token_id, taken.digest)
        return self._session(who)

    async def by_token(self, token: str, address: str = "") -> OpenSession:
        """For a client that replaces its credential, and for streams of gRPC."""
        return await self._by(f"Bearer {token}", address)

    def enter(self, principal: Principal, address: str) -> None:
        """See `Gateway.enter`."""
        self._gateway.enter(principal, address)

    async def again(self, who: Authenticated) -> Authenticated | None:
        """The credential as it is now."""
        if who.token_id is None:
            return who
        # By its secret: a rotated token keeps its id, and connections of its old secret end too.
        token = await self._gateway.services.tokens.of_digest(who.digest)
        if token is None or token.state(self._gateway.services.now()) is not TokenState.VALID:
            return None
        return who._replace(principal=token.as_principal())

    def closed(self, credential: str) -> None:
        self.opened[credential] -= 1
        if self.opened[credential] <= 0:
            del self.opened[credential]

    async def _by(self, header: str | None, address: str) -> OpenSession:
        return self._session(await self._gateway.authenticate(header, address))

    def _session(self, who: Authenticated) -> OpenSession:
        is_bootstrap = who.credential == BOOTSTRAP_ID
        if self.opened.total() >= GATEWAY_CONNECTIONS_MAX:
            raise RateLimited("the gateway has too many connections: use another one")
        if not is_bootstrap and self.opened[key_of(who)] >= CONNECTIONS_MAX:
            raise RateLimited(f"a token has at most {CONNECTIONS_MAX} connections")
        return OpenSession(self, who)

    def _is_own(self, connection: HTTPConnection) -> bool:
        """Whether the page that connects may. Programs send no origin."""
        origin = connection.headers.get("origin")
        if origin is None or origin in self._gateway.settings.origins:
            return True
        return urlsplit(origin).netloc == connection.headers.get("host")
