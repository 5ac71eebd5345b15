"""The API for commands: that of the gateway that is given, else the same operations on the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import quote

from holdfast.app import TaskQueue, http_of
from holdfast.cli.options import Common
from holdfast.cli.session import actor, with_queue
from holdfast.cli.use_cases import Api

T = TypeVar("T")


def with_api(common: Common, work: Callable[[Api], Awaitable[T]]) -> T:
    """Runs a command with the API."""

    async def session(queue: TaskQueue) -> T:
        return await work(await api_of(queue))

    return with_queue(common, session)


def answer_of(
    common: Common,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    query: dict[str, object] | None = None,
) -> Any:
    """The answer to one call."""
    return with_api(common, lambda api: api.call(method, path, body, query=query))


async def api_of(queue: TaskQueue) -> Api:
    """The API of an open queue."""
    http = http_of(queue)
    if http is not None:
        return _Remote(http.call)
    from holdfast.gateway.local import LocalApi

    return await LocalApi.open(queue, actor())


class _Remote:
    """The API of a gateway."""

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call

    async def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        query: dict[str, object] | None = None,
    ) -> Any:
        return (await self._call(method, path, body, query=query)).body


def v1(*parts: str) -> str:
    """A path of `/api/v1`."""
    return _path("/api/v1", parts)


def v2(*parts: str) -> str:
    """A path of `/api/v2/sync`."""
    return _path("/api/v2/sync", parts)


def _path(prefix: str, parts: tuple[str, ...]) -> str:
    return "/".join([prefix, *(quote(part, safe="") for part in parts)])
