"""The context of a handler in a separate process.

Promises: every call is carried out by the parent process, which has the store open, and answered from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.core import once as once_flow
from holdfast.core.callables import PLAIN_EFFECT, check_plain, plain
from holdfast.core.codec import Json, dumps, loads
from holdfast.core.ledger import EntryLease
from holdfast.core.once import ErrorPolicy, OnError, RunStep, Step
from holdfast.core.output import StreamName
from holdfast.core.steps import drive
from holdfast.core.task import Task
from holdfast.engine import process_wire as wire
from holdfast.errors import InvalidInput, LeaseLost, NotSupported


class PipeContext:
    """The context inside the handler process. The parent writes to the store. Threads of the handler may
    share it; calls run one at a time, until the handler ends."""

    def __init__(self, pipe: wire.Pipe, task: Task) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._is_over = False
        self.task = task
        self.attempt = task.attempts
        self.fence = task.fence
        self.saved = task.checkpoint
        self.cancel_requested = False

    def progress(
        self, done: float, note: str = "", *, phase: str | None = None, iteration: int | None = None
    ) -> None:
        self._ask("progress", (done, note, phase, iteration))

    def output(self, data: str | bytes, stream: str = StreamName.STDOUT) -> None:
        self._ask("output", (data, stream))

    def metrics(self, **totals: float) -> None:
        self._ask("metrics", totals)

    def save(self, checkpoint: object) -> None:
        self._ask("save", checkpoint)
        self.saved = loads(dumps(checkpoint))

    def checkpoint(self, type: str, data: object = None, note: str = "") -> Any:
        point_id = self._ask("checkpoint", (type, data, note))
        self.saved = loads(dumps(data))
        return point_id

    def parents(self) -> Any:
        return self._ask("parents", None)

    def decide(self, question: str, **options: Any) -> NoReturn:
        raise NotSupported("a handler with isolation='process' cannot ask: run it in a thread")

    def once(
        self,
        step: str,
        effect: Callable[[EntryLease], object],
        *,
        request: object = None,
        on_error: ErrorPolicy = OnError.FORGET,
        tx: object = None,
    ) -> Json:
        """See `Context.once`. `tx` is refused: the parent process has the store open."""
        if tx is not None:
            raise InvalidInput(
                "a handler with isolation='process' cannot run a step in its own transaction: run the "
                "handler in the event loop or in a thread"
            )
        check_plain("effect", effect, PLAIN_EFFECT)
        entry_request = self._ask("step_request", (step, request))

        def perform(part: Step) -> object:
            if isinstance(part, RunStep):
                return plain("effect", effect(part.lease), PLAIN_EFFECT)
            return self._ask("step", (entry_request, part))

        return drive(once_flow.call(on_error=on_error), perform)

    def _ask(self, kind: str, value: object) -> Any:
        with self._lock:
            if self._is_over:
                raise LeaseLost(f"the handler of task {self.task.id} has ended: stop working on it")
            self._pipe.send((kind, value))
            answer, value_or_error = self._pipe.recv()
        if answer == "raise":
            raise value_or_error
        return value_or_error

    def end(self, kind: str, value: object) -> None:
        """Sends the last message of this attempt. A thread that goes on cannot send in the next attempt."""
        with self._lock:
            self._is_over = True
            self._pipe.send((kind, value))
