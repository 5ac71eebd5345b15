"""The rules of retrying: bounds, jitter, budgets."""

from __future__ import annotations

from hypothesis import given, strategies as st

from holdfast.core import retry as rules
from holdfast.core.retry import (
    Again,
    Allowance,
    RetryPolicy,
    Stop,
    StopReason,
    Tokens,
    after_failure,
)
from holdfast.primitives.retry import (
    RetryBudget,
)

policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 1_000),
    base_ms=st.floats(0, 1e6),
    max_delay_ms=st.floats(0, 1e6),
    deadline_ms=st.none() | st.floats(0, 1e7),
    jitter_off=st.booleans(),
)


@given(
    policies,
    st.integers(1, 1_000),
    st.text(),
    st.booleans(),
    st.floats(0, 1e5),
    st.none() | st.floats(0, 1e5),
)
def test_the_rule_keeps_its_bounds(
    policy: RetryPolicy,
    failures: int,
    key: str,
    is_retryable: bool,
    elapsed: float,
    hint: float | None,
) -> None:
    def judge() -> Again | Stop:
        return after_failure(
            policy,
            failures,
            key=key,
            is_retryable=is_retryable,
            elapsed_seconds=elapsed,
            hint_seconds=hint,
        )

    verdict = judge()
    assert verdict == judge()
    if isinstance(verdict, Stop):
        assert (verdict.reason is StopReason.REFUSED) == (not is_retryable)
        if verdict.reason is StopReason.DEADLINE:
            assert policy.deadline_ms is not None
        return
    assert failures < policy.attempts
    assert verdict.delay_seconds <= max(policy.max_delay_ms / 1_000, hint or 0.0)
    assert verdict.delay_seconds >= (hint or 0.0)
    whole = min(policy.base_ms * 2.0 ** min(failures - 1, 62), policy.max_delay_ms) / 1_000
    assert verdict.delay_seconds >= whole * (1.0 if policy.jitter_off else 0.5)
    if policy.deadline_ms is not None:
        assert elapsed + verdict.delay_seconds <= policy.deadline_ms / 1_000


@given(st.text(), st.integers(1, 10_000))
def test_jitter_is_a_share_of_half_or_more(key: str, attempt: int) -> None:
    assert 0.5 <= rules.half_jitter(key, attempt) < 1.0
    assert rules.half_jitter(key, attempt) == rules.half_jitter(key, attempt)


def test_jitter_spreads_evenly() -> None:
    shares = [rules.half_jitter(f"order-{n}", 1) for n in range(4_000)]
    counts = [sum(0.5 + n * 0.05 <= share < 0.55 + n * 0.05 for share in shares) for n in range(10)]
    assert min(counts) > 320
    assert max(counts) < 480


@given(
    st.lists(
        st.tuples(st.sampled_from(["call", "take"]), st.floats(0, 5)), min_size=1, max_size=60
    ),
    st.builds(
        Allowance,
        capacity=st.floats(1, 20),
        per_call=st.floats(0, 1),
        per_second=st.floats(0, 3),
    ),
)
def test_a_budget_is_never_exceeded(moves: list[tuple[str, float]], allowance: Allowance) -> None:
    budget = RetryBudget(
        capacity=allowance.capacity,
        per_call=allowance.per_call,
        per_second=allowance.per_second,
    )
    now, calls, taken = 0.0, 0, 0
    for what, seconds in moves:
        now += seconds
        if what == "call":
            budget.called(now)
            calls += 1
        else:
            taken += budget.take(now)
    earned = allowance.capacity + calls * allowance.per_call + now * allowance.per_second
    assert taken <= earned + 1e-6


def test_a_full_budget_stays_full() -> None:
    allowance = Allowance(capacity=3.0)
    full = rules.refilled(allowance, Tokens(3.0, 0.0), 1e6, calls=5)
    assert full == Tokens(3.0, 1e6)
    assert rules.spent(Tokens(0.99, 0.0)) is None
