"""The API for commands: that of the gateway that is given, else the same operations on the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from holdfast.app import TaskQueue, http_of
from holdfast.cli.ids import PREFIX_MIN
from holdfast.cli.operations import Operations
from holdfast.cli.options import Common
from holdfast.cli.problem import Usage
from holdfast.cli.session import actor, with_queue
from holdfast.client.calls import Calls, path_of

T = TypeVar("T")
ID_CHARS: Final = 32
"""An id of this length or more is complete."""
LISTED_MAX: Final = 1_000
"""Rows among which a prefix is looked up."""


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
    query: Mapping[str, object] | None = None,
) -> Any:
    """The body of the answer to one call."""

    async def session(queue: TaskQueue) -> Any:
        return (await (await calls_of(queue)).call(method, path, body, query=query)).body

    return with_queue(common, session)


def whole_id(common: Common, noun: str, text: str, **query: object) -> str:
    """The id of a decision, conflict, token, block, … that starts with the text. Usage if several do; a text
    that fits none is returned as it is. `query`: where to look."""
    if not PREFIX_MIN <= len(text) < ID_CHARS:
        return text
    items = answer_of(common, "GET", v1(noun), query={"limit": LISTED_MAX, **query})["items"]
    fitting = [item["id"] for item in items if item["id"].startswith(text)]
    if len(fitting) > 1:
        raise Usage(f"several {noun} start with '{text}': {fitting[0]}, {fitting[1]}; type more")
    return fitting[0] if fitting else text


async def calls_of(queue: TaskQueue) -> Calls:
    """The API of an open queue: of its gateway, or of this process on the store."""
    http = http_of(queue)
    if http is not None:
        return http
    from holdfast.gateway.local import LocalApi

    return await LocalApi.open(queue, actor())


@asynccontextmanager
async def working_calls_of(queue: TaskQueue) -> AsyncIterator[Calls]:
    """The same for a command that begins an operation and waits for it. On a store, this process advances the
    operation meanwhile."""
    http = http_of(queue)
    if http is not None:
        yield http
        return
    from holdfast.gateway.local import LocalApi

    api = await LocalApi.open(queue, actor())
    async with api.working():
        yield api


def v1(*parts: str) -> str:
    """A path of `/api/v1`."""
    return path_of(*parts)


def v2(*parts: str) -> str:
    """A path of `/api/v2/sync`."""
    return path_of(*parts, prefix="/api/v2/sync")
