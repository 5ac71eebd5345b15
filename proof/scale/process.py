"""One process of a measurement: ``python -m proof.scale.process ROLE``, with its options in SCALE_OPTIONS.

Prints `ready`, waits for a line on stdin, does its work, prints its figures as one JSON line, and ends when
its stdin is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast import Context, Task, TaskQueue
from holdfast.bus import postgres as bus
from holdfast.engine.sweeper import PRUNE_BATCH

CALLERS: Final = 64
BULK: Final = 1_000
NOTE: Final = "a payload of some size"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the process does."""

    url: str
    n: int = 0
    """Tasks, events or connections."""
    seconds: float = 0.0
    """How long an idle process is measured."""
    kind: str = "noop"
    """The type of the tasks: `noop`, `output` or `progress`."""
    hints: str = "rationed"
    """`always`: as if commits with a NOTIFY took no time. `none`: without NOTIFY. To compare."""


HINTS: Final[dict[str, dict[str, object]]] = {
    "rationed": {},
    "always": {"HINT_COST": 0.0},
    "none": {"AT_ONCE": 0, "FOLLOW_SECONDS": 3_600.0},
}


class Left:
    """Tasks that have not run yet."""

    def __init__(self) -> None:
        self.n = 0
        self.none = asyncio.Event()

    def ran(self) -> None:
        self.n -= 1
        if self.n == 0:
            self.none.set()


left = Left()


async def noop(task: Task) -> None:
    """The smallest task."""
    left.ran()


async def output(task: Task) -> str:
    """A result of 1,000 bytes."""
    left.ran()
    return "x" * 1_000


async def progress(task: Task, ctx: Context) -> None:
    """Two reports of progress."""
    await ctx.progress(0.3, "a third")
    await ctx.progress(0.6, "two thirds")
    left.ran()


def queue_of(options: Options) -> TaskQueue:
    """The queue with its handlers. Nothing is pruned during a measurement."""
    queue = TaskQueue(options.url, max_workers=100)
    for handler in (noop, output, progress):
        queue.register_handler(handler.__name__, handler)
    return queue


async def one_by_one(queue: TaskQueue, options: Options) -> int:
    for n in range(options.n):
        await queue.enqueue(options.kind, {"n": n, "note": NOTE})
    return options.n


async def callers(queue: TaskQueue, options: Options) -> int:
    numbers = iter(range(options.n))

    async def call() -> None:
        for n in numbers:
            await queue.enqueue(options.kind, {"n": n, "note": NOTE})

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(call())
    return options.n


async def bulk(queue: TaskQueue, options: Options) -> int:
    for start in range(0, options.n, BULK):
        numbers = range(start, min(start + BULK, options.n))
        await queue.enqueue_many(
            [{"type": options.kind, "payload": {"n": n, "note": NOTE}} for n in numbers]
        )
    return options.n


async def drain(queue: TaskQueue, options: Options) -> int:
    """Runs tasks until the store has nothing that is not finished."""
    left.n = options.n
    await queue.start()
    await left.none.wait()
    await queue.stop()
    return options.n


async def watch(queue: TaskQueue, options: Options) -> int:
    """Reads the whole feed."""
    count = 0
    async for _ in queue.events(follow=False):
        count += 1
    return count


async def prune(queue: TaskQueue, options: Options) -> int:
    """Deletes all finished tasks and their events, in the batches of a sweeper."""
    store = (await queue.open()).store
    gone, now = 0, store.now() + 1
    while more := await store.prune(
        before=now, dead_before=now, feed_before=now, limit=PRUNE_BATCH
    ):
        gone += more
    return options.n


async def idle(queue: TaskQueue, options: Options) -> int:
    await asyncio.sleep(options.seconds)
    return 1


ROLES: Final[dict[str, Callable[[TaskQueue, Options], Awaitable[int]]]] = {
    "one": one_by_one,
    "callers": callers,
    "bulk": bulk,
    "drain": drain,
    "watch": watch,
    "prune": prune,
    "idle_worker": idle,
    "idle_watcher": idle,
}


async def prepare(role: str, queue: TaskQueue) -> None:
    """Connects. An idle process has settled before it is measured."""
    await queue.open()
    if role == "idle_watcher":
        queue.on_event(lambda _: None)
    if role == "idle_worker":
        await queue.start()


async def run(role: str, options: Options) -> None:
    vars(bus).update(HINTS[options.hints])
    queue = queue_of(options)
    await prepare(role, queue)
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    started_at, cpu = time.monotonic(), time.process_time()
    done = await ROLES[role](queue, options)
    figures: dict[str, Any] = {
        "n": done,
        "seconds": time.monotonic() - started_at,
        "cpu": time.process_time() - cpu,
    }
    say(json.dumps(figures))
    await asyncio.to_thread(sys.stdin.read)
    await queue.stop()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        given = msgspec.json.decode(os.environ["SCALE_OPTIONS"], type=Options)
        runner.run(run(sys.argv[1], given))
