"""The same handlers with odd values, on workers with the database and behind a gateway: the same outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast import Cancel, Context, Snooze, TaskQueue
from holdfast.app import use_gateway
from holdfast.core.output import StreamName
from holdfast.core.submit import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from holdfast.core.task import ENDED, Task
from holdfast.errors import HoldfastError
from holdfast.queue.queue import Queue
from holdfast.store.store import Store
from holdfast.sync.worker.reads import checkpoints, output_page
from tests.integration.remote.support import ADMIN, SECONDS, Server


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


ODD: dict[str, Callable[[], Any]] = {
    "depth 32": lambda: nested(32),
    "depth 33": lambda: nested(33),
    "depth 500": lambda: nested(500),
    "NUL": lambda: "a\0b",
    "ESC": lambda: "\x1b[31mred\x1b[0m",
    "separators": lambda: "a\u2028b\x85c\x0bd",
    "bidi": lambda: "a\u202eb",
    "surrogate": lambda: "a\ud800b",
    "NUL in a key": lambda: {"a\0": {"\x1b": "\ud800"}},
    "too large": lambda: "x" * (RESULT_BYTES_MAX + 1),
    "large": lambda: '"' * (PAYLOAD_BYTES_MAX // 2 - 2),
    "integer": lambda: 10**300,
    "infinity": lambda: float("inf"),
    "object": lambda: Ellipsis,
}
"""Values that a database, a codec, a terminal or a bound may refuse."""
LIVE = ("phase", "output", "stream", "metrics")
SAMPLES = (
    "save",
    "save and go on",
    "checkpoint",
    "progress",
    *LIVE,
    "result",
    "raise",
    "cancel",
    "snooze",
    "once",
)


async def odd_live(use: str, value: Any, ctx: Context) -> object:
    match use:
        case "phase":
            await ctx.progress(0.1, "first", phase="build", iteration=1)
            await ctx.progress(0.2, phase=value)
            await ctx.progress(0.3, iteration=value)
        case "output":
            await ctx.output("before ")
            await ctx.output(value)
            await asyncio.gather(*[ctx.output(f"line {n}\n", "log") for n in range(5)])
        case "stream":
            await ctx.output(b"\xff\0" * 20_000)
            await ctx.output("more", stream=value)
        case "metrics":
            await ctx.metrics(tokens_used=3, cost=0, other=1)
            await ctx.metrics(tokens_used=2, cost=value)
    return "went on"


async def odd(use: str, name: str, ctx: Context) -> object:
    value = ODD[name]()
    match use:
        case "save":
            await ctx.save(value)
        case "save and go on":
            try:
                await ctx.save(value)
            except HoldfastError as error:
                await ctx.save("second")
                return [error.code, type(error).__name__]
        case "checkpoint":
            await ctx.checkpoint("plan", value, note="for later")
        case "progress":
            await ctx.progress(0.5, note=value if isinstance(value, str) else repr(value)[:50])
        case "result":
            return value
        case "raise":
            raise ValueError(value)
        case "cancel":
            return Cancel(value)
        case "snooze":
            return "again" if ctx.task.fence > 1 else Snooze(0.0, value)
        case "once":

            async def step(_: object) -> Any:
                return value

            return await ctx.once("step", step) == value
        case _:
            return await odd_live(use, value, ctx)
    return "went on"


async def outcomes(queue: Queue, kind: str) -> dict[tuple[str, str], str]:
    """Runs all samples. Returns the ids of their tasks."""
    keys = [(use, name) for use in SAMPLES for name in ODD]
    async with asyncio.timeout(SECONDS):
        handles = await asyncio.gather(
            *[queue.enqueue(kind, {"use": use, "name": name}) for use, name in keys]
        )
        await asyncio.gather(*[handle.wait() for handle in handles])
    return {key: handle.id for key, handle in zip(keys, handles, strict=True)}


async def reports(store: Store, task: Task) -> dict[str, object]:
    """What its handler reported, in rows and events."""
    points = await checkpoints(store, task.id)
    history = await store.feed.history(task.id)
    return {
        "points": [(row.nth, row.type, row.note, row.data_json) for row in points],
        "output": {
            name: (await output_page(store, task, name, start=0, size=1_048_576)).data
            for name in StreamName
        },
        "metrics": await store.reads.metrics(task.id),
        "events": [event.kind for event in history],
        "live": [
            (event.kind, {**event.data, "node": ""})
            for event in history
            if event.kind in ("task.output", "task.metrics", "task.progress")
        ],
    }


def shown(task: Task) -> dict[str, object]:
    """What must not depend on where the handler ran."""
    failure = task.failure
    evidence = None
    if failure is not None:
        # The names of the types differ; a traceback has the frames of its process.
        evidence = (failure.kind, failure.error_type, failure.message)
    return {
        "status": task.status,
        "attempts": (task.attempts, task.deaths, task.fence),
        "result": task.result_json,
        "failure": evidence,
        "checkpoint": task.checkpoint_json,
        "progress": task.progress_json,
        "held_by": task.held_by,
    }


async def test_odd_values_have_the_same_outcome_behind_a_gateway(gateway: Server, url: str) -> None:
    settings: dict[str, Any] = {
        "lease_seconds": 30.0,
        "base_retry_delay": 0.01,
        "default_max_attempts": 1,
        # A worker for each task. A task that is prefetched for a busy worker may be given back before it
        # starts, which raises its fence and depends on the load of the machine, not on the handler.
        "max_workers": len(SAMPLES) * len(ODD),
    }
    local, remote = TaskQueue(url, **settings), TaskQueue("sqlite://", **settings)
    local.task(name="embedded")(odd)
    remote.task(name="remote")(odd)
    use_gateway(remote, gateway.address, ADMIN)
    async with local:
        embedded_ids = await outcomes(local, "embedded")
        async with remote:
            remote_ids = await outcomes(remote, "remote")
        store = (await local.open()).store
        rows = await store.reads.get([*embedded_ids.values(), *remote_ids.values()])
        seen = {id: shown(task) | await reports(store, task) for id, task in rows.items()}
    different = {
        key: (seen[embedded_ids[key]], seen[remote_ids[key]])
        for key in embedded_ids
        if seen[embedded_ids[key]] != seen[remote_ids[key]]
    }
    assert different == {}
    assert all(task.status in ENDED for task in rows.values())
