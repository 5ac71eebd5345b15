"""The outbox: claimed by one process at a time, announced again until it is done."""

from __future__ import annotations

import asyncio

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import OutboxKind
from holdfast.fleet.jobs.outbox import CLAIM_SECONDS, Outbox, announce
from holdfast.store.store import Store
from tests.backends import Bench

PLAN = OutboxKind.PLAN_JOB


async def add(store: Store, *subjects: str, kind: OutboxKind = PLAN, due_in: float = 0.0) -> None:
    await store.run(lambda _dialect, _ids, now: announce(kind, subjects, now, due_at=now + due_in))


async def test_an_entry_is_claimed_once_and_then_done(store: Store) -> None:
    await add(store, "job-1", "job-2")
    outbox = Outbox(store, "me")
    entries = await outbox.claim(PLAN)
    assert [entry.subject for entry in entries] == ["job-1", "job-2"]
    assert await Outbox(store, "other").claim(PLAN) == []
    await outbox.done(entries)
    assert await outbox.next_due(PLAN) is None


async def test_an_entry_whose_claimer_died_is_announced_again(
    store: Store, clock: VirtualClock
) -> None:
    await add(store, "job-1")
    [first] = await Outbox(store, "dead").claim(PLAN)
    clock.pause(CLAIM_SECONDS)
    outbox = Outbox(store, "me")
    [again] = await outbox.claim(PLAN)
    assert (again.id, again.attempts) == (first.id, 2)
    await Outbox(store, "dead").done([first])
    assert await outbox.next_due(PLAN) is not None, "the claim of the first one has ended"
    await outbox.done([again])
    assert await outbox.next_due(PLAN) is None


async def test_an_entry_that_fails_waits_longer_each_time(
    store: Store, clock: VirtualClock
) -> None:
    await add(store, "job-1")
    outbox = Outbox(store, "me")
    waits = []
    for _ in range(3):
        [entry] = await outbox.claim(PLAN)
        await outbox.delay(entry, "no answer")
        due_at = await outbox.next_due(PLAN)
        assert due_at is not None
        waits.append(round(due_at - store.now()))
        clock.pause(due_at - store.now() + 0.001)
    assert waits == [2, 4, 8]
    [entry] = await outbox.claim(PLAN)
    assert entry.error == "no answer"


async def test_kinds_and_times_are_kept_apart(store: Store, clock: VirtualClock) -> None:
    await add(store, "hook", kind=OutboxKind.WEBHOOK)
    await add(store, "later", due_in=60.0)
    outbox = Outbox(store, "me")
    assert await outbox.claim(PLAN) == []
    assert [entry.subject for entry in await outbox.claim(OutboxKind.WEBHOOK)] == ["hook"]
    clock.pause(60.0)
    assert [entry.subject for entry in await outbox.claim(PLAN)] == ["later"]


async def test_many_claimers_share_the_entries_without_overlap(bench: Bench) -> None:
    stores = [await bench.open() for _ in range(4)]
    await add(stores[0], *(f"job-{n}" for n in range(100)))
    claimed = await asyncio.gather(
        *(Outbox(store, f"p{n}").claim(PLAN, 25) for n, store in enumerate(stores))
    )
    subjects = [entry.subject for entries in claimed for entry in entries]
    assert len(subjects) == len(set(subjects)) > 0
