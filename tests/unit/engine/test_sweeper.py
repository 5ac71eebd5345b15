"""The sweeper in virtual time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast import TaskQueue
from holdfast.clock import VirtualClock
from holdfast.engine import sweeper
from holdfast.store.scripts.edges import Tied
from holdfast.store.store import Swept
from holdfast.testing import harness


async def test_pruning_goes_on_at_once_while_there_is_more(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round is bounded; a load that ends more than that in the time between rounds must not pile up."""
    monkeypatch.setattr(sweeper, "PRUNE_BITE", 2)
    monkeypatch.setattr(sweeper, "BITES_MAX", 2)

    @queue.task
    async def work() -> None: ...

    async with harness(queue, keep_done=5.0) as h:
        await queue.enqueue_many([work.request() for _ in range(40)])
        await h.advance(1)
        assert (await queue.get_stats()).completed == 40
        await h.advance(sweeper.PRUNE_SECONDS + 6.0)
        assert (await queue.get_stats()).completed == 0


class Jumping:
    """A store whose time jumps while it is swept, as when a server's clock is read off just then."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.swept_at: list[float] = []

    def now(self) -> float:
        return self.at

    async def cascades(self) -> list[str]:
        return []

    async def sweep(self, **_: object) -> Swept:
        self.swept_at.append(self.at)
        self.at += 500.0
        return Swept([], next_at=1_009.0)

    async def tie(self, _: int) -> Tied:
        return Tied(0, True)

    async def counters(self) -> list[object]:
        return []

    async def run(self, _: object) -> int:
        return 0

    async def prune(self, **_: object) -> int:
        return 0

    async def execute(self, *_: object, **__: object) -> list[object]:
        return []


async def test_a_jump_of_time_during_a_sweep_gives_runners_time_to_renew() -> None:
    """The next sweep would otherwise take the tasks of every runner that is alive."""
    store = Jumping()
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    made.is_looping = True
    assert await made.step() == 0.0
    assert await made.step() > 0.0
    assert store.swept_at == [1_000.0]


class Growing:
    """A store whose ledger has more to forget than one round does."""

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def now(self) -> float:
        return 1_000.0

    async def cascades(self) -> list[str]:
        return []

    async def sweep(self, **_: object) -> Swept:
        return Swept([])

    async def tie(self, _: int) -> Tied:
        return Tied(0, True)

    async def counters(self) -> list[object]:
        return []

    async def run(self, _: object) -> int:
        return 0

    async def prune(self, **_: object) -> int:
        return 0

    async def execute(self, name: str, *, limit: int = 0, **_: object) -> list[int]:
        gone = min(self.entries, limit) if name == "prune_entries" else 0
        self.entries -= gone
        return [1] * gone


async def test_pruning_of_the_ledger_goes_on_until_a_bite_is_not_full() -> None:
    store = Growing(sweeper.PRUNE_BITE * (sweeper.BITES_MAX + 2) + 1)
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    assert await made.step() == 0.0, "there is more: the next round comes at once"
    assert store.entries == sweeper.PRUNE_BITE * 2 + 1
    assert await made.step() > 0.0
    assert store.entries == 0
