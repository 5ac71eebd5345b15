"""The sweeper in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.transition import Refusal
from holdfast.engine import sweeper
from holdfast.store.rows import NodeRow
from holdfast.store.scripts.edges import Linked
from holdfast.store.store import Swept


class Pruning:
    """The upkeep of a store: every duty asks `pruned` how many rows there were to remove."""

    def __init__(self, pruned: Callable[[str, int], int]) -> None:
        self._pruned = pruned

    def __getattr__(self, duty: str) -> Any:
        async def prune(*, limit: int = 0, **_: object) -> int:
            return self._pruned(duty, limit)

        return prune


class Parts:
    """A store that is each of its parts itself."""

    @property
    def reads(self) -> Self:
        return self

    @property
    def feed(self) -> Self:
        return self

    @property
    def links(self) -> Self:
        return self

    @property
    def cascades(self) -> Self:
        return self


class Jumping(Parts):
    """A store whose time jumps during a sweep, as when the clock of a server is read again just then."""

    def __init__(self, jump: float = 500.0, lease_seconds: float = 9.0) -> None:
        self.at = 1_000.0
        self.swept_at: list[float] = []
        self._jump = jump
        self._lease_seconds = lease_seconds
        """The lease of another node."""

    def now(self) -> float:
        return self.at

    @property
    def upkeep(self) -> Pruning:
        return Pruning(self.pruned)

    def pruned(self, duty: str, limit: int) -> int:
        """How many rows a duty found to remove."""
        return 0

    async def nodes(self) -> list[NodeRow]:
        info = f'{{"lease_seconds": {self._lease_seconds}}}'
        return [NodeRow("other", 0.0, self.at, info)]

    async def pending(self) -> list[str]:
        return []

    async def held(self) -> list[tuple[str, str]]:
        return []

    async def sweep(self, *, at: float | None = None, **_: object) -> Swept:
        self.swept_at.append(self.at)
        self.at += self._jump
        return Swept([], next_at=1_009.0)

    async def link(self, _: int, **__: object) -> Linked:
        return Linked(0, True)

    async def counters(self) -> list[object]:
        return []

    async def prune(self, **_: object) -> int:
        return 0


async def test_a_jump_of_time_during_a_sweep_gives_runners_time_to_renew() -> None:
    """Without the wait, the next sweep would take the tasks of live runners."""
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


@pytest.mark.parametrize(
    ("own", "other", "jump", "wait"),
    [(9.0, 300.0, 500.0, 300.0), (300.0, 3.0, 50.0, 3.0), (9.0, 300.0, 90.0, 9.0)],
    ids=["a longer lease", "a shorter lease", "a longer lease that is not in danger"],
)
async def test_a_jump_of_time_gives_runners_with_other_leases_time_to_renew(
    own: float, other: float, jump: float, wait: float
) -> None:
    store = Jumping(jump, other)
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=own,
    )
    made.is_looping = True
    await made.step()
    landed = store.at
    assert landed == 1_000.0 + jump
    while len(store.swept_at) < 2:
        store.at += await made.step()
    assert store.swept_at[1] == landed + wait


class WithRemote(Jumping):
    """A store whose other node is a remote worker."""

    async def nodes(self) -> list[NodeRow]:
        info = f'{{"lease_seconds": {self._lease_seconds}, "remote": true}}'
        return [NodeRow("other", 0.0, self.at - 3_000.0, info)]


@pytest.mark.parametrize(
    ("kind", "lease", "wait"),
    [(Jumping, 9.0, 0.0), (WithRemote, 9.0, 9.0), (WithRemote, 3_600.0, 30.0)],
    ids=["no remote worker", "a remote worker", "a long lease"],
)
async def test_a_sweeper_that_starts_gives_remote_workers_time_to_return(
    kind: type[Jumping], lease: float, wait: float
) -> None:
    store = kind(0.0, lease)
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    made.is_looping = True
    while not store.swept_at:
        store.at += await made.step()
    assert store.swept_at == [1_000.0 + wait]


class JumpingBetween(Jumping):
    """A store with one lease that has ended, whose clock is read off while that is taken back."""

    async def sweep(self, *, at: float | None = None, **_: object) -> Swept:
        self.swept_at.append(self.at if at is None else at)
        self.at += self._jump
        is_first = len(self.swept_at) == 1
        return Swept([cast(Any, Refusal("t", "conflict", "taken back"))] if is_first else [])


async def test_a_jump_of_time_between_two_parts_of_a_sweep_ends_no_lease() -> None:
    """The second part judges by the time of the first: runners have not heard of the new time."""
    store = JumpingBetween()
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    made.is_looping = True
    await made.step()
    assert store.swept_at == [1_000.0, 1_000.0]
    assert await made.step() > 0.0
    assert len(store.swept_at) == 2, "and the next one waits for the runners"


@pytest.mark.parametrize(("unrenewed_seconds", "sweeps"), [(5.9, 1), (6.1, 0)])
async def test_a_process_that_could_not_renew_takes_nothing_back_at_once(
    unrenewed_seconds: float, sweeps: int
) -> None:
    """As after a disk that was full: runners that are alive could not renew either."""
    store, clock = Jumping(jump=0.0), VirtualClock()
    renewed_at = clock.monotonic()
    made = sweeper.Sweeper(
        clock,
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
        renewed_at=lambda: renewed_at,
    )
    made.is_looping = True
    clock.pause(unrenewed_seconds)
    await made.step()
    assert len(store.swept_at) == sweeps


async def test_a_jump_of_time_before_the_first_sweep_gives_runners_time_to_renew() -> None:
    """The first tick may come long after the first reading of the time. Kept seeds 2000303 and 2006439."""
    store, clock = Jumping(jump=0.0), VirtualClock()
    made = sweeper.Sweeper(
        clock,
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    made.is_looping = True
    clock.pause(10.0)
    store.at += 10.0 + 30.0
    await made.step()
    assert store.swept_at == []


async def test_the_first_tasks_after_a_start_do_not_compete_with_pruning() -> None:
    duties: list[str] = []

    class Noting(Jumping):
        def pruned(self, duty: str, limit: int) -> int:
            duties.append(duty)
            return 0

    store = Noting(jump=0.0)
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    made.is_looping = True
    await made.step()
    assert store.swept_at == [1_000.0]
    assert "prune_entries" not in duties
    store.at += sweeper.FIRST_PRUNE_SECONDS + sweeper.SPREAD_SECONDS
    await made.step()
    assert "prune_entries" in duties


class Growing(Parts):
    """A store whose ledger has more to prune than one round prunes."""

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def now(self) -> float:
        return 1_000.0

    async def pending(self) -> list[str]:
        return []

    async def held(self) -> list[tuple[str, str]]:
        return []

    async def sweep(self, **_: object) -> Swept:
        return Swept([])

    async def link(self, _: int, **__: object) -> Linked:
        return Linked(0, True)

    async def counters(self) -> list[object]:
        return []

    async def prune(self, **_: object) -> int:
        return 0

    @property
    def upkeep(self) -> Pruning:
        return Pruning(self.pruned)

    def pruned(self, duty: str, limit: int) -> int:
        pruned = min(self.entries, limit) if duty == "prune_entries" else 0
        self.entries -= pruned
        return pruned


async def test_pruning_of_the_ledger_continues_until_a_batch_is_not_full() -> None:
    store = Growing(sweeper.PRUNE_BATCH * (sweeper.BATCHES_MAX + 2) + 1)
    made = sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )
    assert await made.step() == 0.0, "there is more: the next round starts at once"
    assert store.entries == sweeper.PRUNE_BATCH * 2 + 1
    assert await made.step() > 0.0
    assert store.entries == 0


class Quiet(Jumping):
    """A store without due work. `broken`: statements and methods that fail."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = broken
        self.done: list[str] = []
        self.is_held = False

    def _do(self, name: str) -> None:
        if name in self.broken:
            raise ValueError(name)
        self.done.append(name)

    async def sweep(self, **_: object) -> Swept:
        return Swept([])

    async def link(self, _: int, **__: object) -> Linked:
        return Linked(0, not self.is_held)

    @property
    def by_id(self) -> Quiet:
        return self

    async def deadlines(self) -> list[object]:
        return []

    async def prune(self, **_: object) -> int:
        self._do("prune")
        return 0

    def pruned(self, duty: str, limit: int) -> int:
        self._do(duty)
        return 0


DUTIES = ("lose_nodes", "prune", "prune_entries", "prune_limits", "prune_counters", "prune_types")


def sweeping(store: object) -> sweeper.Sweeper:
    return sweeper.Sweeper(
        VirtualClock(),
        cast(Any, store),
        sweeper.Retention(),
        lambda: None,
        node="n",
        lease_seconds=9.0,
    )


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
