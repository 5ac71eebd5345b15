"""The renewals of a remote worker: a run that was not renewed keeps its deadline and is asked for again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.task import RunId
from holdfast.remote.heartbeat import RemoteHeartbeat
from holdfast.remote.leases import Leases
from holdfast.remote.requests import Renewal

A, B = RunId("a", 1), RunId("b", 1)


class Runs:
    """The runs of a worker, and those that it was made to lose."""

    def __init__(self) -> None:
        self.by_id: dict[RunId, Any] = {
            run: SimpleNamespace(is_renewed=True, has_ended=False, task=None) for run in (A, B)
        }
        self.lost: set[RunId] = set()

    def cancel_again(self) -> None: ...

    def lose(self, runs: set[RunId]) -> None:
        self.lost |= runs


class Gateway:
    """Renews what `kept` names."""

    def __init__(self) -> None:
        self.kept = {A, B}

    async def renew(self, held: list[RunId], running: int, slots: int) -> Renewal:
        return Renewal(0.0, self.kept & set(held), 30.0)


def heartbeat(clock: VirtualClock, link: Gateway, runs: Runs, leases: Leases) -> RemoteHeartbeat:
    return RemoteHeartbeat(
        clock,
        link,  # type: ignore[arg-type]
        runs,  # type: ignore[arg-type]
        SimpleNamespace(busy=2, maximum=2),  # type: ignore[arg-type]
        leases,
        lease_seconds=30.0,
    )


async def test_a_run_that_ended_during_its_renewal_is_not_asked_for_again() -> None:
    """While short tasks run, each renewal names some that end meanwhile."""
    clock, runs = VirtualClock(), Runs()

    class Ending(Gateway):
        async def renew(self, held: list[RunId], running: int, slots: int) -> Renewal:
            del runs.by_id[B]
            return Renewal(0.0, {A}, 30.0)

    beat = heartbeat(clock, Ending(), runs, Leases(clock, runs))  # type: ignore[arg-type]
    assert await beat.tick() == 10.0


@pytest.mark.parametrize("held_up", [True, False])
async def test_a_run_that_was_not_renewed_is_not_lost(held_up: bool) -> None:
    clock, runs, link = VirtualClock(), Runs(), Gateway()
    leases = Leases(clock, runs)  # type: ignore[arg-type]
    beat = heartbeat(clock, link, runs, leases)
    leases.grant([A, B], -10.0, 30.0)
    before = leases.deadline(B)
    link.kept = {A} if held_up else {A, B}
    wait = await beat.tick()
    assert runs.lost == set()
    assert wait == (1.0 if held_up else 10.0)
    assert (leases.deadline(B) == before) is held_up
    assert leases.deadline(A) != before
