"""Failures made small: the same law, fewer faults and nodes, less time; the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from holdfast.errors import BadConfig
from holdfast.sim.campaign import Options, Verdict, run_plan, run_seed
from holdfast.sim.shrink import Shrunk, fewest, shrink
from holdfast.sim.swarm import FAULTS, Plan, changed, differences

ROUGH = Options(
    hours=0.02,
    nodes=3,
    faults=tuple(sorted({*FAULTS} - {"power", "full", "sync"})),
    recover_hours=0.3,
    changes=(
        *(("act_seconds", "2"), ("clients", "2"), ("holders", "0"), ("rate", "6")),
        *(("traders", ""), ("lock_servers", "0")),
    ),
)
RUNS = 15


def make_small() -> tuple[Plan, Shrunk]:
    """A run without new fences at claims, which every seed notices, and its smallest form."""
    plan = ROUGH.plan(3)
    verdict = run_plan(plan, "new-fence")
    return plan, shrink(plan, verdict, lambda each: run_plan(each, "new-fence"), runs=RUNS)


@pytest.fixture(scope="module")
def small() -> tuple[Plan, Shrunk]:
    return make_small()


def test_a_failure_shrinks_to_fewer_faults_and_nodes_and_breaks_the_same_law(
    small: tuple[Plan, Shrunk],
) -> None:
    plan, found = small
    assert found.law == "fences rise"
    assert found.law in found.verdict.broken
    assert found.plan.nodes < plan.nodes
    assert len(found.plan.faults) < len(plan.faults)
    assert found.plan.hours < plan.hours
    assert found.runs <= RUNS


def test_the_smallest_plan_gives_the_same_run_again_from_its_texts(
    small: tuple[Plan, Shrunk],
) -> None:
    """As the command that is printed does."""
    plan, found = small
    again = changed(plan, differences(found.plan, plan))
    assert again == found.plan
    verdict = run_plan(again, "new-fence")
    assert verdict.trace_hash == found.verdict.trace_hash
    assert verdict.broken == found.verdict.broken


def test_the_same_failure_shrinks_in_the_same_way(small: tuple[Plan, Shrunk]) -> None:
    assert make_small() == small


def test_a_run_that_breaks_another_law_is_not_the_same_failure() -> None:
    plan = ROUGH.plan(3)

    def other(each: Plan) -> Verdict:
        laws = ["one", "two"] if len(each.faults) > 2 else ["two"]
        return Verdict(3, {law: ["x"] for law in laws}, "", 0.0, 0, 0, 0, {})

    found = shrink(plan, other(plan), other)
    assert found.law == "one"
    assert len(found.plan.faults) == 3


def test_single_faults_can_be_left_out() -> None:
    plan = ROUGH.plan(3)
    everything = run_plan(plan)
    assert len(everything.faults) > 3
    kept = everything.faults[1]
    one = run_plan(changed(plan, [("only", kept)]))
    assert one.faults == (kept,)
    assert run_plan(changed(plan, [("only", "")])).faults == ()


def test_a_kind_of_fault_less_leaves_the_others_as_they_were() -> None:
    plan = ROUGH.plan(3)
    fewer = changed(plan, [("faults", ",".join(plan.faults - {"crash"}))])
    before, after = run_plan(plan).faults, run_plan(fewer).faults
    assert any(name.startswith("crash") for name in before)
    assert after == tuple(name for name in before if not name.startswith("crash"))


@given(st.sets(st.integers(0, 30), max_size=30), st.sets(st.integers(0, 30), max_size=4))
def test_as_few_as_fail_are_kept(things: set[int], guilty: set[int]) -> None:
    guilty &= things

    def still_fails(kept: Sequence[int]) -> bool:
        return guilty <= set(kept)

    assert set(fewest(sorted(things), still_fails)) == guilty or len(things) <= 1


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("colour", "red", "a plan has no 'colour': choose from act_seconds, "),
        ("nodes", "many", "'nodes' of a plan cannot be 'many'"),
        ("together", "perhaps", "'together' of a plan cannot be 'perhaps'"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(name: str, text: str, told: str) -> None:
    with pytest.raises(BadConfig, match=told):
        run_seed(1, Options(changes=((name, text),)))
