"""How long a store keeps what lies beside tasks: the log, tombstones, answers, output and the audit."""

from __future__ import annotations

from typing import Any

from holdfast.core.audit import AuditEntry
from holdfast.core.retention import HubRetention
from holdfast.store.audit import AuditStore
from holdfast.store.scripts import audit
from holdfast.store.store import Store
from holdfast.sync.status import Monitor
from tests.conformance.sync.support import PROJECT, Plugin
from tests.statements import execute

LONG = 1e9
KEEP = HubRetention(LONG, LONG, LONG, LONG, LONG)


async def prune(store: Store, keep: HubRetention, *, before: float = 0.0) -> int:
    return await store.prune(before=before, dead_before=0.0, feed_before=0.0, keep=keep)


async def test_the_log_and_the_answers_to_mutations_have_their_own_ages(store: Store) -> None:
    plugin = await Plugin(store, "n1").start()
    item = {"id": "task-1", "expected_version": 0, "mutation_id": "m1"}
    [first] = await plugin.push(item)
    assert first.success
    assert not first.duplicate
    await prune(store, KEEP)
    assert await Monitor(store).log(PROJECT)
    assert (await plugin.one(**item)).duplicate
    await prune(store, HubRetention(-LONG, LONG, LONG, LONG))
    assert not await Monitor(store).log(PROJECT)
    answers = await execute(store, "holdfast.sync:mutations", node="n1", ids=["m1"])
    assert answers
    await prune(store, HubRetention(LONG, LONG, -LONG, LONG))
    assert not await execute(store, "holdfast.sync:mutations", node="n1", ids=["m1"])


async def test_a_tombstone_is_removed_at_its_age(store: Store) -> None:
    plugin = await Plugin(store, "n1").start()
    await plugin.create("task-1")
    claimed = await plugin.claim("task-1")
    done = await plugin.one(
        id="task-1", expected_version=1, status="completed", fence=claimed.task.fence
    )
    assert done.success
    await prune(store, KEEP, before=store.now() + 1)
    names: dict[str, Any] = {"project": PROJECT, "client_ids": ["task-1"]}
    assert await execute(store, "holdfast.sync:tombstones", **names)
    await prune(store, HubRetention(LONG, -LONG, LONG, LONG))
    assert not await execute(store, "holdfast.sync:tombstones", **names)


async def test_output_of_an_ended_task_goes_before_the_task(store: Store) -> None:
    plugin = await Plugin(store, "n1").start()
    for name in ("ended", "running"):
        await plugin.create(name)
        claimed = await plugin.claim(name)
        row = (claimed.task.task_id, claimed.task.fence, "stdout", 0, 2, "6f6b")
        await execute(store, "insert_output", [row], now=store.now())
        if name == "ended":
            done = await plugin.one(
                id=name, expected_version=1, status="completed", fence=claimed.task.fence
            )
            assert done.success
    ids = [await plugin.id_of(name) for name in ("ended", "running")]
    await prune(store, KEEP)
    assert [await _output(store, task_id) for task_id in ids] == [1, 1]
    await prune(store, HubRetention(LONG, LONG, LONG, -LONG))
    assert [await _output(store, task_id) for task_id in ids] == [0, 1]
    assert len(await store.reads.get(ids)) == 2


async def _output(store: Store, task_id: str) -> int:
    return len(
        await execute(store, "holdfast.sync.worker:latest_output", task_id=task_id, stream="stdout")
    )


async def test_the_audit_loses_its_beginning_only_and_stays_verified(store: Store) -> None:
    def entry(at: float) -> AuditEntry:
        return AuditEntry(at=at, actor="a", operation="o", project="default", subject="s")

    now = store.now()
    for at in (now - 300, now - 100, now - 200, now):
        await store.run(lambda *_, at=at: audit.append([entry(at)]))
    chain = AuditStore(store)
    await prune(store, HubRetention(LONG, LONG, LONG, LONG))
    assert len(await chain.after(0, 10)) == 4
    # The second row is young: the older third one behind it stays.
    await prune(store, HubRetention(LONG, LONG, LONG, LONG, 150.0))
    assert [row.seq for row in await chain.after(0, 10)] == [2, 3, 4]
    assert (await chain.verify()).wrong is None
    await store.run(lambda *_: audit.append([entry(now)]))
    assert (await chain.verify()).wrong is None
    await prune(store, HubRetention(LONG, LONG, LONG, LONG, -LONG))
    _, head, wrong = await chain.verify()
    assert (head.seq, wrong, await chain.after(0, 10)) == (5, None, [])
    await store.run(lambda *_: audit.append([entry(now)]))
    assert (await chain.verify()).head.seq == 6
    await execute(store, "drop_audit", seq=6)
    assert (await chain.verify()).wrong == 6
