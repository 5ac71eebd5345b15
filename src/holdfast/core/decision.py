"""Questions of tasks to people, and their answers.

A decision is open until it is decided, expires or is cancelled; then it never changes, except that a
cancelled one is opened again when the task asks again. Promises: of two answers one counts, and a repeat of
it gets the same answer; an answer fits the options or the schema of its question; after its deadline a
decision has its default or is expired, also for a reader that comes before the sweeper.
Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.check import check_name, check_names, check_number, check_text, shown
from holdfast.core.choice_schema import check_schema, misfit
from holdfast.core.submit import encode_payload
from holdfast.core.task import Task
from holdfast.errors import (
    AlreadyDecided,
    IdempotencyConflict,
    InvalidInput,
    VersionConflict,
)

PREFIX: Final = "dec_"
DEADLINE: Final = "deadline"
"""The actor of a decision that got its default."""
QUESTION_CHARS_MAX: Final = 2_000
OPTIONS_MAX: Final = 50
ASSIGNEES_MAX: Final = 50
CHOICE_BYTES_MAX: Final = 65_536
SCHEMA_BYTES_MAX: Final = 65_536
EVENT_CHARS_MAX: Final = 4_096
"""A longer schema or default is not part of the event."""
ASSIGNEE_KINDS: Final = ("user:", "role:")


class DecisionState(StrEnum):
    """Where a decision is."""

    OPEN = "open"
    DECIDED = "decided"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ENDED_EVENTS: Final = {
    DecisionState.DECIDED: "decision.decided",
    DecisionState.EXPIRED: "decision.expired",
    DecisionState.CANCELLED: "decision.cancelled",
}
"""The kinds of the events of decisions that have ended."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a task asks. The texts in `..._json` are canonical."""

    key: str
    """Names the question within its task."""
    question: str
    options: tuple[str, ...] = ()
    """The choices; empty: any value that fits the schema."""
    schema_json: str | None = None
    default_json: str | None = None
    """The choice at the deadline. None: the decision expires then."""
    deadline_seconds: float | None = None
    assignees: tuple[str, ...] = ()
    """The people who may answer, `user:NAME` or `role:NAME`. Empty: all who may decide."""
    data_json: str = "null"
    """What the task shows with its question: the data of its checkpoint."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer: one row of the store."""

    id: str
    project: str
    task_id: str
    key: str
    question: str
    options: tuple[str, ...]
    schema_json: str | None
    default_json: str | None
    assignees: tuple[str, ...]
    deadline_at: float | None
    state: DecisionState
    choice_json: str | None
    data_json: str | None
    """What the answer carries beside its choice."""
    by: str
    reason: str
    at: float | None
    version: int
    fence: int
    """The fence of the run that asked."""
    created_at: float
    node: str = ""
    """The node of the run that asked."""

    @property
    def choice(self) -> codec.Json:
        return None if self.choice_json is None else codec.loads(self.choice_json)

    @property
    def data(self) -> codec.Json:
        return None if self.data_json is None else codec.loads(self.data_json)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a decision."""

    choice_json: str
    actor: str
    reason: str = ""
    data_json: str | None = None
    expected_version: int | None = None


def make_question(
    question: str,
    *,
    key: str,
    options: Sequence[str] = (),
    schema: object = None,
    default: object = msgspec.UNSET,
    deadline: float | None = None,
    assignees: Sequence[str] = (),
    data: object = None,
) -> Question:
    """A checked question, but for its deadline: see `with_deadline`. `default=None` is a default too; leave
    it out for none."""
    made = Question(
        key=check_name("key", key),
        question=_text(question),
        options=_options(options),
        schema_json=None if schema is None else _schema_json(schema),
        default_json=None if default is msgspec.UNSET else choice_json(default),
        deadline_seconds=None if deadline is None else check_number("deadline", deadline),
        assignees=_assignees(assignees),
        data_json=encode_payload(data, what="data of the question", limit=CHOICE_BYTES_MAX),
    )
    if made.options and made.schema_json is not None:
        raise InvalidInput("a question has options or a schema, not both")
    if made.default_json is not None:
        _check_fits(made.options, made.schema_json, made.default_json, "default")
    return made


def with_deadline(question: Question, seconds: float | None) -> Question:
    """The question with this deadline, unless it has one. InvalidInput for a default without any."""
    if question.deadline_seconds is not None:
        return question
    if seconds is not None:
        return replace(question, deadline_seconds=seconds)
    if question.default_json is not None:
        raise InvalidInput("default counts at the deadline: give a deadline too")
    return question


def choice_json(choice: object) -> str:
    """A choice as the row stores it."""
    return encode_payload(choice, what="choice", limit=CHOICE_BYTES_MAX)


def asked(question: Question, task: Task, *, decision_id: str, now: float) -> Decision:
    """The new decision of a task."""
    seconds = question.deadline_seconds
    return Decision(
        id=decision_id,
        project=task.project,
        task_id=task.id,
        key=question.key,
        question=question.question,
        options=question.options,
        schema_json=question.schema_json,
        default_json=question.default_json,
        assignees=question.assignees,
        deadline_at=None if seconds is None else now + seconds,
        state=DecisionState.OPEN,
        choice_json=None,
        data_json=None,
        by="",
        reason="",
        at=None,
        version=1,
        fence=task.fence,
        created_at=now,
        node=task.node or "",
    )


def asked_again(decision: Decision, question: Question, task: Task, now: float) -> Decision:
    """The decision of a task that asks under a key which it has used. The kept answer, or the open decision.
    A cancelled one is opened again: the task was put back into the queue, and still needs an answer."""
    if not _is_same_question(decision, question):
        raise IdempotencyConflict(
            f"task {task.id} asked another question under the key {shown(decision.key)}: "
            "give each question its own key"
        )
    if decision.state is not DecisionState.CANCELLED:
        return as_of(decision, now)
    opened = asked(question, task, decision_id=decision.id, now=now)
    return replace(opened, version=decision.version + 1)


def as_of(decision: Decision, now: float) -> Decision:
    """The decision as it is at this time: one whose deadline has passed is not open any more."""
    if decision.state is not DecisionState.OPEN:
        return decision
    if decision.deadline_at is None or decision.deadline_at > now:
        return decision
    if decision.default_json is None:
        return _ended(decision, DecisionState.EXPIRED, DEADLINE, "", decision.deadline_at)
    decided = _ended(decision, DecisionState.DECIDED, DEADLINE, "", decision.deadline_at)
    return replace(decided, choice_json=decision.default_json)


def decided(decision: Decision, choice: Choice, now: float) -> Decision:
    """The decision with this answer; the same object if it has it already. Raises AlreadyDecided if another
    answer, or the deadline, was first."""
    current = as_of(decision, now)
    if current.state is not DecisionState.OPEN:
        is_repeat = (
            current.state is DecisionState.DECIDED
            and current.by == choice.actor
            and current.choice_json == choice.choice_json
        )
        if is_repeat:
            return current
        raise AlreadyDecided(already_text(current), decision=current)
    if choice.expected_version not in (None, current.version):
        stale = VersionConflict(
            f"decision {current.id} is at version {current.version}, not {choice.expected_version}: "
            "read it again"
        )
        stale.current = {"state": current.state.value, "version": current.version}
        raise stale
    _check_fits(current.options, current.schema_json, choice.choice_json, "choice")
    after = _ended(current, DecisionState.DECIDED, choice.actor, choice.reason, now)
    return replace(after, choice_json=choice.choice_json, data_json=choice.data_json)


def cancelled(decision: Decision, now: float) -> Decision:
    """The decision of a task that does not wait for it any more."""
    return _ended(decision, DecisionState.CANCELLED, "", "the task does not wait for it", now)


def already_text(decision: Decision) -> str:
    match decision.state:
        case DecisionState.DECIDED:
            what = f"was decided by {decision.by}: {shown(decision.choice)}"
        case DecisionState.EXPIRED:
            what = "has expired: its deadline passed without an answer"
        case _:
            what = "was cancelled: its task does not wait for it any more"
    return f"decision {decision.id} {what}"


def may_answer(decision: Decision, principal: str, roles: Sequence[str]) -> bool:
    """Whether the decision is open to this person, given the right to decide at all."""
    names = {principal, *(f"role:{role}" for role in roles)}
    return not decision.assignees or not names.isdisjoint(decision.assignees)


def event_data(decision: Decision) -> dict[str, Any]:
    """The data of an event about the decision."""
    data: dict[str, Any] = {"decision_id": decision.id, "key": decision.key}
    if decision.state is DecisionState.OPEN:
        data |= {
            "question": decision.question,
            "options": list(decision.options),
            "assignees": list(decision.assignees),
            "deadline_at": decision.deadline_at,
        }
        for field in ("schema", "default"):
            _with_json(data, field, getattr(decision, f"{field}_json"))
    else:
        data["actor"] = decision.by
        if decision.state is DecisionState.DECIDED:
            data |= {"choice": decision.choice, "reason": decision.reason}
    return data


def _with_json(data: dict[str, Any], field: str, text: str | None) -> None:
    """Adds a value to an event's data. One that is too long is read with the decision."""
    if text is not None and len(text) <= EVENT_CHARS_MAX:
        data[field] = codec.loads(text)
    elif text is not None:
        data[f"{field}_omitted"] = True


