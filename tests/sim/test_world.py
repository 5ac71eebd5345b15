"""The outcome of a run is read at one point in time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.sim import world as worlds
from holdfast.sim.campaign import Options
from holdfast.sim.world import World


def test_feed_rows_and_nodes_are_read_at_one_point_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node acts between the reads of the feed, the rows and the nodes; kept seed 20478."""
    world = World(Options(hours=0.01, changes=(("act_seconds", "1.0"),)).plan(3))
    reads: list[tuple[str, float, int]] = []

    def record_reads(name: str) -> None:
        original: Callable[..., Any] = getattr(worlds, name)

        def read(*args: Any) -> Any:
            reads.append((name, world.loop.time(), world.database.transactions))
            return original(*args)

        monkeypatch.setattr(worlds, name, read)

    for name in ("all_events", "all_tasks", "in_memory"):
        record_reads(name)
    outcome = world.run()
    last = reads[-3:]
    assert [name for name, _, _ in last] == ["all_events", "all_tasks", "in_memory"]
    assert {(at, changes) for _, at, changes in last} == {(outcome.seconds, last[0][2])}


def test_a_run_that_is_over_is_not_kept() -> None:
    """Else a campaign grows by the history of each of its runs."""
    world = World(Options(hours=0.005).plan(3))
    run, database = weakref.ref(world), weakref.ref(world.database)
    world.run()
    del world
    gc.collect()
    assert run() is None
    assert database() is None
