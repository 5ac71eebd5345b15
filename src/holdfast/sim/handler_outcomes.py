"""The handlers of simulated workers: quick, slow, failing, slow to cancel, fatal to their process.

Promises: every outcome of an attempt occurs, including a handler that is slow to stop and one that loses a
lock it holds. The record has the start and end of each run. Stored tracebacks name `_do`: seeds depend on it.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.command import Cancel, Snooze
from holdfast.core.task import Task
from holdfast.engine.context import Context
from holdfast.engine.handlers import Reject
from holdfast.errors import LeaseLost
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.record import Record

CONCURRENCY: Final = 2
RATE: Final = 5
RATE_SECONDS: Final = 10
KEY_CONCURRENCY: Final = 1
TICK: Final = "tick"
NIGHTLY: Final = "nightly"
"""A scheduled type with its own rules, which only some nodes have a handler for."""
STALLING: Final = "stalling"
"""A type whose runs sometimes make no progress for longer than its progress timeout. Only operators behind
gateways enqueue it."""
EXTERNAL: Final = "external"
"""The type of tasks that offline nodes make and claim by id."""
NIGHTLY_CONCURRENCY: Final = 1
NIGHTLY_ATTEMPTS: Final = 7
KEYED: Final = "keyed"
"""A fair type: its keys take turns."""
KEYS: Final = ("ada", "grace", "linus")
TYPES: Final = (
    *("quick", "slow", "flaky", "sleepy", "limited", "rated", "saving", "rejecting", "poison"),
    *("long", "borrower", KEYED, "asking"),
)
RULES: Final[dict[str, dict[str, object]]] = {
    "limited": {"concurrency": CONCURRENCY},
    "rated": {"rate": f"{RATE}/{RATE_SECONDS}s"},
    KEYED: {"key_concurrency": KEY_CONCURRENCY, "fair": True},
    STALLING: {"progress_timeout": 4.0},
    NIGHTLY: {"concurrency": NIGHTLY_CONCURRENCY, "max_attempts": NIGHTLY_ATTEMPTS},
}


def has_handler(node: str, task_type: str) -> bool:
    """Whether a worker has a handler of this type: every other worker has the nightly one. Gateways claim for
    remote workers, which have none. Tasks of offline nodes have no handler."""
    if task_type == EXTERNAL:
        return False
    if not node.startswith("w"):
        return task_type in (*TYPES, STALLING)
    return task_type != NIGHTLY or int(node.removeprefix("w")) % 2 == 0


def is_fair(task_type: str) -> bool:
    """Whether the keys of this type take turns."""
    return bool(RULES.get(task_type, {}).get("fair"))


class HandlerOutcomes:
    """The handlers of one node."""

    def __init__(self, node: Node, record: Record, draw: Draw) -> None:
        self._node = node
        self._record = record
        self._draw = draw

    def register(self, queue: Queue) -> None:
        """Registers the types of this node on a queue."""
        for name in (*TYPES, TICK, NIGHTLY, STALLING):
            if has_handler(self._node.name, name):
                rules: dict[str, object] = RULES.get(name, {})
                queue.register_handler(name, self._run, **rules)  # type: ignore[arg-type]

    async def _run(self, task: Task, ctx: Context) -> object:
        run = self._record.entered(task.id, task.fence, self._node.life, ctx)
        try:
            value = await self._do(task, ctx)
        finally:
            self._record.left(run)
        self._record.completed.setdefault(task.id, []).append(task.fence)
        return value

    async def _do(self, task: Task, ctx: Context) -> object:  # noqa: C901 - one case for each type
        draw, clock = self._draw, self._node.clock
        match task.type:
            case "slow":
                await clock.sleep(draw.wait(8.0))
            case "long":
                await self._unwind_slowly(draw.between(4.0, 12.0), draw.between(0.2, 3.0))
            case "flaky" if draw.chance(0.5):
                await clock.sleep(draw.wait(0.5))
                raise RuntimeError("flaky")
            case "sleepy" if draw.chance(0.5):
                return Snooze(draw.wait(20.0), "later")
            case "sleepy" if draw.chance(0.1):
                return Cancel("not wanted")
            case "limited" | "rated" | "keyed" | "nightly":
                await clock.sleep(draw.wait(3.0))
            case "saving":
                step = int(ctx.saved or 0)
                await ctx.save(step + 1)
                await ctx.progress(0.5)
                if draw.chance(0.3):
                    raise RuntimeError("after saving")
            case "stalling":
                await clock.sleep(draw.between(0.0, 12.0))
                await ctx.progress(0.5)
                await clock.sleep(draw.between(0.0, 6.0))
            case "asking":
                await self._ask(ctx)
            case "rejecting" if draw.chance(0.5):
                raise Reject("never will do")
            case "borrower" if draw.chance(0.5):
                await clock.sleep(draw.wait(1.0))
                raise LeaseLost("the lock 'attic' is lost: its time ran out")
            case "poison" if draw.chance(0.6):
                self._node.die(draw.wait(5.0))
                await clock.sleep(1.0)
        return {"type": task.type}

    async def _ask(self, ctx: Context) -> None:
        """Asks twice: the first question has a default at its deadline, the second waits for an answer."""
        deadline = self._draw.between(5.0, 60.0)
        await ctx.decide("Go?", options=["yes", "no"], deadline=deadline, default="no")
        await self._node.clock.sleep(self._draw.wait(1.0))
        await ctx.decide("Really?", key="really", options=["yes", "no"])

    async def _unwind_slowly(self, seconds: float, cleanup_seconds: float) -> None:
        """Works, and takes `cleanup_seconds` to clean up when cancelled."""
        done = False
        try:
            await self._node.clock.sleep(seconds)
            done = True
        finally:
            if not done:
                await self._node.clock.sleep(cleanup_seconds)
