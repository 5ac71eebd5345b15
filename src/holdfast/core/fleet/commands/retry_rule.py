"""Retries of executions: what may run again without a person, and after which pause.

Promises: a command that may have run is repeated only if its type is declared idempotent; a start that is
disproved spends no attempt; the pause never exceeds the cap, and is the same in every process. The pauses are
those of the policy `spread` of `core.retry`, which the options of the task name. Never: I/O, random numbers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core import retry
from holdfast.core.check import check_number, check_whole
from holdfast.core.fleet.status import ExecutionKind as K
from holdfast.core.task import TaskOptions

RETRIES_MAX: Final = 100
DISPROVED: Final = frozenset({K.QUEUED, K.OFFERED, K.ACCEPTED})
"""Kinds of executions whose start is disproved when their run ends: they go back to the queue, any number of
times, until the job's time is over. No attempt is spent."""
REPEATABLE: Final = frozenset({K.FAILED, K.TIMEOUT_EXEC, K.LOST})
"""Ends of a run that a command which is declared idempotent repeats. Each spends an attempt."""


class RetryRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `retry` of a job."""

    max_retries: int = 3
    base_seconds: float = 1.0
    cap_seconds: float = 60.0

    def __post_init__(self) -> None:
        check_whole("retry.max_retries", self.max_retries, least=0, most=RETRIES_MAX)
        check_number("retry.base_seconds", self.base_seconds)
        check_number("retry.cap_seconds", self.cap_seconds)


def max_attempts(rule: RetryRule, *, idempotent: bool) -> int:
    """How often the task of an execution may run: once, unless its command may be repeated."""
    return 1 + rule.max_retries if idempotent else 1


def task_options(
    rule: RetryRule, *, lost_after_seconds: float, timeout_seconds: float | None = None
) -> TaskOptions:
    """The options of the task of an execution."""
    return TaskOptions(
        timeout_seconds=timeout_seconds,
        retry_base_seconds=rule.base_seconds,
        retry_cap_seconds=rule.cap_seconds,
        pinned=True,
        lost_after_seconds=lost_after_seconds,
        retry_policy=retry.SPREAD,
    )


def delay_seconds(rule: RetryRule, execution_id: str, retries: int) -> float:
    """The pause before the next attempt, after this number of retries: what the task's options lead to."""
    return retry.pause_seconds(
        execution_id,
        retries + 1,
        base=rule.base_seconds,
        cap=rule.cap_seconds,
        policy=retry.SPREAD,
    )


def may_repeat(kind: K, *, idempotent: bool, attempts: int, rule: RetryRule) -> bool:
    """Whether an execution that has come to this kind runs again without a person."""
    if kind in DISPROVED:
        return True
    return kind in REPEATABLE and attempts < max_attempts(rule, idempotent=idempotent)
