"""Admits connections of workers: origin, credential, number of connections.

Promises: the bounds of `connections.Door` hold for each transport. A credential that is revoked or loses its
rights ends its connections with their next check.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from starlette.requests import HTTPConnection

from holdfast.core.errors import Unauthenticated
from holdfast.errors import HoldfastError
from holdfast.gateway.auth.addresses import address_of
from holdfast.gateway.auth.bearer import Authenticator
from holdfast.gateway.connections import Door, OpenSession
from holdfast.gateway.worker.credential import Recheck
from holdfast.gateway.worker.speaker import Speaker, speaker_of


class Admitted(NamedTuple):
    """A connection that may speak."""

    speaker: Speaker
    recheck: Recheck
    close: Callable[[], None] = lambda: None
    """The connection has ended: it no longer counts for its credential."""
    joined: Callable[[str], None] = lambda _: None
    """A join token has made a node: the connection counts for this node."""


Admit: TypeAlias = Callable[[str, str], Awaitable[Admitted]]
"""Admits a connection by its bearer token, from an address."""


class WorkerDoor:
    """The door of one gateway for workers."""

    def __init__(self, door: Door, auth: Authenticator) -> None:
        self._door = door
        self._auth = auth

    async def by_connection(self, connection: HTTPConnection) -> Admitted:
        """By the header `Authorization`, or by a ticket in the URL."""
        session = await self._door.connect(connection)
        return self._admitted(session, address_of(connection))

    async def by_secret(self, secret: str, address: str) -> Admitted:
        return self._admitted(await self._door.by_token(secret, address), address)

    def _admitted(self, session: OpenSession, address: str) -> Admitted:
        try:
            speaker = speaker_of(session.principal, session.token_id)
            if speaker.join_token_id is not None:
                self._door.enter(session.principal, address)
        except HoldfastError:
            session.close()
            raise

        async def recheck(issued: str) -> None:
            if issued:
                who = await self._auth.by_secret(issued)
                speaker_of(who.principal, who.token_id)
            elif speaker.join_token_id is None:
                # A join token may be used up by now; the node has its own credential.
                if await session.renewed() is None:
                    raise Unauthenticated(
                        "the token is not valid any more: it was revoked or has expired"
                    )
                speaker_of(session.principal, session.token_id)

        return Admitted(speaker, recheck, session.close, session.joined)
