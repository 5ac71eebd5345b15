"""The audit: rows in the transaction of the act, one chain over all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from holdfast.core.audit import AuditEntry, AuditRow
from holdfast.core.command import Abort, Instruction
from holdfast.core.decide import Refusal, Transition
from holdfast.core.event import NewEvent
from holdfast.core.schedule import Schedule
from holdfast.errors import NotFound
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.beside import Beside
from holdfast.store.postgres.lock_retries import LockRetries
from holdfast.store.script import Script
from holdfast.store.scripts import audit
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import asked, put_plain
from tests.statements import execute


class Noted(Beside):
    """Audits the changes of an act."""

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        yield from audit.append([entry(now, subject) for subject in subjects(outcome)])
        return [NewEvent("test.noted", now, "", "", {"n": len(subjects(outcome))})]


class Silent(Noted):
    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        yield from super().after(outcome, now)
        return ()


class Failing(Noted):
    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        yield from super().after(outcome, now)
        raise LookupError("after the row was written")


def entry(now: float, subject: str) -> AuditEntry:
    return AuditEntry(
        at=now,
        actor="user:ann",
        operation="tasks.intervene",
        project="default",
        subject=subject,
        reason="za\u017c\u00f3\u0142\u0107 'quoted' \U0001f512",
        before_version=1,
        detail_json='{"a":[1,null]}',
        request_id="req_1",
    )


def subjects(outcome: object) -> list[str]:
    if isinstance(outcome, list):
        return [ruling.after.id for ruling in outcome if isinstance(ruling, Transition)]
    return [str(outcome)]


def abort(task_id: str) -> Instruction:
    return Instruction(task_id, Abort("user:ann"))


async def test_an_empty_audit_is_whole(store: Store) -> None:
    empty = (0, "0" * 64)
    assert await AuditStore(store).verify() == (empty, empty, None)


async def test_an_act_and_its_row_are_one_transaction(store: Store) -> None:
    first, second = await put_plain(store, 2)
    rulings = await store.apply([abort(first), abort("no-such-task")], beside=Noted())
    assert [type(ruling) for ruling in rulings] == [Transition, Refusal]
    with pytest.raises(LookupError):
        await store.apply([abort(second)], beside=Failing())
    rows = await AuditStore(store).after(0, 10)
    assert [(row.seq, row.subject) for row in rows] == [(1, first)]
    assert (await store.reads.get([second]))[second].status == "queued"
    assert (await AuditStore(store).verify()).wrong is None


async def test_its_events_stand_in_the_record_of_the_act(store: Store) -> None:
    (task_id,) = await put_plain(store, 1)
    await store.apply([abort(task_id)], beside=Noted())
    page = await store.feed.read(None, 100)
    assert [event.kind for event in page.events] == ["task.enqueued", "task.aborted", "test.noted"]  # type: ignore[union-attr]
    assert [event.kind for event in await store.feed.history(task_id)] == [
        "task.enqueued",
        "task.aborted",
    ]


async def test_queues_schedules_and_inserts_take_rows_beside_them(store: Store) -> None:
    await store.upkeep.pause_queue("mail", actor="ann", reason="", beside=Noted())
    await store.upkeep.resume_queue("mail", actor="ann", beside=Noted())
    await store.upkeep.resume_queue("mail", actor="ann", beside=Noted())
    schedule = Schedule("nightly", "work", "default", "0 3 * * *", "UTC", "null", 2, 0.0)
    await store.schedules.put(schedule, actor="ann", beside=Silent())
    await store.schedules.put(schedule, actor="ann", beside=Silent())
    by = By("ann", beside=Silent())
    await store.schedules.pause("nightly", by)
    await store.schedules.resume("nightly", by)
    await store.schedules.remove("nightly", by)
    with pytest.raises(NotFound):
        await store.schedules.pause("nightly", by)
    await store.insert([asked(store)], beside=Silent())
    rows = await AuditStore(store).after(0, 100)
    assert [row.subject.startswith("QueuePause(") for row in rows[:3]] == [True] * 3
    assert [row.subject.startswith("Schedule(") for row in rows[3:]] == [True] * 5
    assert (await AuditStore(store).verify()).wrong is None


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller waits for a held row as long as it takes: on a busy machine, thirty need more than its
    limit."""
    outlast = LockRetries.outlast

    async def wait(*args: Any, wait_seconds: float) -> Any:
        return await outlast(*args, wait_seconds=max(wait_seconds, 100.0))

    monkeypatch.setattr(LockRetries, "outlast", wait)


@pytest.mark.usefixtures("patient")
async def test_transactions_at_once_make_one_chain(shared_bench: Bench) -> None:
    stores = [await shared_bench.open() for _ in range(3)]
    ids = await put_plain(stores[0], 30)
    await asyncio.gather(
        *(stores[n % 3].apply([abort(task_id)], beside=Noted()) for n, task_id in enumerate(ids))
    )
    _, head, wrong = await AuditStore(stores[0]).verify()
    assert (head.seq, wrong) == (30, None)
    assert {row.subject for row in await AuditStore(stores[1]).before(100, 50)} == set(ids)


async def test_times_of_any_size_keep_their_hash(store: Store) -> None:
    times = [0.0, 1.0005, 1_800_000_000.123456789, 1_799_999_999.9996, 4e9 / 7]
    entries = [entry(at, str(at)) for at in times]
    await store.run(lambda _dialect, _ids, _now: audit.append(entries))
    assert (await AuditStore(store).verify()).wrong is None


async def test_a_changed_row_is_found(store: Store) -> None:
    ids = await put_plain(store, 3)
    for task_id in ids:
        await store.apply([abort(task_id)], beside=Noted())
    await execute(store, "move_audit_head", seq=2, hash="f" * 64)
    _, head, wrong = await AuditStore(store).verify()
    assert (head.seq, wrong) == (2, 2)


async def test_rows_that_retention_removes_meanwhile_are_no_alarm(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention removes the first rows between the read of the start and the read of the rows."""
    for task_id in await put_plain(store, 4):
        await store.apply([abort(task_id)], beside=Noted())
    reads, after = AuditStore(store), AuditStore.after

    async def prune_then_read(self: AuditStore, seq: int, limit: int) -> list[AuditRow]:
        if seq == 0:
            old = partial(audit.prune, before=store.now() + 1, limit=2)
            await store.run(lambda _dialect, _ids, _now: old())
        return await after(self, seq, limit)

    monkeypatch.setattr(AuditStore, "after", prune_then_read)
    check = await reads.verify()
    assert (check.wrong, check.start.seq, check.rows) == (None, 2, 2)
