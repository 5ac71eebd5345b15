"""The parts of a tick of the sweeper: which run, and what a failure of one does."""

from __future__ import annotations

import pytest

from holdfast.engine import sweeper
from holdfast.store.upkeep import NextUpkeep
from tests.unit.engine.sweeper_stores import AtRest, Quiet, sweeping

DUTIES = ("lose_nodes", "prune", "prune_entries", "prune_limits", "prune_counters", "prune_types")


@pytest.mark.parametrize("broken", DUTIES)
async def test_a_failing_part_does_not_block_the_others(broken: str) -> None:
    store = Quiet(broken)
    made = sweeping(store)
    await made.step()
    assert {*DUTIES} - {*store.done} == {broken}
    assert made.troubles == 1


async def test_tries_to_link_held_parents_back_off() -> None:
    store = Quiet()
    made = sweeping(store)
    store.is_held = True
    pauses = [await made.step() for _ in range(8)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])
    store.is_held = False
    assert await made.step() > 1.0
    store.is_held = True
    assert await made.step() == pytest.approx(0.05), "the next held parent is tried soon"


class Holding(Quiet):
    """A store with a cascade whose last child another transaction holds. `settled` counts the tries."""

    def __init__(self) -> None:
        super().__init__()
        self.is_free = False
        self.settled = 0

    async def pending(self) -> list[str]:
        return ["p"] if self.is_free else []

    async def held(self) -> list[tuple[str, str]]:
        return [("p", "c")] if not self.is_free else []

    async def settle(self, _: str) -> int:
        self.settled += 1
        return 0


async def test_tries_to_settle_held_children_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Holding()
    made = sweeping(store)
    pauses = [await made.step() for _ in range(8)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])
    assert store.settled == 0
    lines = [record for record in caplog.records if "holds task c" in record.getMessage()]
    assert len(lines) == 1, "logged once"
    store.is_free = True
    assert await made.step() > 1.0
    assert store.settled == 1


PARTS = ["link", "pending", "deadlines"]


@pytest.mark.parametrize(
    ("found", "calls", "pause"),
    [
        (NextUpkeep(None, None, False), [], 9.0),
        (NextUpkeep(1_004.0, None, False), [], 4.0 + sweeper.SPREAD_SECONDS),
        (NextUpkeep(None, 1_003.0, False), [], 3.0),
        (NextUpkeep(999.0, None, False), ["sweep"], 9.0),
        (NextUpkeep(None, 999.0, False), PARTS, 9.0),
        (NextUpkeep(None, None, True), PARTS, 9.0),
    ],
    ids=["nothing", "a lease", "a deadline", "an ended lease", "an ended deadline", "left"],
)
async def test_a_sweeper_does_what_its_look_finds_and_sleeps_until_the_next_thing(
    found: NextUpkeep, calls: list[str], pause: float
) -> None:
    store = AtRest(found)
    made = sweeping(store)
    made._count_at = made._pruning.next_at = made._round_at = store.at + 60.0
    seconds = await made.step()
    assert (store.looks, store.calls) == (1, calls)
    assert pause - sweeper.SPREAD_SECONDS <= seconds <= pause


async def test_a_look_that_fails_makes_every_part_look_for_itself() -> None:
    class Broken(AtRest):
        async def next(self) -> NextUpkeep:
            raise ValueError("next")

    store = Broken(NextUpkeep(None, None, False))
    made = sweeping(store)
    await made.step()
    assert store.calls == ["sweep", *PARTS]
    assert made.troubles == 1