def _ended(
    decision: Decision, state: DecisionState, actor: str, reason: str, at: float
) -> Decision:
    return replace(
        decision, state=state, by=actor, reason=reason, at=at, version=decision.version + 1
    )


def _is_same_question(decision: Decision, question: Question) -> bool:
    return (
        decision.question == question.question
        and decision.options == question.options
        and decision.schema_json == question.schema_json
    )


def _check_fits(options: tuple[str, ...], schema_json: str | None, choice: str, field: str) -> None:
    value = codec.loads(choice)
    if options and value not in options:
        raise InvalidInput(f"{field} is {shown(value)}: use one of {', '.join(options)}")
    if schema_json is not None:
        problem = misfit(codec.loads_object(schema_json), value, field)
        if problem is not None:
            raise InvalidInput(problem)


def _text(question: object) -> str:
    text = check_text("question", question, most=QUESTION_CHARS_MAX)
    if not text.strip():
        raise InvalidInput("question is empty: say what to decide")
    return text


def _options(options: Sequence[str]) -> tuple[str, ...]:
    names = check_names("options", options, most=OPTIONS_MAX)
    if len(set(names)) < len(names):
        raise InvalidInput(f"options {shown(list(names))} has one twice: give each once")
    return names


def _assignees(assignees: Sequence[str]) -> tuple[str, ...]:
    names = check_names("assignees", assignees, most=ASSIGNEES_MAX)
    for name in names:
        if not name.startswith(ASSIGNEE_KINDS):
            raise InvalidInput(f"assignees has {shown(name)}: write user:NAME or role:NAME")
    return names


def _schema_json(schema: object) -> str:
    text = encode_payload(check_schema(schema), what="schema", limit=SCHEMA_BYTES_MAX)
    check_schema(codec.loads(text))
    return text
