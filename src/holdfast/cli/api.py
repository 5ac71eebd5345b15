"""The API for commands: that of the gateway that is given, else the same operations on the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from holdfast.app import TaskQueue, http_of
from holdfast.cli.ids import LAST, PREFIX_MIN, WHOLE_ID
from holdfast.cli.operations import Operations
from holdfast.cli.options import Common
from holdfast.cli.problem import Usage
from holdfast.cli.session import actor, with_queue
from holdfast.client.calls import Calls, DryCalls, path_of
from holdfast.errors import NotFound

T = TypeVar("T")
NODES: Final = "nodes"
"""A list without pages."""
EMPTY: Final = "an id is empty: check that the variable of your script is set"
LISTED_MAX: Final = 1_000
"""Rows among which a prefix is looked up."""


def with_operations(
    common: Common, work: Callable[[Operations], Awaitable[T]], *, dry_run: bool = False
) -> T:
    """Runs a command that changes something. `dry_run`: each change is answered, and not made."""

    async def session(queue: TaskQueue) -> T:
        return await work(await operations_of(queue, dry_run=dry_run))

    return with_queue(common, session)


async def operations_of(queue: TaskQueue, *, dry_run: bool = False) -> Operations:
    """The operations of an open queue."""
    return Operations(await calls_of(queue, dry_run=dry_run), queue.parts)


def answer_of(
    common: Common,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    query: Mapping[str, object] | None = None,
    dry_run: bool = False,
) -> Any:
    """The body of the answer to one call. Of a dry run: the answer that the change would get."""

    async def session(queue: TaskQueue) -> Any:
        calls = await calls_of(queue, dry_run=dry_run)
        return (await calls.call(method, path, body, query=query)).body

    return with_queue(common, session)


def whole_id(common: Common, noun: str, text: str, **query: object) -> str:
    """The id of a decision, conflict, token, block, … that the text stands for: see `full_id`."""

    async def session(queue: TaskQueue) -> str:
        return await full_id(await calls_of(queue), noun, text, **query)

    return text if _is_whole(text) else with_queue(common, session)


def named_id(common: Common, noun: str, text: str) -> str:
    """The same for objects with names: a name counts before a prefix of an id."""

    async def session(queue: TaskQueue) -> str:
        calls = await calls_of(queue)
        page = (await calls.call("GET", v1(noun), query={"limit": LISTED_MAX})).body
        found = [str(item["id"]) for item in page["items"] if item["name"] == text]
        if len(found) > 1:
            raise Usage(
                f"several {noun} have the name '{text}': {', '.join(found)}; give the id of one"
            )
        return found[0] if found else await full_id(calls, noun, text)

    return text if WHOLE_ID.fullmatch(text) else with_queue(common, session)


async def full_id(calls: Calls, noun: str, text: str, **query: object) -> str:
    """The one id of the list that starts with the text, or with `@last` the highest one. Usage if several do;
    a text that fits none is returned as it is. `query`: where to look."""
    if not text:
        raise Usage(EMPTY)
    if _is_whole(text):
        return text
    page = {} if noun == NODES else {"limit": LISTED_MAX}
    items = (await calls.call("GET", v1(noun), query={**page, **query})).body["items"]
    ids = [str(item["id"]) for item in items]
    if text == LAST:
        if not ids:
            raise NotFound(f"there are no {noun} yet, so @last means none")
        return max(ids)
    fitting = [id for id in ids if id.startswith(text)]
    if len(fitting) > 1 and text not in fitting:
        raise Usage(f"several {noun} start with '{text}': {fitting[0]}, {fitting[1]}; type more")
    return text if text in fitting or not fitting else fitting[0]


def _is_whole(text: str) -> bool:
    """Whether the text can be looked up only as it is: a whole id, or too short for a prefix."""
    return text != LAST and (len(text) < PREFIX_MIN or WHOLE_ID.fullmatch(text) is not None)


async def calls_of(queue: TaskQueue, *, dry_run: bool = False) -> Calls:
    """The API of an open queue: of its gateway, or of this process on the store. `dry_run`: its changes are
    dry runs."""
    http = http_of(queue)
    if http is None:
        from holdfast.gateway.local import LocalApi

        local = await LocalApi.open(queue, actor())
        return DryCalls(local) if dry_run else local
    return DryCalls(http) if dry_run else http


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
    return path_of(*_named(parts))


def v2(*parts: str) -> str:
    """A path of `/api/v2/sync`."""
    return path_of(*_named(parts), prefix="/api/v2/sync")


def _named(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of a path. Usage if one is empty: it would be the path of another call, or of none."""
    if "" in parts:
        raise Usage(EMPTY)
    return parts
