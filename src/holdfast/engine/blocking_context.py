"""The context of a handler in a thread.

Promises: those of `Context`, which carries out every call in the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.core import codec
from holdfast.core.decision import Decision
from holdfast.core.keywords import TaskRequest
from holdfast.core.ledger import EntryRequest
from holdfast.core.once import Step
from holdfast.core.output import StreamName
from holdfast.core.task import Task
from holdfast.engine.blocking_handle import BlockingTaskHandle
from holdfast.engine.context import Context
from holdfast.engine.follow_ups import blocking
from holdfast.engine.plain_context import PlainContext
from holdfast.engine.worker_hooks import WorkerState

T = TypeVar("T")


class BlockingContext(PlainContext):
    """The context of a handler in a thread. Calls block until the event loop answers."""

    __slots__ = ("_context", "_loop")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def task(self) -> Task:
        """See `Context.task`."""
        return self._context.task

    @property
    def state(self) -> WorkerState:
        """See `Context.state`."""
        return self._context.state

    @property
    def attempt(self) -> int:
        """See `Context.attempt`."""
        return self._context.attempt

    @property
    def fence(self) -> int:
        """See `Context.fence`."""
        return self._context.fence

    @property
    def saved(self) -> codec.Json:
        """See `Context.saved`."""
        return self._context.saved

    @property
    def cancel_requested(self) -> bool:
        """See `Context.cancel_requested`."""
        return self._context.cancel_requested

    def progress(
        self, done: float, note: str = "", *, phase: str | None = None, iteration: int | None = None
    ) -> None:
        """See `Context.progress`."""
        self._wait(lambda: self._context.progress(done, note, phase=phase, iteration=iteration))

    def output(self, data: str | bytes, stream: str = StreamName.STDOUT) -> None:
        """See `Context.output`."""
        self._wait(lambda: self._context.output(data, stream))

    def metrics(self, **totals: float) -> None:
        """See `Context.metrics`."""
        self._wait(lambda: self._context.metrics(**totals))

    def save(self, checkpoint: object) -> None:
        """See `Context.save`."""
        self._wait(lambda: self._context.save(checkpoint))

    def checkpoint(self, type: str, data: object = None, note: str = "") -> str:
        """See `Context.checkpoint`."""
        return self._wait(lambda: self._context.checkpoint(type, data, note))

    def decide(self, question: str, **options: Any) -> Decision:
        """See `Context.decide`."""
        return self._wait(lambda: self._context.decide(question, **options))

    def parents(self) -> dict[str, Task]:
        """See `Context.parents`."""
        return self._wait(self._context.parents)

    def _enqueue(self, request: TaskRequest[Any]) -> BlockingTaskHandle[Any]:
        given = {**request}
        name, payload = given.pop("type"), given.pop("payload", None)
        return blocking(
            self._wait(lambda: self._context.enqueue(name, payload, **given)), self._wait
        )

    def _step_request(self, step: str, request: object, tx: object) -> EntryRequest:
        return self._context.step_request(step, request)

    def _do_step(self, entry: EntryRequest, part: Step, tx: object) -> object:
        return self._wait(lambda: self._context.do_step(entry, part, tx))

    def _wait(self, start: Callable[[], Awaitable[T]]) -> T:
        async def call() -> T:
            return await start()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()
