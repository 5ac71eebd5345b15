"""What type checkers see of correct calls. `make check` runs mypy on it, `test_types.py` pyright."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from holdfast import (
    BlockingContext,
    BlockingGroupHandle,
    BlockingTaskHandle,
    Cancel,
    Context,
    GroupHandle,
    Priority,
    Retry,
    Snooze,
    Status,
    TaskFunction,
    TaskHandle,
    TaskQueue,
    Unique,
    WorkerState,
)

queue = TaskQueue()


@queue.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@queue.task(timeout=3, priority="high", name="fetch_page")
async def fetch(ctx: Context, url: str, *, depth: int = 0) -> dict[str, int] | Snooze | Cancel:
    await ctx.progress(0.5)
    return {url: depth}


def pause(attempt: int, error: BaseException) -> float | timedelta | None:
    return timedelta(minutes=attempt) if isinstance(error, OSError) else None


@queue.task(timeout=timedelta(minutes=3), retry_delay=pause, cron=timedelta(hours=1))
async def asks(ctx: Context) -> int | Retry:
    return ctx.attempt or Retry("not yet", after=timedelta(hours=1))


@queue.middleware
async def timed(ctx: Context, call_next: Callable[[], Awaitable[object]]) -> object:
    return await call_next()


@queue.middleware
def counted(ctx: BlockingContext, call_next: Callable[[], object]) -> object:
    return call_next()


@queue.on_start
async def opened() -> AsyncIterator[dict[str, int]]:
    yield {}


@queue.on_start
def connected() -> float:
    return 3.0


@queue.on_stop
async def closed(state: WorkerState) -> None:
    assert_type(state[float], float)
    assert_type(state.get(str), str | None)


@queue.task(isolation="process")
def render(ctx: BlockingContext, pages: list[str]) -> str:
    ctx.progress(0.5)
    return "".join(pages)


@queue.task
async def late(url: str, ctx: Context) -> str:
    """The context is not the first parameter: the result has its type, the arguments are not checked."""
    return f"{url}{ctx.attempt}"


@queue.task
def loose(value: object, n: int) -> str:
    """As above: the first parameter takes any object, a context too."""
    return f"{value}{n}"


@queue.task
def nothing() -> None: ...


def takes_any(task: TaskFunction[[int, int], int]) -> None:
    """A task is a value: it may be passed on."""
    assert_type(task.type, str)


async def main() -> None:
    later = asks.options(run_at=datetime(2030, 1, 1, tzinfo=UTC), timeout=timedelta(minutes=1))
    assert_type(await (await later.enqueue()).result(timedelta(seconds=3)), int)
    await asks.options(delay=timedelta(hours=1)).enqueue()
    window = Unique(period=timedelta(hours=1), by="a")
    assert_type(await add.options(unique=window).enqueue(1), TaskHandle[int])
    await add.options(unique=Unique(until="started", by=("a", "b"))).enqueue(1)
    await queue.schedule("often", timedelta(minutes=5), "add", {"a": 1})
    assert_type(await add.enqueue(1, b=2), TaskHandle[int])
    assert_type(await (await add.enqueue(1)).result(timeout=5), int)
    assert_type(await (await fetch.enqueue("u", depth=2)).result(), dict[str, int])
    assert_type(
        await render.options(priority=Priority.LOW, delay=3).enqueue(["a"]), TaskHandle[str]
    )
    assert_type(await (await late.enqueue("u")).result(), str)
    assert_type(await (await loose.enqueue(1, 2)).result(), str)
    assert_type(await (await nothing.enqueue()).result(), None)
    assert_type(await add(1, 2), int)
    assert_type(await queue.enqueue("add", {"a": 1}), TaskHandle[Any])
    await queue.enqueue_many([add.request(1, 2), fetch.request("u")])
    group = await queue.enqueue_group([add.request(1, 2), add.request(3, 4)])
    assert_type(group, GroupHandle[int])
    assert_type(await group.results(timedelta(minutes=1)), list[int])
    assert_type((await group.progress()).counts, dict[Status, int])
    await add.options(depends_on=[group, "another"]).enqueue(1)
    assert_type(await queue.enqueue_group([{"type": "add", "payload": {}}]), GroupHandle[Any])
    assert_type(await queue.get_group("id"), GroupHandle[Any])
    takes_any(add)
    async with queue.producer() as producer:
        assert_type(producer, TaskQueue)


def without_a_loop() -> None:
    assert_type(add.enqueue_sync(1, b=2), BlockingTaskHandle[int])
    assert_type(add.enqueue_sync(1).result(timeout=5), int)
    assert_type(queue.sync.enqueue("add", {"a": 1}), BlockingTaskHandle[Any])
    assert_type(queue.sync.enqueue_group([add.request(1)]), BlockingGroupHandle[int])


async def handler(ctx: Context) -> None:
    assert_type(await ctx.enqueue(add, 1, b=2), TaskHandle[int])
    assert_type(await ctx.enqueue(fetch.options(delay=1), "u"), TaskHandle[dict[str, int]])
    assert_type(await ctx.enqueue("add", {"a": 1}, delay=1), TaskHandle[Any])


def plain_handler(ctx: BlockingContext) -> None:
    assert_type(ctx.enqueue(add, 1), BlockingTaskHandle[int])
