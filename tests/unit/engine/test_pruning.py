"""The rounds of pruning of a sweeper, in virtual time."""

from __future__ import annotations

from itertools import pairwise

from holdfast.engine import pruning, sweeper
from holdfast.store.store import Swept
from holdfast.store.upkeep import NextUpkeep
from tests.unit.engine.sweeper_stores import AtRest, Jumping, sweeping


async def test_the_first_tasks_after_a_start_do_not_compete_with_pruning() -> None:
    duties: list[str] = []

    class Noting(Jumping):
        def pruned(self, duty: str, limit: int) -> int:
            duties.append(duty)
            return 0

    store = Noting(jump=0.0)
    made = sweeping(store, is_looping=True)
    await made.step()
    assert store.swept_at == [1_000.0]
    assert "prune_entries" not in duties
    store.at += pruning.FIRST_PRUNE_SECONDS + sweeper.SPREAD_SECONDS
    await made.step()
    assert "prune_entries" in duties


class Growing(Jumping):
    """A store whose ledger has more to prune than one round prunes."""

    def __init__(self, entries: int) -> None:
        super().__init__(jump=0.0)
        self.entries = entries

    async def sweep(self, **_: object) -> Swept:
        return Swept([])

    def pruned(self, duty: str, limit: int) -> int:
        pruned = min(self.entries, limit) if duty == "prune_entries" else 0
        self.entries -= pruned
        return pruned


async def test_pruning_of_the_ledger_continues_until_a_batch_is_not_full() -> None:
    store = Growing(sweeper.PRUNE_BATCH * (pruning.ROUND_BATCHES_MAX + 2) + 1)
    made = sweeping(store)
    assert await made.step() == 0.0, "there is more: the next round starts at once"
    assert store.entries == sweeper.PRUNE_BATCH * 2 + 1
    assert await made.step() > 0.0
    assert store.entries == 0


async def test_rounds_of_pruning_back_off_at_rest() -> None:
    """Lost nodes are reported each minute all the same."""
    store = AtRest(NextUpkeep(None, None, False))
    made = sweeping(store)
    start, pruned, reported = store.at, list[float](), list[float]()
    while store.at < start + 1_200.0:
        store.done.clear()
        seconds = await made.step()
        if "prune_entries" in store.done:
            pruned.append(store.at - start)
        if "lose_nodes" in store.done:
            reported.append(store.at - start)
        store.at += seconds
    gaps = [after - before for before, after in pairwise(pruned)]
    assert gaps == [120.0, 240.0, 300.0, 300.0]
    assert {after - before for before, after in pairwise(reported)} == {60.0}


async def test_a_short_retention_is_looked_after_each_minute() -> None:
    store = AtRest(NextUpkeep(None, None, False))
    kept = pruning.Retention(done_seconds=300.0)
    made = sweeping(store, retention=kept)
    start, pruned = store.at, list[float]()
    while store.at < start + 300.0:
        store.done.clear()
        seconds = await made.step()
        if "prune_entries" in store.done:
            pruned.append(store.at - start)
        store.at += seconds
    assert {after - before for before, after in pairwise(pruned)} == {60.0}
