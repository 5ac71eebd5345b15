"""Shrinking keeps the broken law, reduces faults, nodes and time, and is deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

import pytest
from hypothesis import given, strategies as st

from holdfast.errors import BadConfig
from holdfast.sim.campaign import Options, Verdict, run_plan, run_seed
from holdfast.sim.shrink import Shrunk, fewest, shrink
from holdfast.sim.swarm import FAULTS, Plan, changed, differences
from proof.ablations import ablated

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
without_new_fence = partial(ablated, "new-fence")


def make_small() -> tuple[Plan, Shrunk]:
    """A failing run (claims without new fences), and the smallest run found for it."""
    # Which seed fails depends on the schedule, which every change of the product changes.
    runs = ((plan, run_plan(plan, around=without_new_fence)) for plan in map(ROUGH.plan, count()))
    plan, verdict = next(run for run in runs if [*run[1].broken][:1] == ["fences rise"])
    return plan, shrink(
        plan, verdict, lambda plan: run_plan(plan, around=without_new_fence), runs=RUNS
    )


@pytest.fixture(scope="module")
def small() -> tuple[Plan, Shrunk]:
    return make_small()


def test_a_shrunk_failure_has_fewer_faults_and_nodes_and_breaks_the_same_law(
    small: tuple[Plan, Shrunk],
) -> None:
    plan, shrunk = small
    assert shrunk.law == "fences rise"
    assert shrunk.law in shrunk.verdict.broken
    assert shrunk.plan.nodes < plan.nodes
    assert len(shrunk.plan.faults) < len(plan.faults)
    assert shrunk.plan.hours < plan.hours
    assert shrunk.runs <= RUNS


def test_the_smallest_plan_repeats_the_run_from_its_texts(
    small: tuple[Plan, Shrunk],
) -> None:
    """The printed command does the same."""
    plan, shrunk = small
    again = changed(plan, differences(shrunk.plan, plan))
    assert again == shrunk.plan
    verdict = run_plan(again, around=without_new_fence)
    assert verdict.trace_hash == shrunk.verdict.trace_hash
    assert verdict.broken == shrunk.verdict.broken


def test_shrinking_is_deterministic(small: tuple[Plan, Shrunk]) -> None:
    assert make_small() == small


def test_a_run_that_breaks_another_law_is_not_the_same_failure() -> None:
    plan = ROUGH.plan(3)

    def other(plan: Plan) -> Verdict:
        laws = ["one", "two"] if len(plan.faults) > 2 else ["two"]
        return Verdict(3, {law: ["x"] for law in laws}, "", 0.0, 0, 0, 0, {})

    shrunk = shrink(plan, other(plan), other)
    assert shrunk.law == "one"
    assert len(shrunk.plan.faults) == 3


def test_single_faults_can_be_selected() -> None:
    plan = ROUGH.plan(3)
    everything = run_plan(plan)
    assert len(everything.faults) > 3
    name = everything.faults[1]
    one = run_plan(changed(plan, [("only", name)]))
    assert one.faults == (name,)
    assert run_plan(changed(plan, [("only", "")])).faults == ()


def test_removing_a_kind_of_fault_does_not_change_the_others() -> None:
    plan = ROUGH.plan(3)
    fewer = changed(plan, [("faults", ",".join(plan.faults - {"crash"}))])
    before, after = run_plan(plan).faults, run_plan(fewer).faults
    assert any(name.startswith("crash") for name in before)
    assert after == tuple(name for name in before if not name.startswith("crash"))


@given(st.sets(st.integers(0, 30), max_size=30), st.sets(st.integers(0, 30), max_size=4))
def test_fewest_returns_a_minimal_failing_subset(items: set[int], guilty: set[int]) -> None:
    guilty &= items

    def still_fails(subset: Sequence[int]) -> bool:
        return guilty <= set(subset)

    assert set(fewest(sorted(items), still_fails)) == guilty or len(items) <= 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("colour", "red", "a plan has no 'colour': choose from act_seconds, "),
        ("nodes", "many", "'nodes' of a plan cannot be 'many'"),
        ("together", "perhaps", "'together' of a plan cannot be 'perhaps'"),
    ],
)
def test_an_invalid_plan_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        run_seed(1, Options(changes=((name, text),)))
