"""The sweeper in virtual time: leases, and what jumps of its time do to live runners."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.transition import Refusal
from holdfast.store.rows import NodeRow
from holdfast.store.store import Swept
from tests.unit.engine.sweeper_stores import Jumping, sweeping


async def test_a_jump_of_time_during_a_sweep_gives_runners_time_to_renew() -> None:
    """Without the wait, the next sweep would take the tasks of live runners."""
    store = Jumping()
    made = sweeping(store, is_looping=True)
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
    made = sweeping(store, lease_seconds=own, is_looping=True)
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
    made = sweeping(store, is_looping=True)
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
    made = sweeping(store, is_looping=True)
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
    made = sweeping(store, clock, renewed_at=lambda: renewed_at, is_looping=True)
    clock.pause(unrenewed_seconds)
    await made.step()
    assert len(store.swept_at) == sweeps


async def test_a_jump_of_time_before_the_first_sweep_gives_runners_time_to_renew() -> None:
    """The first tick may come long after the first reading of the time. Kept seeds 2000303 and 2006439."""
    store, clock = Jumping(jump=0.0), VirtualClock()
    made = sweeping(store, clock, is_looping=True)
    clock.pause(10.0)
    store.at += 10.0 + 30.0
    await made.step()
    assert store.swept_at == []
