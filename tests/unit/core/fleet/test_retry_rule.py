"""Retries of executions: pauses, and what is repeated without a person."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core import command as c, retry
from holdfast.core.codec import dumps
from holdfast.core.command import Instruction
from holdfast.core.decide import Transition, claim, decide
from holdfast.core.fleet.commands.retry_rule import (
    RetryRule,
    delay_seconds,
    max_attempts,
    may_repeat,
    task_options,
)
from holdfast.core.fleet.status import ExecutionKind as K
from holdfast.core.start_once import RunPhase, phase_json
from holdfast.core.task import Failure, FailureKind, Status, Task, TaskOptions
from holdfast.errors import InvalidInput
from tests.unit.core.fleet.test_status import make_task

NOW = 1_000.0
rules = st.builds(
    RetryRule,
    max_retries=st.integers(0, 100),
    base_seconds=st.floats(0, 1e4),
    cap_seconds=st.floats(0, 1e4),
)


@given(rules, st.text(min_size=1), st.integers(0, 500))
def test_a_pause_is_spread_and_never_above_the_cap(rule: RetryRule, key: str, retries: int) -> None:
    delay = delay_seconds(rule, key, retries)
    full = min(rule.cap_seconds, rule.base_seconds * 2.0 ** min(retries, 62))
    assert full / 2 <= delay <= full <= rule.cap_seconds
    assert delay == delay_seconds(rule, key, retries)


def test_the_spread_does_not_vanish_at_the_cap() -> None:
    delays = {delay_seconds(RetryRule(), f"e{n}", 20) for n in range(1_000)}
    assert len(delays) > 990
    assert max(delays) - min(delays) > 29.0


def test_the_pauses_of_other_tasks_stay_as_they_were() -> None:
    for attempt in range(1, 12):
        jitter = retry.unit_jitter("t", attempt)
        expected = retry.delay_seconds(attempt, base=1.0, cap=60.0, jitter=jitter)
        assert retry.pause_seconds("t", attempt, base=1.0, cap=60.0) == expected
    assert dumps(TaskOptions()) == "{}"


def running(rule: RetryRule, *, attempts: int) -> Task:
    options = dumps(task_options(rule, lost_after_seconds=900.0))
    task = make_task(status=Status.QUEUED, options_json=options, attempts=attempts, max_attempts=9)
    held = claim(task, node="hst_1", lease_seconds=60, now=NOW, claim_id="t#1").after
    return replace(held, progress_json=phase_json(RunPhase.STARTED))


@given(rules, st.integers(0, 6))
def test_a_failed_run_waits_for_the_pause_of_its_policy(rule: RetryRule, retries: int) -> None:
    task = running(rule, attempts=retries)
    failure = c.Fail(Failure(FailureKind.TIMEOUT, "slow"))
    ruling = decide(task, Instruction("t", failure, fence=task.fence), NOW)
    assert isinstance(ruling, Transition)
    assert ruling.after.status is Status.QUEUED
    assert ruling.after.due_at == NOW + delay_seconds(rule, "t", retries)


def test_a_lost_run_waits_for_the_pause_of_its_policy() -> None:
    rule = RetryRule(base_seconds=8.0)
    stuck = replace(running(rule, attempts=2), status=Status.STUCK)
    ruling = decide(stuck, Instruction("t", c.Expire(), fence=stuck.fence), NOW + 2_000)
    assert isinstance(ruling, Transition)
    assert ruling.after.due_at == NOW + 2_000 + delay_seconds(rule, "t", 2)


def test_only_an_idempotent_command_is_repeated() -> None:
    rule = RetryRule(max_retries=3)
    assert max_attempts(rule, idempotent=False) == 1
    assert max_attempts(rule, idempotent=True) == 4
    repeated = {kind for kind in K if may_repeat(kind, idempotent=True, attempts=1, rule=rule)} - {
        K.QUEUED,
        K.OFFERED,
        K.ACCEPTED,
    }
    assert repeated == {K.FAILED, K.TIMEOUT_EXEC, K.LOST}
    for kind in repeated:
        assert not may_repeat(kind, idempotent=False, attempts=1, rule=rule)
        assert not may_repeat(kind, idempotent=True, attempts=4, rule=rule)


def test_a_disproved_start_is_repeated_any_number_of_times() -> None:
    for kind in (K.QUEUED, K.OFFERED, K.ACCEPTED):
        assert may_repeat(kind, idempotent=False, attempts=10_000, rule=RetryRule(max_retries=0))


@pytest.mark.parametrize(
    "field", [{"max_retries": -1}, {"max_retries": 101}, {"base_seconds": -1}, {"cap_seconds": "x"}]
)
def test_a_wrong_rule_names_its_field(field: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(field))):
        RetryRule(**field)  # type: ignore[arg-type]
