"""Questions of remote workers: a checkpoint with a decision pauses its task.

Promises: the question, its checkpoint and the pause are part of the transaction of the worker's message. A
key that was answered before does not pause the task again; the worker finds the answer in its claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.core import codec
from holdfast.core.decision import Decision, DecisionState, make_question, with_deadline
from holdfast.core.task import Task
from holdfast.core.transition import Refusal
from holdfast.core.worker.wire import CheckpointChange
from holdfast.errors import HoldfastError, IdempotencyConflict, InvalidInput
from holdfast.store.script import Script
from holdfast.store.scripts.decisions import ask_loaded
from holdfast.store.scripts.work import Work

MILLISECONDS: Final = 1_000


def ask_decision(
    work: Work,
    task: Task,
    change: CheckpointChange,
    data_json: str,
    *,
    deadline_seconds: float | None = None,
) -> Script[Refusal | None]:
    """Implements `messages.AskDecision`. `deadline_seconds`: of a question that has none."""
    asked = change.decision
    assert asked is not None
    try:
        question = make_question(
            asked.question,
            key=asked.key or change.checkpoint_id,
            options=asked.options,
            schema=codec.loads(asked.schema_json) if asked.schema_json else None,
            default=UNSET if asked.default_json is None else codec.loads(asked.default_json),
            deadline=asked.deadline_ms / MILLISECONDS if asked.deadline_ms else None,
            assignees=asked.assignees,
        )
        due = with_deadline(question, deadline_seconds)
        _, refusal = yield from ask_loaded(work, task, due, decision_id=change.checkpoint_id)
    except (InvalidInput, IdempotencyConflict) as error:
        return _refused(task, error)
    except (ValueError, msgspec.MsgspecError) as error:
        return _refused(task, InvalidInput(f"the decision has JSON that cannot be read: {error}"))
    return refusal


def _refused(task: Task, error: HoldfastError) -> Refusal:
    return Refusal(task.id, error.code, str(error), (), task)


def answers_json(decisions: Sequence[Decision]) -> str:
    """The `decisions_json` of an offer: the ended decisions of a task by key."""
    ended: dict[str, Any] = {
        decision.key: {
            "id": decision.id,
            "question": decision.question,
            "state": decision.state.value,
            "choice": decision.choice,
            "data": decision.data,
            "by": decision.by,
            "reason": decision.reason,
            "at": decision.at,
        }
        for decision in decisions
        if decision.state in (DecisionState.DECIDED, DecisionState.EXPIRED)
    }
    return codec.dumps(ended) if ended else ""
