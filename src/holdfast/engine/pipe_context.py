"""The context of a handler in a separate process.

Promises: every call is carried out by the parent process, which has the store open, and answered from there.
What a handler gives is made plain JSON or bytes here: a wrong value gets the error that it gets in a thread,
and the parent process loads no object of the application.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from holdfast.core.check import check_choice, shown
from holdfast.core.codec import loads
from holdfast.core.command import named_point
from holdfast.core.dependency import Edge
from holdfast.core.keywords import TaskRequest
from holdfast.core.ledger import EntryRequest, step_key
from holdfast.core.once import Step
from holdfast.core.output import StreamName, written
from holdfast.core.seconds import check_moment, in_seconds
from holdfast.core.submit import PAYLOAD_BYTES_MAX, encode_payload
from holdfast.core.task import Priority, Task
from holdfast.core.totals import check_totals
from holdfast.engine import process_wire as wire
from holdfast.engine.blocking_handle import BlockingTaskHandle
from holdfast.engine.context import progress_text
from holdfast.engine.declared import is_plain
from holdfast.engine.plain_context import PlainContext
from holdfast.errors import InvalidInput, LeaseLost, NotSupported, UnserialisablePayload
from holdfast.tracing import TraceContext


def plain_value(value: object, what: str, limit: int = PAYLOAD_BYTES_MAX) -> Any:
    """The value as its JSON is read: of built-in types only. InvalidInput if it has none."""
    return loads(encode_payload(value, what=what, limit=limit))


def portable_request(request: TaskRequest[Any]) -> dict[str, Any]:
    """The request as plain JSON, with the edges as they are: the parent process checks them."""
    given = {**request}
    payload = given.pop("payload", None)
    for name, value in payload.items() if isinstance(payload, dict) else ():
        if not is_plain(value):
            raise UnserialisablePayload(
                f"argument '{name}' is {shown(value)}, which would not arrive as it is: enqueue by the task "
                "function, or pass plain values, lists and dicts"
            )
    payload = plain_value(payload, "payload")
    edges = given.pop("depends_on", ())
    if isinstance(edges, Mapping):
        edges = {str(parent): str(policy) for parent, policy in edges.items()}
    elif isinstance(edges, Iterable) and not isinstance(edges, str | bytes):
        edges = [edge if isinstance(edge, Edge) else str(edge) for edge in edges]
    if isinstance(priority := given.get("priority"), Priority):
        given["priority"] = priority.name.lower()
    run_at = given.pop("run_at", None)
    unique = {"unique": given.pop("unique")} if "unique" in given else {}
    if run_at is not None:
        check_moment("run_at", run_at)
    given = {name: in_seconds(value) for name, value in given.items()}
    plain = plain_value(given, "request")
    return {**plain, "payload": payload, "depends_on": edges, "run_at": run_at, **unique}


class PipeReads:
    """Reads and cancels tasks through the parent process."""

    def __init__(self, ask: Callable[[str, object], Any]) -> None:
        self._ask = ask

    def get(self, task_id: str) -> Task:
        task: Task = self._ask("get_task", task_id)
        return task

    def wait(self, task_id: str, timeout: float | None = None) -> Task:
        task: Task = self._ask("wait_task", (task_id, timeout))
        return task

    def cancel_task(self, task_id: str, *, actor: str, reason: str) -> Task:
        task: Task = self._ask("cancel_task", (task_id, actor, reason))
        return task


class PipeContext(PlainContext):
    """The context inside the handler process. The parent writes to the store. Threads of the handler may
    share it; calls run one at a time, until the handler ends."""

    def __init__(self, pipe: wire.Pipe, task: Task, trace: TraceContext | None = None) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._is_over = False
        self.task = task
        self.trace = trace
        self.attempt = task.attempts
        self.fence = task.fence
        self.saved = task.checkpoint
        self.cancel_requested = False

    def progress(
        self, done: float, note: str = "", *, phase: str | None = None, iteration: int | None = None
    ) -> None:
        self._ask("progress", loads(progress_text(done, note, phase, iteration)))

    def output(self, data: str | bytes, stream: str = StreamName.STDOUT) -> None:
        self._ask("output", (written(data), check_choice("stream", stream, StreamName).value))

    def metrics(self, **totals: float) -> None:
        self._ask("metrics", check_totals(totals))

    def save(self, checkpoint: object) -> None:
        value = plain_value(checkpoint, "checkpoint")
        self._ask("save", value)
        self.saved = value

    def checkpoint(self, type: str, data: object = None, note: str = "") -> Any:
        point = named_point("", type, note)
        value = plain_value(data, "checkpoint")
        named = plain_value((point.type, point.note), "checkpoint")
        point_id = self._ask("checkpoint", (named[0], value, named[1]))
        self.saved = value
        return point_id

    @property
    def state(self) -> NoReturn:
        raise NotSupported(
            "ctx.state is in the worker's process: a handler with isolation='process' keeps its objects in "
            "its module, or runs in a thread"
        )

    def parents(self) -> Any:
        return self._ask("parents", None)

    def _enqueue(self, request: TaskRequest[Any]) -> BlockingTaskHandle[Any]:
        if request.get("tx") is not None:
            raise InvalidInput(
                "a handler with isolation='process' cannot enqueue in its own transaction: run the handler "
                "in the event loop or in a thread"
            )
        inserted, pressure = self._ask("enqueue", portable_request(request))
        return BlockingTaskHandle(inserted, pressure, PipeReads(self._ask), request.declared)

    def decide(self, question: str, **options: Any) -> NoReturn:
        raise NotSupported("a handler with isolation='process' cannot ask: run it in a thread")

    def _step_request(self, step: str, request: object, tx: object) -> EntryRequest:
        if tx is not None:
            raise InvalidInput(
                "a handler with isolation='process' cannot run a step in its own transaction: run the "
                "handler in the event loop or in a thread"
            )
        step_key(self.task.id, step)
        value = plain_value(request, "request")
        entry: EntryRequest = self._ask("step_request", (plain_value(step, "step"), value))
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
