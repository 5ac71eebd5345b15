"""The API for commands: that of the gateway that is given, else the same operations on the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.app import TaskQueue, http_of
from holdfast.cli.operations import Operations
from holdfast.cli.options import Common
from holdfast.cli.session import actor, with_queue
from holdfast.client.calls import Calls, path_of

T = TypeVar("T")


def with_operations(common: Common, work: Callable[[Operations], Awaitable[T]]) -> T:
    """Runs a command that changes something."""

    async def session(queue: TaskQueue) -> T:
        return await work(await operations_of(queue))

    return with_queue(common, session)


async def operations_of(queue: TaskQueue) -> Operations:
    """The operations of an open queue."""
    return Operations(await calls_of(queue), queue.parts)


def answer_of(
    common: Common,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    query: dict[str, object] | None = None,
) -> Any:
    """The body of the answer to one call."""

    async def session(queue: TaskQueue) -> Any:
        return (await (await calls_of(queue)).call(method, path, body, query=query)).body

    return with_queue(common, session)


async def calls_of(queue: TaskQueue) -> Calls:
    """The API of an open queue: of its gateway, or of this process on the store."""
    http = http_of(queue)
    if http is not None:
        return http
    from holdfast.gateway.local import LocalApi

    return await LocalApi.open(queue, actor())


def v1(*parts: str) -> str:
    """A path of `/api/v1`."""
    return path_of(*parts)


def v2(*parts: str) -> str:
    """A path of `/api/v2/sync`."""
    return path_of(*parts, prefix="/api/v2/sync")
