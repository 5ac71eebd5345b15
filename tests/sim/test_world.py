"""One run from outside: what the judge is given belongs to one moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.sim import world as worlds
from holdfast.sim.campaign import Options
from holdfast.sim.world import World


def test_the_judge_looks_at_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody acts between its looks at the feed, at the rows and at the nodes; kept seed 20478."""
    world = World(Options(hours=0.01, changes=(("act_seconds", "1.0"),)).plan(3))
    looks: list[tuple[str, float, int]] = []

    def noted(name: str) -> None:
        look: Callable[..., Any] = getattr(worlds, name)

        def looked(*args: Any) -> Any:
            looks.append((name, world.loop.time(), world.database.transactions))
            return look(*args)

        monkeypatch.setattr(worlds, name, looked)

    for name in ("all_events", "all_tasks", "held"):
        noted(name)
    outcome = world.run()
    last = looks[-3:]
    assert [name for name, _, _ in last] == ["all_events", "all_tasks", "held"]
    assert {(at, changes) for _, at, changes in last} == {(outcome.seconds, last[0][2])}
