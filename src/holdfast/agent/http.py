"""The way to a gateway over HTTP: `/agent/v1`.

Promises: one try for each call; the loop of the agent decides about the next one. A gateway that does not
answer is left for the next of the list. What is no answer of a gateway, e.g. the page of a proxy, is like
none, whatever its status. The credential goes to the gateways given, and to no log.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from holdfast.client.http import Http
from holdfast.client.problems import is_page, status_of
from holdfast.core.address import shown_url
from holdfast.core.errors import GatewayUnavailable, TooLarge
from holdfast.core.fleet.agents.wire import (
    AgentEnrol,
    AgentEnrolled,
    AgentStart,
    AgentStarted,
    AgentSync,
    AgentSyncAnswer,
)
from holdfast.errors import HoldfastError

PREFIX: Final = "/agent/v1"
T = TypeVar("T")


class HttpTransport:
    """The calls of an agent. `http` makes one try."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def use(self, credential: str) -> None:
        """Speaks with the credential of an enrolled agent from now on."""
        self._http.token = credential

    async def enrol(self, enrol: AgentEnrol) -> AgentEnrolled:
        return _read(await self._post("enrol", enrol), AgentEnrolled)

    async def start(self, start: AgentStart) -> AgentStarted:
        return _read(await self._post("start", start), AgentStarted)

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        return _read(await self._post("sync", sync, sync.wait_seconds), AgentSyncAnswer)

    async def close(self) -> None:
        await self._http.close()

    async def _post(self, name: str, body: object, wait_seconds: float = 0.0) -> Any:
        path, url = f"{PREFIX}/{name}", self._http.url
        try:
            answer = await self._http.call("POST", path, body, wait_seconds=wait_seconds)
        except HoldfastError as error:
            if not is_page(error) or isinstance(error, TooLarge):
                raise
            self._http.next_gateway(url)
            raise GatewayUnavailable(
                f"{shown_url(url)} answered {status_of(error)} as no gateway does: a proxy before it has no "
                "way to a gateway, or the address is wrong"
            ) from None
        return answer.body


def _read(body: Any, kind: type[T]) -> T:
    """The answer."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise GatewayUnavailable(f"the answer is none for an agent: {error}") from None
