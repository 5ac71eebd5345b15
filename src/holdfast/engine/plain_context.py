"""What the contexts of plain handlers share, in threads and in processes: steps, and tasks that they
enqueue.

Promises: the flow of a step is that of `Context.once`; its effect runs where the handler runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from holdfast.core import once as once_flow
from holdfast.core.callables import PLAIN_EFFECT, check_plain, plain
from holdfast.core.codec import Json
from holdfast.core.keywords import EnqueueKeywords, TaskRequest
from holdfast.core.ledger import EntryLease, EntryRequest
from holdfast.core.once import ErrorPolicy, OnError, RunStep, Step
from holdfast.core.steps import drive
from holdfast.engine.blocking_handle import BlockingTaskHandle
from holdfast.engine.follow_ups import Requestable, request_of

P = ParamSpec("P")
R = TypeVar("R")


class PlainContext(ABC):
    """The part of a context that blocks."""

    __slots__ = ()

    def once(
        self,
        step: str,
        effect: Callable[[EntryLease], object],
        *,
        request: object = None,
        on_error: ErrorPolicy = OnError.FORGET,
        tx: object = None,
    ) -> Json:
        """See `Context.once`. The effect runs here. In a process `tx` is refused: the parent process has the
        store open."""
        check_plain("effect", effect, PLAIN_EFFECT)
        entry = self._step_request(step, request, tx)

        def perform(part: Step) -> object:
            if isinstance(part, RunStep):
                return plain("effect", effect(part.lease), PLAIN_EFFECT)
            return self._do_step(entry, part, tx)

        return drive(once_flow.call(on_error=on_error, in_tx=tx is not None), perform)

    @overload
    def enqueue(
        self, task: str, payload: object = None, /, **options: Unpack[EnqueueKeywords]
    ) -> BlockingTaskHandle[Any]: ...
    @overload
    def enqueue(
        self, task: Requestable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingTaskHandle[R]: ...
    def enqueue(self, task: object, /, *args: Any, **kwargs: Any) -> BlockingTaskHandle[Any]:
        """See `Context.enqueue`. In a process `tx` is refused."""
        return self._enqueue(request_of(task, args, kwargs))

    @abstractmethod
    def _enqueue(self, request: TaskRequest[Any]) -> BlockingTaskHandle[Any]:
        """Enqueues the task into the store of this one."""

    @abstractmethod
    def _step_request(self, step: str, request: object, tx: object) -> EntryRequest:
        """The entry of the step. InvalidInput for what cannot be one."""

    @abstractmethod
    def _do_step(self, entry: EntryRequest, part: Step, tx: object) -> object:
        """Begins or ends the step in the store."""
