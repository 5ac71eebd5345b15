"""Handshakes, pulls, deletions, locks, conflicts and status."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction, Pause
from holdfast.core.exchange.handshake import ClientEntry
from holdfast.core.node_identity import NodeState
from holdfast.core.task import Status
from holdfast.errors import (
    BatchTooLarge,
    IllegalTransition,
    InvalidInput,
    NotFound,
    VersionConflict,
)
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.errors import AlreadyLocked, NotClaimable
from holdfast.sync.exchange.conflicts import Conflicts, Take
from holdfast.sync.nodes.claims import TaskHeartbeat
from holdfast.sync.projects import Projects
from holdfast.sync.status import Monitor
from tests.conformance.sync.support import PROJECT, Plugin
from tests.conformance.tasks.helpers import check_counters, get, put, read_all

OPS = By("user:ann", "test")


@pytest.fixture
async def a(store: Store) -> Plugin:
    return await Plugin(store, "plugin-a").start()


@pytest.fixture
async def b(store: Store) -> Plugin:
    return await Plugin(store, "plugin-b").start()


async def shake(plugin: Plugin, versions: dict[str, int], **fields: Any) -> Any:
    return await plugin.exchange.handshake(await plugin.row(), PROJECT, versions, **fields)


async def pull(plugin: Plugin, **fields: Any) -> Any:
    return await plugin.exchange.pull(await plugin.row(), PROJECT, **fields)


async def test_a_handshake_compares_versions(store: Store, a: Plugin) -> None:
    for name in ("same", "behind", "ahead", "dirty"):
        await a.create(name)
    await a.one(id="behind", expected_version=1, metadata={"x": 1})
    answer = await shake(
        a,
        {"same": 1, "behind": 1, "ahead": 7, "dirty": 1, "new": 0, "lost": 4},
        bases={"dirty": ClientEntry(0, is_dirty=True)},
    )
    lists = answer.handshake
    assert lists.in_sync == ("same",)
    assert set(lists.needs_pull) == {"behind", "ahead"}
    assert set(lists.needs_push) == {"ahead", "dirty", "new"}
    assert [(c.task_id, c.kind.value) for c in lists.conflicts] == [("ahead", "AHEAD")]
    assert [task.task_id for task in lists.deleted] == ["lost"]
    assert lists.new_tasks == ()
    assert answer.clock == 5


async def test_a_handshake_sees_other_content_at_one_version(a: Plugin) -> None:
    result = await a.create("t", payload=1)
    assert result.state is not None
    right = {"t": ClientEntry(1, hash=result.state.content_hash)}
    wrong = {"t": ClientEntry(1, hash="h1:0")}
    assert (await shake(a, {"t": 1}, bases=right)).handshake.in_sync == ("t",)
    assert (await shake(a, {"t": 1}, bases=wrong)).handshake.conflicts[0].kind.value == "DIVERGED"


async def test_new_tasks_are_seen_with_and_without_a_cursor(
    store: Store, a: Plugin, b: Plugin
) -> None:
    await a.create("one")
    first = await shake(b, {})
    assert first.handshake.new_tasks == ("one",)
    await a.create("two")
    await put(store, "by-server", project=PROJECT)
    await put(store, "elsewhere", project="other")
    later = await shake(b, {"one": 1}, cursor=str(first.cursor))
    assert set(later.handshake.new_tasks) == {"two", "by-server"}
    assert later.next_cursor is None
    assert (await shake(b, {"one": 1}, cursor=str(later.cursor))).handshake.new_tasks == ()


async def test_large_projects_have_pages(store: Store, a: Plugin) -> None:
    names = {f"t{n}" for n in range(7)}
    await a.push(*[{"id": name, "expected_version": 0} for name in sorted(names)])
    seen: set[str] = set()
    cursor, pages = None, 0
    while True:
        page = await pull(a, cursor=cursor, limit=3)
        seen |= {task.id for task in page.tasks}
        pages += 1
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert (seen, pages) == (names, 3)
    assert page.cursor == await store.feed.head()
    with pytest.raises(InvalidInput):
        await pull(a, cursor="nonsense")


async def test_pages_of_the_feed_lose_nothing(store: Store, a: Plugin) -> None:
    start = await store.feed.head()
    await a.push(*[{"id": f"t{n}", "expected_version": 0} for n in range(7)])
    seen: set[str] = set()
    cursor: str | None = str(start)
    while cursor is not None:
        page = await pull(a, cursor=cursor, limit=3)
        assert len(page.tasks) <= 3
        seen |= {task.id for task in page.tasks}
        cursor = page.next_cursor
    assert len(seen) == 7


async def test_a_cursor_of_another_history_is_reset(store: Store, a: Plugin) -> None:
    await a.create()
    head = await store.feed.head()
    for cursor, reason in ((f"other:{head.offset}", "epoch"), (f"{head.epoch}:999", "ahead")):
        answer = await shake(a, {}, cursor=cursor)
        assert answer.reset.reason == reason
        assert answer.reset.cursor == head


async def test_a_pull_names_what_it_misses(a: Plugin) -> None:
    await a.create("there", payload={"n": 1}, metadata={"k": 2})
    answer = await pull(a, names=["there", "nowhere"])
    assert [task.payload for task in answer.tasks] == [{"n": 1}]
    assert answer.missing == ["nowhere"]
    with pytest.raises(BatchTooLarge):
        await pull(a, names=["x"] * 501)


async def test_a_deleted_task_leaves_a_tombstone(
    store: Store, a: Plugin, clock: VirtualClock
) -> None:
    await a.create("gone")
    cursor = str(await store.feed.head())
    task_id = await a.id_of("gone")
    await store.apply([Instruction(task_id, Abort("user:ann"))])
    clock.set(clock.now() + 100)
    cut = clock.now() - 50
    assert await store.prune(before=cut, dead_before=cut, feed_before=0) == 1
    await check_counters(store)
    event = (await read_all(store))[-1]
    assert (event.kind, event.data["client_id"], event.version) == ("task.deleted", "gone", 2)
    assert [d.task_id for d in (await shake(a, {"gone": 1})).handshake.deleted] == ["gone"]
    assert list((await pull(a, cursor=cursor)).deleted) == ["gone"]
    refused = await a.one(id="gone", expected_version=2, metadata={"x": 1})
    assert (refused.error, refused.new_version) == ("TASK_DELETED", 2)
    assert refused.deleted_at is not None
    assert (await a.create("gone")).new_version == 1, "a name may be used again"
    assert (await pull(a, names=["gone"])).deleted == {}


async def test_old_answers_tombstones_and_log_rows_are_forgotten(
    store: Store, a: Plugin, clock: VirtualClock
) -> None:
    await a.create("gone", mutation_id="m1")
    await store.apply([Instruction(await a.id_of("gone"), Abort("user:ann"))])
    clock.set(clock.now() + 100)
    await store.prune(before=clock.now() - 50, dead_before=0, feed_before=0)
    clock.set(clock.now() + 31 * 86_400)
    await store.prune(before=0, dead_before=0, feed_before=0)
    assert await Monitor(store).log(PROJECT) == []
    assert (await pull(a, names=["gone"])).missing == ["gone"]
    assert not (await a.one(id="gone", expected_version=0, mutation_id="m1")).duplicate


async def test_a_claim_is_exclusive_and_repeatable(
    store: Store, a: Plugin, b: Plugin, clock: VirtualClock
) -> None:
    await a.create()
    first = await a.claim(lease_seconds=60.0)
    clock.set(clock.now() + 10)
    again = await a.claim(lease_seconds=60.0)
    assert again.task.fence == first.task.fence
    assert again.task.lock.expires_at == clock.now() + 60
    with pytest.raises(AlreadyLocked) as caught:
        await b.claim()
    assert caught.value.details["locked_by"] == "plugin-a"
    assert caught.value.details["locked_for_seconds"] == 60.0
    clock.set(clock.now() + 61)
    taken = await b.claim()
    assert (taken.task.lock.node, taken.task.fence) == ("plugin-b", first.task.fence + 2)
    assert taken.clock > first.clock


async def test_leases_are_clamped(a: Plugin) -> None:
    await a.create()
    assert (await a.claim(lease_seconds=1.0)).task.lock.duration_seconds == 5.0
    await a.create("other")
    assert (await a.claim("other", lease_seconds=1e9)).task.lock.duration_seconds == 3600.0


async def test_a_node_that_is_cordoned_gets_no_tasks(store: Store, a: Plugin) -> None:
    await a.create()
    await a.nodes.set_state("plugin-a", NodeState.CORDONED, OPS)
    with pytest.raises(NotClaimable) as caught:
        await a.claim()
    assert caught.value.reason == "node_state"


async def test_what_cannot_be_claimed_says_why(store: Store, a: Plugin) -> None:
    await a.create()
    await store.apply([Instruction(await a.id_of("task-1"), Pause("user:ann"))])
    with pytest.raises(NotClaimable) as caught:
        await a.claim()
    assert caught.value.reason == "held"
    with pytest.raises(NotFound):
        await a.claims.claim(a.voice, "nothing")


async def test_a_heartbeat_extends_and_reports(
    store: Store, a: Plugin, clock: VirtualClock
) -> None:
    await a.create()
    locked = await a.claim(lease_seconds=60.0)
    clock.set(clock.now() + 30)
    task_id = await a.id_of("task-1")
    beat = await a.claims.beat(
        a.voice, task_id, TaskHeartbeat(progress=0.5, phase="edit", iteration=3)
    )
    assert beat.lost is None
    assert beat.task.lock is not None
    assert beat.task.lock.expires_at == clock.now() + 60
    task = await get(store, task_id)
    assert task.version == locked.task.version
    assert task.progress == {"done": 0.5, "phase": "edit", "iteration": 3, "fence": task.fence}
    assert task.lease_until == clock.now() + 60
    assert beat.clock == locked.clock, "a heartbeat leaves the clock"


@pytest.mark.parametrize(
    ("act", "reason"),
    [("expire", "expired"), ("pause", "paused"), ("abort", "aborted"), ("reclaim", "reclaimed")],
)
async def test_a_lost_lock_says_why(
    store: Store, a: Plugin, b: Plugin, clock: VirtualClock, act: str, reason: str
) -> None:
    await a.create()
    await a.claim(lease_seconds=10.0)
    task_id = await a.id_of("task-1")
    if act in ("expire", "reclaim"):
        clock.set(clock.now() + 11)
    if act == "reclaim":
        await b.claim()
    if act == "pause":
        await store.apply([Instruction(task_id, Pause("user:ann"))])
    if act == "abort":
        await store.apply([Instruction(task_id, Abort("user:ann"))])
    beat = await a.claims.beat(a.voice, task_id, TaskHeartbeat(fence=1))
    assert beat.lost == reason


async def test_a_release_is_idempotent_and_costs_nothing(store: Store, a: Plugin) -> None:
    await a.create()
    await a.claim()
    task_id = await a.id_of("task-1")
    first = await a.claims.release(a.voice, task_id)
    again = await a.claims.release(a.voice, task_id)
    assert (first.is_released, again.is_released) == (True, False)
    task = await get(store, task_id)
    assert (task.status, task.attempts, task.fence) == (Status.QUEUED, 0, 2)
    await check_counters(store)


async def test_a_node_that_promised_fences_sends_them(store: Store) -> None:
    node = await Plugin(store, "careful").start(capabilities=["fence"])
    await node.create()
    locked = await node.claim()
    task_id = await node.id_of("task-1")
    with pytest.raises(InvalidInput, match="fence"):
        await node.claims.beat(node.voice, task_id, TaskHeartbeat())
    assert (await node.one(id="task-1", expected_version=2, progress=0.5)).error == "NOT_RUNNER"
    fence = locked.task.fence
    assert (await node.one(id="task-1", expected_version=2, progress=0.5, fence=fence)).success


async def conflict_of(store: Store, a: Plugin, b: Plugin) -> str:
    await a.create(payload="base", metadata={"k": 0})
    await a.one(id="task-1", expected_version=1, payload="ours")
    result = await b.one(id="task-1", expected_version=1, payload="theirs", metadata={"k": 1})
    assert result.conflict_id is not None
    return result.conflict_id


@pytest.mark.parametrize("take", list(Take))
async def test_a_conflict_is_settled_once(store: Store, a: Plugin, b: Plugin, take: Take) -> None:
    conflict_id = await conflict_of(store, a, b)
    conflicts = Conflicts(store)
    merged = {"payload": "both", "labels": ["x"]} if take is Take.MERGED else None
    settled = await conflicts.settle(conflict_id, take, OPS, merged=merged)
    assert settled.task is not None
    payloads = {Take.SERVER: "ours", Take.CLIENT: "theirs", Take.MERGED: "both"}
    assert settled.task.payload == payloads[take]
    assert settled.task.version == (2 if take is Take.SERVER else 3)
    assert (await pull(b, names=["task-1"])).tasks[0] == settled.task
    assert (settled.conflict.state, settled.conflict.settled_by) == ("settled", "user:ann")
    with pytest.raises(IllegalTransition):
        await conflicts.settle(conflict_id, Take.SERVER, OPS)
    assert [c.id for c in await conflicts.list(PROJECT, state="open")] == []
    assert [c.id for c in await conflicts.list(PROJECT)] == [conflict_id]
    assert (await read_all(store))[-1].kind == "conflict.settled"
    assert (await Monitor(store).status(PROJECT)).figures["conflicts_open"] == 0


async def test_a_bad_settlement_is_refused(store: Store, a: Plugin, b: Plugin) -> None:
    conflict_id = await conflict_of(store, a, b)
    conflicts = Conflicts(store)
    with pytest.raises(InvalidInput):
        await conflicts.settle(conflict_id, Take.MERGED, OPS)
    with pytest.raises(InvalidInput):
        await conflicts.settle(conflict_id, Take.MERGED, OPS, merged={"status": "completed"})
    with pytest.raises(VersionConflict):
        await conflicts.settle(conflict_id, Take.SERVER, By("user:ann", expected_version=9))
    with pytest.raises(NotFound):
        await conflicts.settle("con_x", Take.SERVER, OPS)


async def test_the_status_is_made_of_counters(
    store: Store, a: Plugin, b: Plugin, clock: VirtualClock
) -> None:
    await a.create("one")
    await a.create("two")
    await a.create("held", status="paused")
    await a.claim("one", lease_seconds=30.0)
    status = await Monitor(store).status(PROJECT)
    assert (status.tasks["queued"], status.tasks["running"], status.held) == (2, 1, 1)
    assert (status.locks_held, status.locks_expired, status.soonest_expiry_seconds) == (1, 0, 30.0)
    assert status.nodes == {"live": 2, "late": 0, "gone": 0, "quarantined": 0}
    assert status.figures["pushes"] == 3
    assert status.project.clock == 4
    assert status.head == await store.feed.head()


async def test_expired_locks_are_fixed_once(store: Store, a: Plugin, clock: VirtualClock) -> None:
    await a.create()
    await a.claim(lease_seconds=10.0)
    clock.set(clock.now() + 15)
    monitor = Monitor(store)
    dry = await monitor.fix_expired(PROJECT, dry_run=True)
    assert [(lock.task_id, lock.expired_seconds_ago) for lock in dry.locks] == [("task-1", 5.0)]
    fixed = await monitor.fix_expired(PROJECT)
    assert [(lock.locked_by, lock.new_status) for lock in fixed.locks] == [
        ("plugin-a", Status.QUEUED)
    ]
    assert (await monitor.fix_expired()).locks == []


async def test_the_log_is_filtered_and_paged(store: Store, a: Plugin, b: Plugin) -> None:
    await a.create("one")
    await b.create("two")
    await b.claim("one")
    monitor = Monitor(store)
    entries = await monitor.log(PROJECT)
    assert [(e.op, e.task_id, e.node) for e in entries] == [
        ("register", None, "plugin-a"),
        ("register", None, "plugin-b"),
        ("push", "one", "plugin-a"),
        ("push", "two", "plugin-b"),
        ("claim", "one", "plugin-b"),
    ]
    assert len(await monitor.log(PROJECT, after=entries[2].id)) == 2
    assert len(await monitor.log(PROJECT, node="plugin-b", task_id="two")) == 1
    with pytest.raises(InvalidInput):
        await monitor.log(PROJECT, outcome="odd")


async def test_projects_have_strategies(store: Store, a: Plugin) -> None:
    projects = Projects(store)
    await projects.put(PROJECT, OPS, strategy="manual", overrides={"set": "merge"})
    row = await projects.get(PROJECT)
    assert (row.strategies.default.value, row.version) == ("manual", 2)
    assert [view.id for view in await projects.list()] == ["default", PROJECT]
    with pytest.raises(InvalidInput):
        await projects.put(PROJECT, OPS, overrides={"register": "merge"})
    with pytest.raises(InvalidInput):
        await projects.put("Not A Name", OPS)
