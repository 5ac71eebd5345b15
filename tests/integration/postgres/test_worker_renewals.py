"""A renewal names as kept only what it has renewed, also while another transaction holds a row."""

from __future__ import annotations

import asyncpg

from holdfast.clock import VirtualClock
from holdfast.core.worker.wire import HeldRunState, Renew
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.backends import PostgresBench
from tests.conformance.tasks.helpers import put
from tests.conformance.worker.worker_support import Worker, one


async def test_a_run_whose_row_is_held_is_neither_kept_nor_lost(
    bench: PostgresBench, store: Store, clock: VirtualClock
) -> None:
    sync = WorkerSync(store, clock, gather_seconds=0.0)
    await put(store, "held")
    await put(store, "free")
    worker = await Worker(sync).start()
    runs = {task.id: task for task in await worker.claim(2, lease=10.0)}
    renew = Renew(
        held=tuple(HeldRunState(task_id=name, fence=1) for name in ("free", "held")),
        lease_ms=10_000,
    )
    clock.set(clock.now() + 3.0)
    connection = await asyncpg.connect(bench.dsn)
    try:
        async with connection.transaction():
            await connection.fetch("SELECT 1 FROM holdfast_task WHERE id = 'held' FOR UPDATE")
            answer = await sync.renew(worker.voice, renew)
    finally:
        await connection.close()
    assert [run.task_id for run in answer.kept] == ["free"]
    assert answer.lost == ()
    assert (await one(store, "held")).lease_until == runs["held"].lease_until
    answer = await sync.renew(worker.voice, renew)
    assert [run.task_id for run in answer.kept] == ["free", "held"]
