"""Random histories of a fair type: each claim starts what the rule deals (core/turns.py), on every store."""

from __future__ import annotations

from collections import Counter, deque
from random import Random

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Snooze
from holdfast.core.task import Status
from holdfast.core.turns import Line, Turn, WeightChange, deal
from holdfast.store.scripts import turns
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import asked, claim, complete, runner_says

KEYS = ("", "a", "b", "c", "dé", "ž", "日")
STEPS = 40


class Model:
    """What the store should do: a line of ids for each key, and the rule."""

    def __init__(self) -> None:
        self.lines: dict[str, deque[str]] = {key: deque() for key in KEYS}
        self.weights: dict[str, int] = dict.fromkeys(KEYS, 1)
        self.turn = Turn()

    def claim(self, limit: int) -> Counter[str]:
        """The ids that start now."""
        lines = [Line(key, self.weights[key], len(self.lines[key])) for key in sorted(KEYS)]
        dealt = deal(self.turn, [line for line in lines if line.ready], limit)
        self.turn = dealt.turn
        return Counter(self.lines[key].popleft() for key in dealt.keys)


async def follow(store: Store, clock: VirtualClock, seed: int) -> None:
    """Fails at the first claim that differs from the model."""
    draw, model = Random(seed), Model()
    for _ in range(STEPS):
        clock.set(clock.now() + 1)
        match draw.choice(["put", "put", "claim", "claim", "weigh"]):
            case "put":
                key = draw.choice(KEYS)
                group = [
                    asked(store, type="other", fair=True, key=key or None)
                    for _ in range(draw.randint(1, 9))
                ]
                await store.insert(group)
                model.lines[key] += [submission.task.id for submission in group]
            case "weigh":
                key, weight = draw.choice(KEYS), draw.randint(1, 3)
                await store.upkeep.set_weight(WeightChange("other", key, weight), actor="test")
                model.weights[key] = weight
            case "claim":
                limit = draw.randint(1, 12)
                started = await claim(store, limit)
                assert Counter(task.id for task in started) == model.claim(limit)
                for task in started:
                    if draw.random() < 0.2:
                        await runner_says(store, task, Snooze(0.5))
                        model.lines[task.fair_key or ""].append(task.id)
                    else:
                        await complete(store, task)


@pytest.mark.parametrize("seed", range(3))
async def test_claims_follow_the_rule(store: Store, clock: VirtualClock, seed: int) -> None:
    await follow(store, clock, seed)
    left = await store.reads.find(limit=1_000)
    assert {task.status for task in left} <= {Status.QUEUED, Status.COMPLETED}


async def test_the_model_notices_a_store_without_turns(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ablation: one key gets all slots of a claim."""

    def first(turn: Turn, lines: list[Line], slots: int) -> object:
        return deal(turn, lines[:1], slots)

    monkeypatch.setattr(turns, "deal", first)
    with pytest.raises(AssertionError):
        await follow(store, clock, 0)
