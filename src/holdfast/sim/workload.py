"""The clients of a simulated cluster: they enqueue all kinds of tasks and act as operators.

Promises: every method of a queue is used (`tests/sim/test_verbs.py`); acknowledged writes are recorded.
All random choices come from the given draw.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.handler_outcomes import KEYED, KEYS, TYPES
from holdfast.sim.operators import Operator
from holdfast.sim.record import Record
from holdfast.sim.user_handlers import UserHandlers

PRIORITIES: Final = ("critical", "high", "normal", "low")
WAIT_SECONDS: Final = 5.0


class Client:
    """Enqueues, cancels, replays and inspects tasks."""

    def __init__(
        self,
        name: str,
        queue: Queue,
        record: Record,
        draw: Draw,
        user_handlers: UserHandlers | None = None,
        *,
        children: int = 1,
    ) -> None:
        self._user_handlers = user_handlers
        self._children = children
        self._name = name
        self._queue = queue
        self._record = record
        self._draw = draw
        self._requests = 0
        self._operator = Operator(name, queue, record, draw)

    async def act(self) -> None:
        """Makes one random request. Errors of the store are expected."""
        verbs: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self._enqueue,) * 8,
            *(
                self._enqueue_family,
                self._enqueue_many,
                self._enqueue_group,
                self._enqueue_keyed,
                self._wait,
                self._trickle,
            ),
            *self._operator.verbs,
        )
        if self._user_handlers is not None:
            verbs = (*(self._enqueue_user_task,) * 6, *self._operator.of_any_task)
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
            {"n": self._requests},
            priority=self._draw.pick(PRIORITIES),
            delay=delay,
            max_attempts=self._draw.whole(1, 4),
            key=self._draw.pick(KEYS) if task_type == KEYED else None,
        )
        self._record.acked(handle.id, task_type)

    async def _enqueue_user_task(self) -> None:
        """Enqueues a task of a user's handler with one of the payloads of its type."""
        assert self._user_handlers is not None
        task_type = self._draw.pick(self._user_handlers.types)
        payload = self._draw.pick(self._user_handlers.payloads.get(task_type) or ({},))
        handle = await self._queue.enqueue(task_type, payload, priority=self._draw.pick(PRIORITIES))
        self._record.acked(handle.id, task_type)

    async def _enqueue_keyed(self) -> None:
        """Repeats a request under one idempotency key: it must create one task."""
        self._requests += 1
        key = f"{self._name}-{self._requests}"
        for _ in range(self._draw.whole(1, 3)):
            try:
                handle = await self._queue.enqueue("quick", {"key": key}, idempotency_key=key)
            except StoreUnavailable:
                continue
            self._record.acked(handle.id, "quick", key)

    async def _enqueue_many(self) -> None:
        types = [self._draw.pick(TYPES) for _ in range(self._draw.whole(1, 12))]
        handles = await self._queue.enqueue_many(
            [
                {
                    "type": task_type,
                    "payload": None,
                    **({"key": KEYS[0]} if task_type == KEYED else {}),
                }
                for task_type in types
            ]
        )
        for handle, task_type in zip(handles, types, strict=True):
            self._record.acked(handle.id, task_type)

    async def _enqueue_group(self) -> None:
        """Enqueues a named group, perhaps twice, with a task after it; or cancels the rest of it."""
        self._requests += 1
        name = f"{self._name}-group-{self._requests}"
        tasks = [{"type": "quick", "payload": {"n": n}} for n in range(self._draw.whole(1, 5))]
        group = await self._queue.enqueue_group(tasks, id=name)
        if self._draw.chance(0.5):
            group = await self._queue.enqueue_group(tasks, id=name)
        for task_id in group.task_ids:
            self._record.acked(task_id, "quick")
        if self._draw.chance(0.3):
            await (await self._queue.get_group(name)).cancel(actor=self._name)
        else:
            after = await self._queue.enqueue("quick", depends_on=[group])
            self._record.acked(after.id, "quick")

    async def _enqueue_family(self) -> None:
        """Enqueues parents, children and one grandchild, with a random dependency policy."""
        parents = []
        for _ in range(self._draw.whole(1, 3)):
            parent = await self._queue.enqueue(self._draw.pick(("quick", "flaky", "rejecting")))
            self._record.acked(parent.id, "quick")
            parents.append(parent.id)
        policy = self._draw.pick(("fail", "ignore"))
        child = await self._queue.enqueue("quick", depends_on=dict.fromkeys(parents, policy))
        self._record.acked(child.id, "quick")
        for _ in range(1, self._children):
            other = await self._queue.enqueue("quick", depends_on=dict.fromkeys(parents, policy))
            self._record.acked(other.id, "quick")
        grandchild = await self._queue.enqueue("quick", depends_on=[child.id])
        self._record.acked(grandchild.id, "quick")

    async def _trickle(self) -> None:
        """Enqueues two tasks in turn: the second arrives while the rate limit is used up."""
        for _ in range(2):
            handle = await self._queue.enqueue("rated")
            self._record.acked(handle.id, "rated")

    async def _wait(self) -> None:
        """Waits for the end of a task, with a timeout."""
        handle = await self._queue.enqueue("quick")
        self._record.acked(handle.id, "quick")
        await self._queue.wait_task(handle.id, timeout=WAIT_SECONDS)
