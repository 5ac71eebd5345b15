"""What a sweeper waits for, in one statement, and how a server's time comes along with a poll."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import command as c
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.store import Store
from holdfast.store.upkeep import NextUpkeep
from tests.conformance.tasks.helpers import after, asked, claim_one, complete, order, put, put_plain


async def test_a_store_at_rest_has_nothing_due(store: Store) -> None:
    assert await store.upkeep.next() == NextUpkeep(None, None, False)
    await put(store)
    await complete(store, await claim_one(store))
    assert await store.upkeep.next() == NextUpkeep(None, None, False)


async def test_the_look_finds_the_first_lease_also_one_that_has_ended(
    store: Store, clock: VirtualClock
) -> None:
    await put_plain(store, 2)
    first = await claim_one(store, lease_seconds=9.0)
    second = await claim_one(store, lease_seconds=60.0)
    assert (await store.upkeep.next()).lease_at == first.lease_until
    clock.set(clock.now() + 30.0)
    assert (await store.upkeep.next()).lease_at == first.lease_until
    assert len((await store.sweep()).expired) == 1
    assert (await store.upkeep.next()).lease_at == second.lease_until


async def test_the_look_finds_the_first_deadline(store: Store) -> None:
    (task_id,) = await put_plain(store, 1, progress_timeout_seconds=5.0)
    task = await claim_one(store, lease_seconds=60.0)
    assert (await store.upkeep.next()).change_at == task.progress_due_at
    await order(store, task_id, c.Reassign("ann", "node-b", 60.0))
    change_at = (await store.upkeep.next()).change_at
    assert change_at is not None
    deadlines = await store.by_id.deadlines()
    assert change_at == min(deadline.at for deadline in deadlines)


@pytest.mark.parametrize("cascade_batch", [3])
async def test_the_look_finds_dependents_that_are_left(store: Store) -> None:
    await put(store, "p")
    await store.insert([asked(store, f"c{n}", depends_on=after("p")) for n in range(7)])
    while (await store.links.link()).done:
        pass
    assert not (await store.upkeep.next()).is_left
    await complete(store, await claim_one(store))
    assert (await store.upkeep.next()).is_left
    while parents := await store.cascades.pending():
        for parent_id in parents:
            await store.cascades.settle(parent_id)
    assert not (await store.upkeep.next()).is_left


async def test_a_poll_of_an_idle_worker_reads_the_clock_of_the_server(store: Store) -> None:
    """Its calls then need no statement of their own for the time."""
    driver = store._driver
    if not isinstance(driver, PostgresDriver):
        assert (await store.backlog.first_due(["default"])).due_at is None
        return
    theirs = driver._theirs
    theirs._due_at = float("-inf")
    assert theirs.is_due()
    await store.backlog.first_due(["default"])
    assert not theirs.is_due()
