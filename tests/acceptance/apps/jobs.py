"""The handlers that the tests run, in the process of the test or in worker processes.

Common payload fields: `journal` (a file that records start and end), `gate` (an address to wait at).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast import BlockingContext, Cancel, Context, Reject, Snooze, Task, TaskQueue
from holdfast.errors import InvalidInput
from tests.acceptance.apps import hostile, journal, steps
from tests.acceptance.apps.gate import async_wait_at, wait_at


def payload_of(task: Task) -> dict[str, Any]:
    payload = task.payload or {}
    assert isinstance(payload, dict)
    return payload


def note(task: Task, what: str) -> None:
    payload = payload_of(task)
    if "journal" in payload:
        journal.write(payload["journal"], what, task.id, str(payload.get("note", "")))


async def work(task: Task, ctx: Context) -> Any:
    """Records its start, waits at the gate if there is one, sleeps if requested, records its end."""
    payload = payload_of(task)
    note(task, "start")
    if "gate" in payload:
        await async_wait_at(payload["gate"], payload.get("name", task.id))
    await asyncio.sleep(payload.get("seconds", 0))
    note(task, "end")
    if "times" in payload:
        return payload["value"] * payload["times"]
    return payload.get("value", task.id)


def thread_work(task: Task, ctx: BlockingContext) -> Any:
    payload = payload_of(task)
    note(task, "start")
    if "gate" in payload:
        wait_at(payload["gate"], payload.get("name", task.id))
    note(task, "end")
    return {"cancelled": ctx.cancel_requested, "value": payload.get("value")}


def process_work(task: Task, ctx: BlockingContext) -> Any:
    payload = payload_of(task)
    note(task, "start")
    if "gate" in payload:
        wait_at(payload["gate"], f"{payload.get('name', task.id)}")
    note(task, "end")
    return {"pid": os.getpid(), "value": payload.get("value")}


def process_pid(task: Task) -> int:
    return os.getpid()


async def async_life(task: Task, ctx: Context) -> Any:
    """Uses all features of a context."""
    before = ctx.saved
    await ctx.progress(0.4, "begun", phase="build", iteration=1)
    await ctx.progress(0.5, "half", phase="test")
    await asyncio.gather(*[ctx.output(f"line {n}\n") for n in range(3)])
    await ctx.output(b"\xff\0", stream="stderr")
    await ctx.metrics(tokens_used=1200, cost=0.5, pages=0)
    point = await ctx.checkpoint("begun", {"by": "a name"}, note="half")
    assert (point[:4], ctx.saved) == ("ckp_", {"by": "a name"})
    await ctx.save({"attempt": ctx.attempt})
    parents = [parent.result for parent in (await ctx.parents()).values()]
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return {"before": before, "parents": parents, "fence": ctx.fence, "saved": ctx.saved}


def blocking_life(task: Task, ctx: BlockingContext) -> Any:
    before = ctx.saved
    ctx.progress(0.4, "begun", phase="build", iteration=1)
    ctx.progress(0.5, "half", phase="test")
    for n in range(3):
        ctx.output(f"line {n}\n")
    ctx.output(b"\xff\0", stream="stderr")
    ctx.metrics(tokens_used=1200, cost=0.5, pages=0)
    point = ctx.checkpoint("begun", {"by": "a name"}, note="half")
    assert (point[:4], ctx.saved) == ("ckp_", {"by": "a name"})
    ctx.save({"attempt": ctx.attempt})
    parents = [parent.result for parent in ctx.parents().values()]
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return {"before": before, "parents": parents, "fence": ctx.fence, "saved": ctx.saved}


class Mute(Exception):
    """An error that fails to give its message."""

    def __str__(self) -> str:
        raise LookupError


def leave(task: Task) -> None:
    """Ends its process in one of several abnormal ways."""
    how = payload_of(task)["how"]
    note(task, "start")
    if how == "exit":
        sys.exit(3)
    if how == "os._exit":
        os._exit(4)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "fork":
        if os.fork() == 0:
            wait_at(payload_of(task)["gate"], "grandchild")
            os._exit(0)
        os._exit(5)
    if how == "mute":
        raise Mute
    if how == "cancelled":
        raise asyncio.CancelledError
    if how == "hang up":
        hang_up()
        wait_at(payload_of(task)["gate"], f"{os.getpid()}")
        os._exit(6)
    raise AssertionError(f"'{how}' did not end the process")


def hang_up() -> None:
    """Shuts down the sockets of this process for writing, as a handler would that closes sockets which it
    does not own. The process continues."""
    for path in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):
            end = socket.socket(fileno=os.dup(int(path.name)))
            if end.family == socket.AF_UNIX:
                end.shutdown(socket.SHUT_WR)
            end.close()


async def async_leave(task: Task) -> None:
    leave(task)


async def give_back(task: Task) -> Any:
    """Returns values that are not valid results, or just small enough."""
    how = payload_of(task)["how"]
    note(task, "start")
    return {"object": object(), "huge": "x" * 1_100_000, "big": "x" * 900_000, "none": None}[how]


def process_give_back(task: Task) -> Any:
    how = payload_of(task)["how"]
    note(task, "start")
    return {"object": object(), "huge": "x" * 1_100_000, "big": "x" * 900_000, "none": None}[how]


def outcome(task: Task) -> Any:
    """Ends with an outcome other than a value."""
    how = payload_of(task)["how"]
    note(task, "start")
    if how == "reject":
        raise Reject("never")
    if how == "cancel":
        return Cancel("not wanted")
    if how == "snooze" and task.checkpoint is None and task.fence == 1:
        return Snooze(0.05, "not yet")
    return "done"


async def overdo(task: Task, ctx: Context) -> Any:
    """Catches an error of the context, and continues."""
    try:
        await ctx.progress(0.5, "x" * 10_000)
    except InvalidInput as error:
        await ctx.progress(0.5, "less")
        return error.code
    return None


def blocking_overdo(task: Task, ctx: BlockingContext) -> Any:
    try:
        ctx.progress(0.5, "x" * 10_000)
    except InvalidInput as error:
        ctx.progress(0.5, "less")
        return error.code
    return None


def chatter(task: Task, ctx: BlockingContext) -> Any:
    """Calls the context from several threads at once. Returns how many answers belong to other calls."""
    note = "x" * 1_500

    def report(_: int) -> bool:
        return ctx.progress(0.5, note) is not None  # type: ignore[func-returns-value]

    with ThreadPoolExecutor(3) as pool:
        reports = pool.map(report, range(60))
        wrong = [ctx.parents() != {} for _ in range(60)]
        return sum(wrong) + sum(reports)


def spin(task: Task) -> None:
    """Never ends, and ignores its cancellation."""
    payload = payload_of(task)
    if "gate" in payload:
        wait_at(payload["gate"], str(os.getpid()))
    while True:
        time.sleep(payload.get("step", 0.01))


HANDLERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "work": (work, {}),
    "thread_work": (thread_work, {}),
    "process_work": (process_work, {"isolation": "process"}),
    "process_pid": (process_pid, {"isolation": "process"}),
    "async_life": (async_life, {}),
    "thread_life": (blocking_life, {}),
    "process_life": (blocking_life, {"isolation": "process"}),
    "leave": (async_leave, {}),
    "thread_leave": (leave, {}),
    "process_leave": (leave, {"isolation": "process"}),
    "give_back": (give_back, {}),
    "process_give_back": (process_give_back, {"isolation": "process"}),
    "thread_outcome": (outcome, {}),
    "process_outcome": (outcome, {"isolation": "process"}),
    "overdo": (overdo, {}),
    "thread_overdo": (blocking_overdo, {}),
    "process_overdo": (blocking_overdo, {"isolation": "process"}),
    "thread_chatter": (chatter, {}),
    "process_chatter": (chatter, {"isolation": "process"}),
    "thread_hostile": (hostile.hostile, {}),
    "process_hostile": (hostile.hostile, {"isolation": "process"}),
    "thread_named_result": (hostile.named_result, {}),
    "process_named_result": (hostile.named_result, {"isolation": "process"}),
    "process_spin": (spin, {"isolation": "process"}),
    "pay_outside": (steps.pay_outside, {}),
    "thread_pay_outside": (steps.pay_outside_blocking, {}),
    "process_pay_and_die": (steps.pay_and_die, {"isolation": "process"}),
    "pay_inside": (steps.pay_inside, {}),
    "one_by_one": (work, {"concurrency": 1}),
    "four_at_once": (work, {"concurrency": 4}),
    "keyed": (work, {"key_concurrency": 2}),
    "rated": (work, {"rate": "20/s"}),
    "key_rated": (work, {"key_rate": "5/s"}),
}


def make_queue(url: str, *types: str, **settings: Any) -> TaskQueue:
    """Makes a queue with these handlers, or with all."""
    queue = TaskQueue(url, **settings)
    for name in types or HANDLERS:
        handler, options = HANDLERS[name]
        queue.register_handler(name, handler, **options)
    return queue
