"""What a simulated cluster has to do: handlers of every temper, and clients that ask for everything.

Promises: every verb of a queue is used; what a client was promised is on record. Chance comes from the
draw that is handed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.core.command import Cancel, Snooze
from holdfast.core.task import Status, Task
from holdfast.engine.context import Context
from holdfast.engine.handlers import Reject
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.own import Own
from holdfast.sim.record import Record

TYPES: Final = (
    "quick",
    "slow",
    "flaky",
    "sleepy",
    "limited",
    "rated",
    "saving",
    "rejecting",
    "poison",
)
PRIORITIES: Final = ("critical", "high", "normal", "low")
CONCURRENCY: Final = 2
RATE: Final = 5
RATE_SECONDS: Final = 10
TICK: Final = "tick"
TICK_SECONDS: Final = 60


class Temper:
    """How the handlers of one node behave."""

    def __init__(self, node: Node, record: Record, draw: Draw) -> None:
        self._node = node
        self._record = record
        self._draw = draw

    def register(self, queue: Queue) -> None:
        """Every type, on one queue."""
        for name in (*TYPES, TICK):
            concurrency = CONCURRENCY if name == "limited" else None
            rate = f"{RATE}/{RATE_SECONDS}s" if name == "rated" else None
            queue.register_handler(name, self._run, concurrency=concurrency, rate=rate)

    async def _run(self, task: Task, ctx: Context) -> object:
        self._record.ran(task.id, task.fence, self._node.life)
        value = await self._do(task, ctx)
        self._record.completed.setdefault(task.id, []).append(task.fence)
        return value

    async def _do(self, task: Task, ctx: Context) -> object:
        draw, clock = self._draw, self._node.clock
        match task.type:
            case "slow":
                await clock.sleep(draw.wait(8.0))
            case "flaky" if draw.chance(0.5):
                await clock.sleep(draw.wait(0.5))
                raise RuntimeError("flaky")
            case "sleepy" if draw.chance(0.5):
                return Snooze(draw.wait(20.0), "later")
            case "sleepy" if draw.chance(0.1):
                return Cancel("not wanted")
            case "limited" | "rated":
                await clock.sleep(draw.wait(3.0))
            case "saving":
                step = int(ctx.saved or 0)
                await ctx.save(step + 1)
                await ctx.progress(0.5)
                if draw.chance(0.3):
                    raise RuntimeError("after saving")
            case "rejecting" if draw.chance(0.5):
                raise Reject("never will do")
            case "poison" if draw.chance(0.6):
                self._node.die(draw.wait(5.0))
                await clock.sleep(1.0)
        return {"type": task.type}


class Client:
    """Asks for work, changes its mind, repairs what failed."""

    def __init__(
        self, name: str, queue: Queue, record: Record, draw: Draw, own: Own | None = None
    ) -> None:
        self._own = own
        self._name = name
        self._queue = queue
        self._record = record
        self._draw = draw
        self._asked = 0

    async def act(self) -> None:
        """One thing, whatever comes of it: an outage is no news here."""
        verbs: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self._enqueue,) * 6,
            *(self._enqueue_family, self._enqueue_many, self._enqueue_keyed),
            *(self._cancel, self._replay, self._pause, self._look),
        )
        if self._own is not None:
            verbs = (*(self._enqueue_own,) * 6, self._cancel, self._replay, self._pause, self._look)
        try:
            await self._draw.pick(verbs)()
        except StoreUnavailable:
            return
        except HoldfastError as error:
            if error.code in {"internal", "engine-failed"}:
                raise

    async def _enqueue(self) -> None:
        task_type = self._draw.pick(TYPES)
        delay = self._draw.wait(30.0) if self._draw.chance(0.2) else 0.0
        handle = await self._queue.enqueue(
            task_type,
            {"n": self._asked},
            priority=self._draw.pick(PRIORITIES),
            delay=delay,
            max_attempts=self._draw.whole(1, 4),
        )
        self._record.acked(handle.id, task_type)

    async def _enqueue_own(self) -> None:
        """A task of the user's, with one of the payloads given for its type."""
        assert self._own is not None
        task_type = self._draw.pick(self._own.types)
        payload = self._draw.pick(self._own.payloads.get(task_type) or ({},))
        handle = await self._queue.enqueue(task_type, payload, priority=self._draw.pick(PRIORITIES))
        self._record.acked(handle.id, task_type)

    async def _enqueue_keyed(self) -> None:
        """Asks again and again until it is answered: one task, however often it was asked for."""
        self._asked += 1
        key = f"{self._name}-{self._asked}"
        for _ in range(self._draw.whole(1, 3)):
            try:
                handle = await self._queue.enqueue("quick", {"key": key}, idempotency_key=key)
            except StoreUnavailable:
                continue
            self._record.acked(handle.id, "quick", key)

    async def _enqueue_many(self) -> None:
        types = [self._draw.pick(TYPES) for _ in range(self._draw.whole(1, 12))]
        handles = await self._queue.enqueue_many(
            [{"type": each, "payload": None} for each in types]
        )
        for handle, task_type in zip(handles, types, strict=True):
            self._record.acked(handle.id, task_type)

    async def _enqueue_family(self) -> None:
        """Parents and a child; the child's child fails or not as the edges say."""
        parents = []
        for _ in range(self._draw.whole(1, 3)):
            parent = await self._queue.enqueue(self._draw.pick(("quick", "flaky", "rejecting")))
            self._record.acked(parent.id, "quick")
            parents.append(parent.id)
        policy = self._draw.pick(("fail", "ignore"))
        child = await self._queue.enqueue("quick", depends_on=dict.fromkeys(parents, policy))
        self._record.acked(child.id, "quick")
        grandchild = await self._queue.enqueue("quick", depends_on=[child.id])
        self._record.acked(grandchild.id, "quick")

    async def _cancel(self) -> None:
        if self._record.acks:
            victim = self._draw.pick(self._record.acks).task_id
            await self._queue.cancel(victim, actor=self._name)
            self._record.aborted.add(victim)

    async def _replay(self) -> None:
        for task in await self._queue.get_dead_tasks(limit=5):
            if self._draw.chance(0.5):
                await self._queue.replay_dead_task(task.id)

    async def _pause(self) -> None:
        if self._draw.chance(0.5):
            await self._queue.pause_queue(actor=self._name)
        await self._queue.resume_queue(actor=self._name)
        for task in await self._queue.find_tasks(status=Status.PAUSED, limit=5):
            await self._queue.resume_task(task.id, actor=self._name)
        if self._record.acks and self._draw.chance(0.3):
            victim = self._draw.pick(self._record.acks).task_id
            await self._queue.pause_task(victim, actor=self._name)

    async def _look(self) -> None:
        await self._queue.get_stats()
        if self._record.acks:
            task_id = self._draw.pick(self._record.acks).task_id
            await self._queue.why(task_id)
            await self._queue.history(task_id)
