"""The context of a handler in a separate process.

Promises: every call is carried out by the parent process, which has the store open, and answered from there.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

from holdfast.core.codec import dumps, loads
from holdfast.core.ledger import EntryRequest
from holdfast.core.once import Step
from holdfast.core.output import StreamName
from holdfast.core.task import Task
from holdfast.engine import process_wire as wire
from holdfast.engine.plain_context import PlainContext
from holdfast.errors import InvalidInput, LeaseLost, NotSupported


class PipeContext(PlainContext):
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

    def _step_request(self, step: str, request: object, tx: object) -> EntryRequest:
        if tx is not None:
            raise InvalidInput(
                "a handler with isolation='process' cannot run a step in its own transaction: run the "
                "handler in the event loop or in a thread"
            )
        entry: EntryRequest = self._ask("step_request", (step, request))
        return entry

    def _do_step(self, entry: EntryRequest, part: Step, tx: object) -> object:
        return self._ask("step", (entry, part))

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
