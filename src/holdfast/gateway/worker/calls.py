"""Requests of running handlers that are not changes of their task: steps of `once`, parents, questions.

Promises: every request is fenced: the node has to hold the run that it names, and its sender is judged in the
transaction of the request. A step belongs to that run,
whatever the request says. Never: serves a task of another project.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET

from holdfast.core import codec
from holdfast.core.decide import Refusal
from holdfast.core.decision import Decision, Question, make_question, with_deadline
from holdfast.core.ledger import STEP_SCOPE, EntryLease, EntryRequest, Runner
from holdfast.core.ledger_wire import decode_outcome, encode_verdict
from holdfast.core.speaking import Voice
from holdfast.core.task import LEASED, Task
from holdfast.core.worker.wire import CallFrame
from holdfast.errors import InvalidInput, LeaseLost
from holdfast.store.ledger import EntryStore
from holdfast.store.store import Store
from holdfast.sync.speaking import Guard, heard
from holdfast.sync.worker.worker_sync import OnChanged

Verb: TypeAlias = Callable[[Task, Mapping[str, Any], Guard], Awaitable[object]]
ARGUMENT_CHARS_MAX: Final = 2_000_000


class WorkerCalls:
    """The verbs of `CallFrame`."""

    def __init__(
        self,
        store: Store,
        on_changed: OnChanged = lambda _: None,
        decision_deadline: float | None = None,
    ) -> None:
        self._store = store
        self._decision_deadline = decision_deadline
        self._on_changed = on_changed
        self._entries = EntryStore(store)
        self._verbs: Final[dict[str, Verb]] = {
            "begin_step": self._begin_step,
            "end_step": self._end_step,
            "parents": self._parents,
            "ask": self._ask,
        }

    async def answer(self, voice: Voice, project: str, call: CallFrame) -> str:
        """The answer as JSON text."""
        verb = self._verbs.get(call.verb)
        if verb is None:
            raise InvalidInput(f"there is no call '{call.verb}': use {', '.join(self._verbs)}")
        if len(call.args_json) > ARGUMENT_CHARS_MAX:
            raise InvalidInput(f"argsJson has more than {ARGUMENT_CHARS_MAX} characters")
        try:
            arguments = codec.loads_object(call.args_json or "{}")
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"argsJson is not a JSON object: {error}") from None
        task = await self._held(voice, project, call)
        return codec.dumps(await verb(task, arguments, lambda: heard(voice)))

    async def _held(self, voice: Voice, project: str, call: CallFrame) -> Task:
        task = (await self._store.reads.get([call.task_id])).get(call.task_id)
        is_held = (
            task is not None
            and task.project == project
            and task.node == voice.node
            and task.fence == call.fence
            and task.status in LEASED
        )
        if task is None or not is_held:
            raise LeaseLost(
                f"task {call.task_id} was taken away from this runner (its fence is {call.fence}): "
                "stop working on it"
            )
        return task

    async def _begin_step(self, task: Task, arguments: Mapping[str, Any], guard: Guard) -> object:
        request = _converted(arguments.get("request"), EntryRequest)
        _check_step(task, request.entry_key.scope, request.entry_key.key, request.runner)
        return encode_verdict(await self._entries.begin(request, guard=guard))

    async def _end_step(self, task: Task, arguments: Mapping[str, Any], guard: Guard) -> object:
        lease = _converted(arguments.get("lease"), EntryLease)
        _check_step(task, lease.entry_key.scope, lease.entry_key.key, lease.runner)
        outcome = arguments.get("outcome")
        ending = None if outcome is None else decode_outcome(outcome)
        await self._entries.end(lease, ending, guard=guard)
        return None

    async def _parents(self, task: Task, _: Mapping[str, Any], guard: Guard) -> object:
        await self._store.run(lambda *_: guard())
        dependencies = await self._store.reads.dependencies(task.id)
        parents = await self._store.reads.get([parent.parent_id for parent in dependencies])
        return [
            msgspec.to_builtins(parent)
            for parent in parents.values()
            if parent.project == task.project
        ]

    async def _ask(self, task: Task, arguments: Mapping[str, Any], guard: Guard) -> object:
        question = _converted(arguments.get("question"), Question)
        answer = await self._store.decisions.ask(
            task.id,
            task.fence,
            with_deadline(_checked(question), self._decision_deadline),
            guard=guard,
        )
        match answer:
            case Refusal():
                return {"kind": "refused", "code": answer.code, "message": answer.message}
            case Decision():
                return {"kind": "decided", "decision": msgspec.to_builtins(answer)}
            case _:
                self._on_changed(bool(task.limits))
                return {"kind": "asked", "decision": msgspec.to_builtins(answer.decision)}


def _checked(question: Question) -> Question:
    """The question, checked again: the worker may be of another version."""
    default = question.default_json
    schema = question.schema_json
    return make_question(
        question.question,
        key=question.key,
        options=question.options,
        schema=None if schema is None else codec.loads(schema),
        default=UNSET if default is None else codec.loads(default),
        deadline=question.deadline_seconds,
        assignees=question.assignees,
        data=codec.loads(question.data_json),
    )


def _check_step(task: Task, scope: str, key: str, runner: Runner | None) -> None:
    """A worker may touch no entry but those of the steps of its run."""
    if scope != STEP_SCOPE or key != task.id or runner != Runner(task.id, task.fence):
        raise InvalidInput("a step belongs to the run of the call: name its task and fence")


def _converted(value: object, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"argsJson: {error}") from None
