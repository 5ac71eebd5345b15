"""Items of a push stand for themselves: one that is refused leaves nothing behind and fails no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.exchange.item import LABELS_MAX, LabelChange
from holdfast.core.exchange.item_wire import read_item
from holdfast.core.totals import METRICS_MAX
from holdfast.errors import InvalidInput
from holdfast.queue.by import By
from holdfast.store.scripts import retention
from holdfast.store.store import Store
from holdfast.sync.exchange import push_conflicts
from holdfast.sync.exchange.conflicts import Conflicts, Take
from holdfast.sync.exchange.push_state import ItemResult
from holdfast.sync.nodes.claims import TaskHeartbeat
from holdfast.sync.projects import Projects
from tests.conformance.sync.support import PROJECT, Plugin
from tests.conformance.sync.test_push import tally
from tests.conformance.tasks.helpers import check_counters, get, read_all


@pytest.fixture
async def a(store: Store) -> Plugin:
    return await Plugin(store, "plugin-a").start()


@pytest.fixture
async def b(store: Store) -> Plugin:
    return await Plugin(store, "plugin-b").start()


async def push_raw(plugin: Plugin, *items: Any, **fields: Any) -> list[ItemResult]:
    """Pushes items as they come over the wire."""
    read = [
        read_item(item if isinstance(item, bytes) else json.dumps(item).encode()) for item in items
    ]
    answer = await plugin.exchange.push(plugin.voice, PROJECT, read, **fields)
    return answer.pushed.results


async def kinds(store: Store, start: str) -> list[str]:
    return [event.kind for event in await read_all(store) if event.kind.startswith(start)]


BAD: list[Any] = [
    {"expectedVersion": 0},
    {"id": 7, "expectedVersion": 0},
    {"id": "a/b", "expectedVersion": 0},
    {"id": "!x", "expectedVersion": 0},
    {"id": "bad", "expectedVersion": -1},
    {"id": "bad", "expectedVersion": "1"},
    {"id": "bad", "expectedVersion": 0, "labels": {"add": ["a\nb"]}},
    {"id": "bad", "expectedVersion": 0, "metadata": {"k": "x" * 20_000}},
    {"id": "bad", "expectedVersion": 0, "metadata": []},
    {"id": "bad", "expectedVersion": 0, "payload": "x" * 300_000},
    {"id": "bad", "expectedVersion": 0, "priority": "urgent!"},
    {"id": "bad", "expectedVersion": 0, "type": "@t"},
    {"id": "bad", "expectedVersion": 1, "status": "failed", "error": {"message": "\x1b[31mred"}},
    {"id": "bad", "expectedVersion": 1, "error": {"message": "x" * 2_001}},
    {"id": "bad", "expectedVersion": 1, "metrics": {f"m{n}": n for n in range(METRICS_MAX + 1)}},
    b'{"id": "bad", "expectedVersion": 0, "payload": 1e999}',
    b'{"id": "bad", "expectedVersion": 0, "payload": "\xff"}',
    b'{"id": "bad", "expectedVersion": 0, "payload": ' + b"[" * 40 + b"]" * 40 + b"}",
    5,
    None,
]


async def test_an_item_that_is_not_valid_fails_no_other(store: Store, a: Plugin) -> None:
    good = [{"id": f"ok-{n}", "expectedVersion": 0, "payload": n} for n in range(len(BAD))]
    mixed = [item for pair in zip(BAD, good, strict=True) for item in pair]
    results = await push_raw(a, *mixed)
    assert [result.success for result in results] == [False, True] * len(BAD)
    for result in results[::2]:
        assert (result.error, result.resolution) == ("INVALID_INPUT", "REJECT")
        assert result.detail
    assert results[0].task_id == ""
    assert results[8].task_id == "bad"
    await check_counters(store)
    figures = await tally(store)
    assert (figures["refused"], figures["accepted"]) == (len(BAD), len(BAD))


async def test_an_item_that_is_not_valid_is_answered_with_the_state(a: Plugin) -> None:
    await a.create()
    [result] = await push_raw(
        a, {"id": "task-1", "expectedVersion": 1, "labels": {"add": ["x\0"]}, "mutationId": "m-1"}
    )
    assert result.error == "INVALID_INPUT"
    assert result.state is not None
    assert result.state.version == 1


async def test_an_item_that_is_not_valid_undoes_an_atomic_push(store: Store, a: Plugin) -> None:
    items = [{"id": "ok", "expectedVersion": 0}, {"id": "a/b", "expectedVersion": 0}]
    first, second = await push_raw(a, *items, is_atomic=True)
    assert (first.error, second.error) == ("ATOMIC", "INVALID_INPUT")
    assert await kinds(store, "task.") == []


async def test_a_refused_merge_leaves_no_conflict(store: Store, a: Plugin, b: Plugin) -> None:
    await a.create(metadata={"x": "y" * 9_000})
    await b.one(id="task-1", expected_version=1, metadata={"b": 1})
    before = await tally(store)
    result = await a.one(id="task-1", expected_version=1, metadata={"z": "y" * 9_000})
    assert (result.success, result.error, result.conflict_id) == (False, "INVALID_INPUT", None)
    assert await Conflicts(store).list(PROJECT) == []
    assert await kinds(store, "conflict.") == []
    after = await tally(store)
    assert {n: after[n] - before.get(n, 0) for n in after if after[n] != before.get(n, 0)} == {
        "pushes": 1,
        "refused": 1,
    }


async def test_content_beside_a_report_is_a_conflict_like_any_other(
    store: Store, a: Plugin
) -> None:
    await Projects(store).put(PROJECT, By("user:ann"), strategy="manual")
    await a.create()
    await a.claim()
    stale = {"id": "task-1", "expected_version": 1, "metadata": {"mine": "precious"}}
    reported = await a.one(**stale, progress=0.5)
    assert (reported.success, reported.content_error) == (True, "VERSION_CONFLICT")
    [conflict] = await Conflicts(store).list(PROJECT, state="open")
    assert reported.conflict_id == conflict.id
    assert json.loads(conflict.client_json) == {"metadata": {"mine": "precious"}}
    assert await kinds(store, "conflict.") == ["conflict.recorded"]
    ended = await a.one(**{**stale, "metadata": {"mine": 2}}, status="completed", result=1)
    assert ended.success
    assert ended.conflict_id is not None
    assert (await tally(store))["conflicts_open"] == 2
    assert (await get(store, await a.id_of("task-1"))).metadata == {}


async def test_equal_stale_content_is_one_open_conflict(store: Store, a: Plugin, b: Plugin) -> None:
    await Projects(store).put(PROJECT, By("user:ann"), strategy="manual")
    await a.create()
    await a.one(id="task-1", expected_version=1, payload=2)
    stale = {"id": "task-1", "expected_version": 1, "metadata": {"k": 1}}
    results = [*(await a.push(stale, stale)), *(await a.push(stale))]
    [conflict] = await Conflicts(store).list(PROJECT)
    assert {result.conflict_id for result in results} == {conflict.id}
    other = await b.one(**stale)
    assert other.conflict_id != conflict.id, "another node has its own"
    await Conflicts(store).settle(conflict.id, Take.SERVER, By("user:ann"))
    assert (await a.one(**stale)).conflict_id != conflict.id, "a settled one does not change"
    figures = await tally(store)
    assert (figures["conflicts_total"], figures["conflicts_open"]) == (3, 2)
    assert await kinds(store, "conflict.recorded") == ["conflict.recorded"] * 3


@pytest.mark.parametrize("bound", ["OPEN_OF_TASK_MAX", "OPEN_MAX"])
async def test_open_conflicts_are_bounded(
    store: Store, a: Plugin, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(push_conflicts, bound, 3)
    await Projects(store).put(PROJECT, By("user:ann"), strategy="manual")
    await a.create()
    await a.one(id="task-1", expected_version=1, payload=2)
    stale = [{"id": "task-1", "expected_version": 1, "metadata": {"k": n}} for n in range(5)]
    results = await a.push(*stale[:1]) + await a.push(*stale)
    errors = [result.error for result in results]
    assert errors == ["VERSION_CONFLICT"] * 4 + ["CONFLICTS_FULL"] * 2
    assert results[-1].conflict_id is None
    assert "3 open conflicts" in (results[-1].detail or "")
    conflicts = await Conflicts(store).list(PROJECT, state="open")
    assert (len(conflicts), (await tally(store))["conflicts_open"]) == (3, 3)
    await Conflicts(store).settle(conflicts[0].id, Take.SERVER, By("user:ann"))
    assert (await a.one(**stale[4])).conflict_id is not None


async def test_labels_of_a_task_are_bounded(store: Store, a: Plugin) -> None:
    names = tuple(f"l{n:03}" for n in range(LABELS_MAX))
    await a.create(labels=LabelChange(names))
    full = await a.one(id="task-1", expected_version=1, labels=LabelChange(("more",)))
    assert (full.success, full.error) == (False, "INVALID_INPUT")
    swap = await a.one(id="task-1", expected_version=1, labels=LabelChange(("new",), ("l000",)))
    assert swap.success
    for version in range(2, 22):
        again = await a.one(id="task-1", expected_version=version, labels=LabelChange(("new",)))
        assert again.success
    [row] = (await a.exchange.pull(await a.row(), PROJECT, names=["task-1"])).tasks
    assert len(row.labels) == LABELS_MAX
    gone = await a.one(id="task-1", expected_version=22, labels=LabelChange((), ("new",)))
    assert gone.state is not None
    assert "new" not in gone.state.labels


async def test_totals_have_an_event_whichever_way_they_come(store: Store, a: Plugin) -> None:
    await a.create()
    locked = await a.claim()
    assert (await a.one(id="task-1", expected_version=1, metrics={"cost": 5.0})).success
    task_id = await a.id_of("task-1")
    await a.claims.beat(a.voice, task_id, TaskHeartbeat(metrics={"cost": 9.0}))
    events = [event for event in await read_all(store) if event.kind == "task.metrics"]
    expected = {"node": "plugin-a", "fence": locked.task.fence}
    assert [event.data["totals"] for event in events] == [{"cost": 5.0}, {"cost": 9.0}]
    assert all(expected.items() <= event.data.items() for event in events)
    assert [event.project for event in events] == [PROJECT] * 2
    too_many = {f"m{n}": 1.0 for n in range(METRICS_MAX + 1)}
    with pytest.raises(InvalidInput):
        TaskHeartbeat(metrics=too_many)
    refused = await a.one(id="task-1", expected_version=1, progress=0.1)
    assert refused.success
    history = await store.feed.history(task_id)
    assert [event.kind for event in history].count("task.metrics") == 2


async def test_settled_conflicts_are_forgotten(
    store: Store, a: Plugin, b: Plugin, clock: VirtualClock
) -> None:
    await a.create()
    for n in range(3):
        await b.one(id="task-1", expected_version=n + 1, metadata={"b": n})
    merged = await a.one(id="task-1", expected_version=1, metadata={"a": 1})
    clash = await a.one(id="task-1", expected_version=9, metadata={"a": 2})
    assert (merged.resolution, clash.error) == ("MERGED", "VERSION_AHEAD")
    far = clock.now() - 1e9
    await store.prune(before=far, dead_before=far, feed_before=far)
    assert len(await Conflicts(store).list(PROJECT)) == 2, "kept for a while"
    clock.set(clock.now() + 10)
    now = clock.now()
    await store.prune(before=far, dead_before=far, feed_before=far, conflicts_before=now)
    [left] = await Conflicts(store).list(PROJECT)
    assert left.id == clash.conflict_id, "an open one waits for a person"
    await Conflicts(store).settle(left.id, Take.SERVER, By("user:ann"))
    again = await a.one(id="task-1", expected_version=9, metadata={"a": 2})
    gone = await store.run(lambda _dialect, _ids, now: retention.forget(now, 100, conflict_rows=1))
    assert gone == 1, "the number of rows is bounded too"
    assert [row.id for row in await Conflicts(store).list(PROJECT)] == [again.conflict_id]
