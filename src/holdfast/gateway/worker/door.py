"""Admits connections of workers: origin, credential, number of connections.

Promises: the bounds of `connections.Door` hold for each transport. A credential that is revoked or loses its
rights ends its connections with their next check.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from holdfast.core.errors import Forbidden, RateLimited, Unauthenticated
from holdfast.errors import HoldfastError
from holdfast.gateway.auth.addresses import address_of
from holdfast.gateway.connections import Door, OpenSession
from holdfast.gateway.feed.ports import Refused
from holdfast.gateway.worker.ports import Admitted
from holdfast.gateway.worker.principals import WorkerAuth


class WorkerDoor:
    """The door of one gateway for workers."""

    def __init__(self, door: Door, auth: WorkerAuth) -> None:
        self._door = door
        self._auth = auth

    async def by_connection(self, connection: HTTPConnection) -> Admitted:
        """By the header `Authorization`, or by a ticket in the URL."""
        session = await self._door.connect(connection)
        return self._admitted(session, address_of(connection))

    async def by_secret(self, secret: str, address: str) -> Admitted:
        return self._admitted(await self._door.by_token(secret, address), address)

    def _admitted(self, session: OpenSession | Refused, address: str) -> Admitted:
        if isinstance(session, Refused):
            raise _error(session)
        try:
            speaker = self._auth.speaker(session.principal, session.token_id)
            if speaker.join_token_id is not None:
                self._door.enter(session.principal, address)
        except HoldfastError:
            session.close()
            raise

        async def recheck(issued: str) -> None:
            if issued:
                await self._auth(issued)
            elif speaker.join_token_id is None:
                # A join token may be used up by now; the node has its own credential.
                if await session.renewed() is None:
                    raise Unauthenticated(
                        "the token is not valid any more: it was revoked or has expired"
                    )
                self._auth.speaker(session.principal, session.token_id)

        return Admitted(speaker, recheck, session.close, session.joined)


def _error(refused: Refused) -> HoldfastError:
    kinds: dict[str, type[HoldfastError]] = {
        "unauthenticated": Unauthenticated,
        "rate-limited": RateLimited,
    }
    return kinds.get(refused.code, Forbidden)(refused.detail)
