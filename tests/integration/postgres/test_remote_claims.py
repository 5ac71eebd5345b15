"""Claims of remote workers while another transaction holds a limit."""

from __future__ import annotations

import asyncpg

from holdfast.clock import SystemClock
from holdfast.core.limit import LimitRule
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.backends import PostgresBench
from tests.conformance.tasks.helpers import put
from tests.conformance.worker.worker_support import Worker

LIMITED, FREE = 30, 8


async def test_a_held_limit_does_not_starve_the_tasks_behind_it(
    store: Store, bench: PostgresBench
) -> None:
    """The tasks of the limit stand first in line and would fill every look."""
    rules = (("cap", LimitRule(max_running=50)),)
    for number in range(LIMITED):
        await put(store, f"limited-{number}", type="limited", rules=rules)
    for number in range(FREE):
        await put(store, f"free-{number}")
    worker = await Worker(WorkerSync(store, SystemClock(), gather_seconds=0.0)).start()
    assert len(await worker.claim(1, "first")) == 1, "the limit has its row now"
    connection = await asyncpg.connect(bench.dsn)
    async with connection.transaction():
        await connection.execute("SELECT * FROM holdfast_limit FOR UPDATE")
        taken = [task.id for turn in range(2) for task in await worker.claim(4, f"c-{turn}")]
    await connection.close()
    assert sorted(taken) == sorted(f"free-{number}" for number in range(FREE))
