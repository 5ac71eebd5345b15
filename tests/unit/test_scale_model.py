"""The queueing model of `python -m proof scale`: what ends first is what was made scarce."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proof.scale.model import Run
from proof.scale.parts import Load, Machine, Outcome
from proof.scale.predict import first_of

LOAD = Load(
    producers=8,
    tasks=1,
    client=100e-6,
    server=100e-6,
    wal=1_000.0,
    workers=4,
    run_client=10e-6,
    run_server=20e-6,
    run_wal=1_000.0,
    number=5e-6,
    count=3e-6,
    feed_wal=500.0,
)
SLOW_DISK = Machine(64, 0.005)
FAST_DISK = Machine(64, 0.00002)


def outcome(machine: Machine, load: Load, seconds: float = 1.0) -> Outcome:
    return Run(machine, load).result(seconds)


def test_the_same_seed_gives_the_same_result() -> None:
    assert outcome(SLOW_DISK, LOAD) == outcome(SLOW_DISK, LOAD)
    assert outcome(SLOW_DISK, LOAD) != Run(SLOW_DISK, LOAD, seed=2).result(1.0)


def test_commits_with_a_hint_follow_one_another() -> None:
    """One sync of 5 ms each, whatever the number of processes: at most 200 a second."""
    found = outcome(SLOW_DISK, replace(LOAD, workers=0, hint_cost=0.0))
    assert found.given <= 200 * 1.1
    assert first_of(found) == "hint lock"


def test_commits_with_a_hint_become_rare_when_they_wait() -> None:
    """As in the product: half of the time of a process at most."""
    found = outcome(SLOW_DISK, replace(LOAD, workers=0), 3.0)
    assert found.given > 2 * 200


def test_commits_without_a_hint_share_a_sync() -> None:
    """A commit waits for the sync that runs and for its own: two syncs for each commit of a process."""
    found = outcome(SLOW_DISK, replace(LOAD, workers=0, hints=False))
    assert found.given > 3 * 200
    assert first_of(found) == "processes"


@pytest.mark.parametrize("gathers", [False, True])
def test_a_lone_process_has_a_sync_for_each_commit(gathers: bool) -> None:
    load = replace(LOAD, producers=1, workers=0, number=0.0)
    found = outcome(Machine(4, 0.005, gathers=gathers), load)
    assert found.given == pytest.approx(1 / (0.005 + 200e-6), rel=0.05)
    assert found.syncs == pytest.approx(found.commits)


def test_a_hint_costs_something_for_each_listener() -> None:
    load = replace(LOAD, workers=0, wake=30e-6)
    few, many = (outcome(SLOW_DISK, replace(load, producers=n)) for n in (4, 64))
    assert many.use["cores"] > 5 * few.use["cores"]


def test_cores_end() -> None:
    found = outcome(replace(FAST_DISK, cores=1), replace(LOAD, server=1e-3, hints=False))
    assert first_of(found) == "cores"
    assert found.tasks < 1_000


def test_the_lock_of_the_feed_ends() -> None:
    load = replace(LOAD, number=1e-3, hints=False)
    assert first_of(outcome(FAST_DISK, load, 3.0)) == "feed lock"


def test_the_bandwidth_of_the_log_ends() -> None:
    load = replace(LOAD, wal=1e6, hints=False)
    found = outcome(FAST_DISK, load)
    assert first_of(found) == "log"
    assert found.wal <= FAST_DISK.wal_bytes_per_second * 1.05


def test_workers_keep_up_with_producers() -> None:
    found = outcome(Machine(16, 0.0001), replace(LOAD, prune=5e-6, prune_wal=100.0), 2.0)
    assert found.tasks == pytest.approx(found.given, rel=0.05)
