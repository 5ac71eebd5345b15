"""Sizes, budgets and the order of hosts: laws of the policy of a rollout."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.rollout.policy import (
    PLAIN,
    BudgetName,
    HaltMode,
    HostOrder,
    Policy,
    RolloutRequest,
    budget_of,
    budgets_of,
    loosened,
    nth_at,
    place_of,
    policy_of,
    size_of,
    wave_of,
    wave_sizes,
)
from holdfast.errors import InvalidInput

hosts_counts = st.integers(1, 50_000)
sizes = st.one_of(st.integers(1, 300), st.integers(1, 100).map(lambda n: f"{n}%"))


@given(hosts_counts, st.lists(sizes, max_size=6), st.booleans())
def test_waves_have_every_host_once(hosts: int, waves: list[int | str], has_rest: bool) -> None:
    policy = Policy(waves=(*waves, "rest") if has_rest else tuple(waves))
    found = wave_sizes(policy, hosts)
    assert sum(found) == hosts
    assert min(found) >= 1


@given(hosts_counts, st.integers(1, 100))
def test_sizes_round_up_and_budgets_round_down(hosts: int, percent: int) -> None:
    exact = hosts * percent / 100
    size, budget = size_of(f"{percent}%", hosts), budget_of(f"{percent}%", hosts)
    assert size >= max(1, exact)
    assert size - max(1, exact) < 1
    assert 0 <= exact - budget < 1


def test_percentages_are_exact() -> None:
    """0.07 * 100 is 7.000000000000001 as floats."""
    assert (size_of("7%", 100), budget_of("7%", 100)) == (7, 7)
    assert (size_of("0.5%", 1_000), budget_of("0.1%", 999)) == (5, 0)


@given(st.integers(1, 3_000), st.integers(), st.sampled_from(HostOrder))
def test_the_order_is_a_permutation(hosts: int, seed: int, order: HostOrder) -> None:
    policy = Policy(seed=seed, order=order)
    nths = [nth_at(policy, hosts, place) for place in range(hosts)]
    assert sorted(nths) == list(range(hosts))
    assert [place_of(policy, hosts, nth) for nth in nths] == list(range(hosts))


@given(st.integers(20, 50_000), st.integers(), st.integers(2, 20), st.integers(0, 40_000))
def test_a_wave_is_spread_over_the_names(hosts: int, seed: int, size: int, start: int) -> None:
    """No gap between the hosts of a wave is larger than four times the even distance."""
    policy = Policy(seed=seed)
    size = min(size, hosts)
    nths = sorted(nth_at(policy, hosts, (start + place) % hosts) for place in range(size))
    gaps = [b - a for a, b in zip(nths, [*nths[1:], nths[0] + hosts], strict=True)]
    assert max(gaps) <= 4 * -(-hosts // size)


def test_the_seed_moves_the_canary() -> None:
    canaries = {nth_at(Policy(seed=seed), 1_000, 0) for seed in range(50)}
    assert len(canaries) > 40


@given(st.integers(1, 2_000), st.integers(0, 1_999), st.integers())
def test_every_host_has_its_wave(hosts: int, nth: int, seed: int) -> None:
    policy = Policy(waves=(1, "5%", "25%", "rest"), seed=seed)
    nth %= hosts
    number = wave_of(policy, hosts, nth)
    before = sum(wave_sizes(policy, hosts)[: number - 1])
    place = place_of(policy, hosts, nth)
    assert before <= place < before + wave_sizes(policy, hosts)[number - 1]


def test_a_request_without_a_rollout_runs_every_host() -> None:
    policy = policy_of(None, seed=7)
    assert policy == msgspec.structs.replace(PLAIN, seed=7)
    assert (policy.waves, policy.max_in_flight, budgets_of(policy, 1_000)) == ((), 50, {})


def test_a_request_with_a_rollout_gets_the_safe_defaults() -> None:
    policy = policy_of(RolloutRequest(budget={BudgetName.FAILED: "2%", BudgetName.LOST: None}))
    assert policy.waves == (1, "5%", "rest")
    assert budgets_of(policy, 1_000) == {"failed": 20, "timeout": 20, "unreachable": 100}
    assert policy.canary_budget == 0
    own = policy_of(RolloutRequest(waves=(), max_in_flight="10%", seed=3), seed=9)
    assert (own.waves, own.max_in_flight, own.seed) == ((), "10%", 3)


def test_a_policy_survives_json() -> None:
    policy = policy_of(RolloutRequest(waves=(1, "5%"), rate_per_second=2.5))
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("waves", (0,), "waves[0]"),
        ("waves", ("0%",), "waves[0]"),
        ("waves", ("rest", 1), "waves[0]"),
        ("waves", ("five",), "waves[0]"),
        ("waves", ("101%",), "waves[0]"),
        ("waves", (1,) * 21, "waves"),
        ("max_in_flight", 0, "max_in_flight"),
        ("max_in_flight", True, "max_in_flight"),
        ("max_in_flight", "1.5", "max_in_flight"),
        ("budgets", {"failed": -1}, "budget.failed"),
        ("budgets", {"late": 1}, "budget"),
        ("canary_budget", "x", "canary_budget"),
        ("consecutive", 0, "consecutive"),
        ("rate_per_second", 0, "rate_per_second"),
        ("bake_seconds", -1, "bake_seconds"),
        ("straggler_seconds", -1, "straggler_seconds"),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: object, named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Policy(**{field: value})  # type: ignore[arg-type]
    assert str(caught.value).startswith(named)


def test_what_needs_a_new_approval() -> None:
    approved = Policy(max_in_flight=50, rate_per_second=10)
    tighter = Policy(max_in_flight=10, rate_per_second=1, budgets={BudgetName.FAILED: 0})
    assert loosened(approved, approved, 1_000) == ()
    assert loosened(approved, tighter, 1_000) == (
        "budget.timeout",
        "budget.lost",
        "budget.unreachable",
    )
    wider = Policy(max_in_flight=51, consecutive=3, on_breach=HaltMode.PAUSE, canary_budget=None)
    assert loosened(approved, wider, 1_000) == (
        "max_in_flight",
        "rate_per_second",
        "canary_budget",
        "on_breach",
    )
    assert loosened(Policy(consecutive=3), Policy(consecutive=4), 9) == ("consecutive",)
