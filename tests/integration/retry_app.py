"""Handlers of every kind that fail with the error that they are given."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import BlockingContext, Context, Event, Retry, TaskQueue, Unique


class Temporary(ConnectionError): ...


class Permanent(Exception): ...


ERRORS: dict[str, type[Exception]] = {
    "connection": ConnectionError,
    "temporary": Temporary,
    "permanent": Permanent,
    "value": ValueError,
}


async def in_loop(name: str) -> None:
    raise ERRORS[name](name)


def in_thread(name: str) -> None:
    raise ERRORS[name](name)


def in_process(name: str) -> None:
    raise ERRORS[name](name)


FUNCTIONS = {"loop": in_loop, "thread": in_thread, "process": in_process}


def make(url: str, isolation: str, **options: Any) -> TaskQueue:
    queue = TaskQueue(url, base_retry_delay=0.001)
    define: Any = queue.task
    define(name="fail", max_attempts=2, isolation=isolation, **options)(FUNCTIONS[isolation])
    return queue


def pause(attempt: int, error: BaseException) -> float | timedelta | None:
    """A `retry_delay` that tells errors apart, and fails for one of them."""
    match error:
        case Temporary():
            return timedelta(hours=attempt)
        case ConnectionError():
            return 7_200.0
        case ValueError():
            raise LookupError("no pause for this")
        case _:
            return None


def answer(how: str) -> Retry:
    """What a handler says that wants another attempt."""
    match how:
        case "returned":
            return Retry("not yet", after=3_600)
        case "raised":
            raise Retry("not yet", after=timedelta(hours=2))
        case "too late":
            raise Retry("not yet", after=-1)
        case "from an error":
            try:
                raise Temporary("no route")
            except Temporary as error:
                raise Retry(after=1_800) from error
        case _:
            raise Retry("soon")


async def asks_in_loop(how: str) -> str | Retry:
    return answer(how)


def asks_in_thread(how: str) -> str | Retry:
    return answer(how)


def asks_in_process(how: str) -> str | Retry:
    return answer(how)


ASKING = {"loop": asks_in_loop, "thread": asks_in_thread, "process": asks_in_process}


async def pauses(queue: TaskQueue, requests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Enqueues tasks that fail and are tried again. Returns the pause and the failure of each."""
    failed: dict[str, Event] = {}
    changed = asyncio.Event()

    def watch(event: Event) -> None:
        if event.kind == "task.failed" and event.task_id is not None:
            failed.setdefault(event.task_id, event)
            changed.set()

    stop = queue.on_event(watch)
    handles = {name: await queue.enqueue(**request) for name, request in requests.items()}
    async with asyncio.timeout(60):
        while len(failed) < len(handles):
            await changed.wait()
            changed.clear()
    await stop()
    found = {}
    for name, handle in handles.items():
        event, task = failed[handle.id], await handle.get()
        assert task.failure is not None
        paused = event.data["next_retry_at"] - event.at
        found[name] = (round(paused, 2), task.failure.error_type, task.failure.message)
    return found


def options(at: float) -> dict[str, Any]:
    """Options of a task that a handler enqueues."""
    return {"run_at": datetime.fromtimestamp(at, UTC), "timeout": timedelta(minutes=1)}


async def enqueued(ctx: Context, at: float) -> str:
    return str(await ctx.enqueue("work", **options(at)))


def follows_in_process(ctx: BlockingContext, at: float) -> str:
    return str(ctx.enqueue("work", **options(at)))


def unique_in_process(ctx: BlockingContext) -> list[str]:
    window = Unique(period=timedelta(hours=1))
    return [str(ctx.enqueue("work", {"n": 1}, unique=window)) for _ in range(2)]
