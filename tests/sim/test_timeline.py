"""The text timeline of a run."""

from __future__ import annotations

from functools import partial

from holdfast.sim.campaign import Options, run_seed
from holdfast.sim.timeline import draw
from holdfast.sim.trace import Line
from proof.ablations import ablated

TERMINAL = "no illegal transition, terminal is final"


def test_nodes_are_columns_and_time_goes_down() -> None:
    lines = [Line(1.5, "w1", "starts (1)"), Line(2.25, "db", "restarts"), Line(3.0, "w1", "x" * 40)]
    assert draw(lines).splitlines() == [
        "time (s)   db                        w1",
        "---------------------------------------",
        "1.500" + " " * 32 + "starts (1)",
        "2.250      restarts",
        "3.000" + " " * 32 + "x" * 24 + "~",
    ]


def test_a_failure_is_drawn_with_its_messages() -> None:
    """Claims are duplicated by the network and fences are off."""
    options = Options(
        hours=0.02,
        nodes=2,
        faults=("double",),
        recover_hours=0.3,
        changes=(("rate", "10"), ("act_seconds", "3"), ("traders", ""), ("holders", "0")),
    )
    verdicts = (run_seed(seed, options, around=partial(ablated, "fence")) for seed in range(20))
    bad = next(verdict for verdict in verdicts if TERMINAL in verdict.broken)
    assert "doubled script > db" in bad.timeline
    assert "running>completed" in bad.timeline
