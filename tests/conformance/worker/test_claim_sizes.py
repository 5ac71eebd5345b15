"""How many tasks a claim of a remote worker takes, on every store: they are one message."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import capacity
from holdfast.core.capacity import CLAIM_MAX, LARGE_CLAIM_MAX
from holdfast.core.task import Task
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.tasks.helpers import put_plain
from tests.conformance.worker.worker_support import Worker, kinds_of


def runs(tasks: list[Task]) -> list[tuple[str, int]]:
    return sorted((task.id, task.fence) for task in tasks)


async def test_a_claim_takes_many_tasks_once_their_size_is_known(
    store: Store, sync: WorkerSync
) -> None:
    await put_plain(store, 2 * CLAIM_MAX)
    worker = await Worker(sync).start()
    assert len(await worker.claim(CLAIM_MAX, "c-1")) == LARGE_CLAIM_MAX
    many = await worker.claim(2 * CLAIM_MAX, "c-2")
    assert len(many) == CLAIM_MAX
    assert runs(await worker.claim(2 * CLAIM_MAX, "c-2")) == runs(many)


async def test_a_claim_that_one_message_cannot_carry_is_undone(
    store: Store, sync: WorkerSync, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large tasks follow small ones, so the size of the last claim is no guide."""
    monkeypatch.setattr(capacity, "OFFER_CHARS", 100_000)
    await put_plain(store, LARGE_CLAIM_MAX)
    clock.set(clock.now() + 1.0)
    large = await put_plain(store, 2 * LARGE_CLAIM_MAX, payload={"text": "x" * 1_000})
    worker = await Worker(sync).start()
    await worker.claim(CLAIM_MAX, "c-1")
    taken = await worker.claim(CLAIM_MAX, "c-2")
    assert len(taken) == LARGE_CLAIM_MAX
    assert {task.fence for task in taken} == {1}
    assert await kinds_of(store, taken[0].id) == ["task.enqueued", "task.started"]
    assert runs(await worker.claim(CLAIM_MAX, "c-2")) == runs(taken)
    rest = await worker.claim(CLAIM_MAX, "c-3")
    assert {task.id for task in [*taken, *rest]} == set(large)


async def test_a_claim_of_few_large_tasks_is_not_undone(
    store: Store, sync: WorkerSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "OFFER_CHARS", 1)
    await put_plain(store, LARGE_CLAIM_MAX)
    worker = await Worker(sync).start()
    assert len(await worker.claim(CLAIM_MAX, "c-1")) == LARGE_CLAIM_MAX
