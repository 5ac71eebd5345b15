"""Pushes: creation, the runner's reports, content on old versions, repeats, and what is written beside."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction, Pause
from holdfast.core.exchange.item import LabelChange
from holdfast.core.task import Status
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.store.store import Store
from holdfast.sync.rows import own
from tests.conformance.sync.support import PROJECT, Plugin
from tests.conformance.tasks.helpers import check_counters, get, read_all
from tests.statements import query


@pytest.fixture
async def a(store: Store) -> Plugin:
    return await Plugin(store, "plugin-a").start()


@pytest.fixture
async def b(store: Store) -> Plugin:
    return await Plugin(store, "plugin-b").start()


async def tally(store: Store) -> dict[str, int]:
    rows = await query(store, own("read_tally"), project=PROJECT)
    return {row[0]: row[1] for row in rows}


async def test_a_creation_makes_a_task_with_its_name(store: Store, a: Plugin) -> None:
    result = await a.create(payload={"n": 1}, metadata={"k": 1}, labels=LabelChange(("nightly",)))
    assert (result.success, result.new_version, result.resolution) == (True, 1, "PLUGIN_WINS")
    task = await get(store, await a.id_of("task-1"))
    assert (task.project, task.type, task.queue, task.status) == (
        PROJECT,
        "external",
        "external",
        Status.QUEUED,
    )
    assert (task.payload, task.metadata) == ({"n": 1}, {"k": 1})
    assert result.state is not None
    assert result.state.labels == ["nightly"]
    assert (result.state.writer, result.state.clock) == ("plugin-a", 1)
    event = (await read_all(store))[-1]
    assert (event.kind, event.project, event.version) == ("task.enqueued", PROJECT, 1)
    await check_counters(store)


async def test_a_repeated_creation_is_a_duplicate(store: Store, a: Plugin, b: Plugin) -> None:
    await a.create(payload=1)
    again = await a.one(id="task-1", expected_version=0, payload=1)
    assert (again.success, again.duplicate, again.new_version) == (True, True, 1)
    other = await b.one(id="task-1", expected_version=0, payload=2)
    assert (other.success, other.error) == (False, "VERSION_CONFLICT")
    assert other.state is not None
    assert other.state.payload == 1


async def test_a_task_that_is_created_paused_is_held_by_its_node(
    store: Store, a: Plugin, b: Plugin
) -> None:
    result = await a.create(status="paused")
    task = await get(store, await a.id_of("task-1"))
    assert (task.status, task.gate) == (Status.QUEUED, "!held")
    assert (await b.one(id="task-1", expected_version=2, status="queued")).error == "NOT_RUNNER"
    lifted = await a.one(id="task-1", expected_version=result.new_version, status="running")
    assert lifted.success, lifted
    task = await get(store, task.id)
    assert (task.status, task.node, task.fence) == (Status.RUNNING, "plugin-a", lifted.fence)


async def test_a_runner_reports_and_completes(store: Store, a: Plugin, b: Plugin) -> None:
    await a.create()
    locked = await a.claim()
    version = locked.task.version
    report = await a.one(id="task-1", expected_version=1, progress=0.5, phase="edit", iteration=2)
    assert (report.success, report.new_version) == (True, version), "a report makes no version"
    back = await a.one(id="task-1", expected_version=1, progress=0.1, iteration=1)
    assert back.state is not None
    assert (back.state.progress.done, back.state.progress.iteration) == (0.5, 2)
    stranger = await b.one(id="task-1", expected_version=version, status="completed", result=1)
    assert (stranger.error, stranger.resolution) == ("NOT_RUNNER", "REJECT")
    done = await a.one(id="task-1", expected_version=1, status="completed", result={"ok": True})
    assert (done.success, done.new_version, done.fence) == (True, version + 1, locked.task.fence)
    task = await get(store, await a.id_of("task-1"))
    assert (task.status, task.result) == (Status.COMPLETED, {"ok": True})
    again = await a.one(id="task-1", expected_version=1, status="completed", result={"ok": True})
    assert (again.success, again.duplicate) == (True, True)
    await check_counters(store)


@pytest.mark.parametrize(
    ("status", "fields", "after"),
    [
        ("failed", {"error": {"message": "boom"}}, Status.QUEUED),
        ("failed", {"error": {"message": "boom", "retryable": False}}, Status.FAILED),
        ("queued", {}, Status.QUEUED),
        ("aborted", {}, Status.ABORTED),
        ("stuck", {}, Status.STUCK),
        ("paused", {}, Status.PAUSED),
    ],
    ids=str,
)
async def test_a_runner_changes_the_status(
    store: Store, a: Plugin, status: str, fields: dict[str, Any], after: Status
) -> None:
    from holdfast.core.exchange.item import ItemError

    await a.create()
    await a.claim()
    if "error" in fields:
        fields = {"error": ItemError(**fields["error"])}
    result = await a.one(id="task-1", expected_version=1, status=status, **fields)
    assert result.success, result
    task = await get(store, await a.id_of("task-1"))
    assert task.status is after
    await check_counters(store)


@pytest.mark.parametrize("repeated", [{}, {"progress": 0.4}], ids=["bare", "same progress"])
async def test_a_stuck_runner_that_says_so_goes_on(
    store: Store, a: Plugin, repeated: dict[str, Any]
) -> None:
    """Also if it has not progressed since."""
    await a.create()
    await a.claim()
    await a.one(id="task-1", expected_version=1, progress=0.4)
    stuck = await a.one(id="task-1", expected_version=1, status="stuck")
    again = await a.one(id="task-1", expected_version=1, progress=0.4)
    assert (again.success, again.new_version) == (True, stuck.new_version)
    assert (await get(store, await a.id_of("task-1"))).status is Status.STUCK
    runs = await a.one(id="task-1", expected_version=1, status="running", **repeated)
    task = await get(store, await a.id_of("task-1"))
    assert (runs.success, runs.new_version, task.status) == (True, task.version, Status.RUNNING)


async def test_a_runner_that_repeats_that_it_is_stuck_stays_stuck(store: Store, a: Plugin) -> None:
    await a.create()
    await a.claim()
    task_id = await a.id_of("task-1")
    await a.one(id="task-1", expected_version=1, progress=0.4)
    for _ in range(2):
        said = await a.one(id="task-1", expected_version=1, status="stuck", progress=0.6)
        assert (said.success, (await get(store, task_id)).status) == (True, Status.STUCK)
    await a.one(id="task-1", expected_version=1, progress=0.6)
    assert (await get(store, task_id)).status is Status.RUNNING


async def test_a_late_result_is_kept_as_evidence(
    store: Store, a: Plugin, b: Plugin, clock: VirtualClock
) -> None:
    await a.create()
    locked = await a.claim(lease_seconds=5.0)
    clock.set(clock.now() + 6)
    await b.claim()
    late = await a.one(
        id="task-1", expected_version=2, status="completed", result=7, fence=locked.task.fence
    )
    assert (late.success, late.error, late.resolution, late.late) == (
        False,
        "LOCK_LOST",
        "LATE",
        True,
    )
    assert late.state is not None
    assert late.state.status is Status.RUNNING
    event = (await read_all(store))[-1]
    assert (event.kind, event.data["result"], event.data["fence"]) == ("task.late", 7, 1)


async def test_a_lease_that_has_ended_expires_before_the_item_is_judged(
    store: Store, a: Plugin, clock: VirtualClock
) -> None:
    await a.create()
    await a.claim(lease_seconds=5.0)
    clock.set(clock.now() + 6)
    late = await a.one(id="task-1", expected_version=2, progress=0.5)
    assert (late.error, late.resolution) == ("LOCK_LOST", "SERVER_WINS")
    assert (await get(store, await a.id_of("task-1"))).status is Status.QUEUED


@pytest.mark.parametrize("strategy", ["merge", "last_write_wins", "manual"])
async def test_content_on_an_old_version_follows_the_strategy(
    store: Store, a: Plugin, b: Plugin, strategy: str
) -> None:
    await a.create(payload={"n": 0}, metadata={"x": 0, "y": 0})
    await store.run(set_strategy(strategy))
    first = await a.one(id="task-1", expected_version=1, metadata={"x": 1})
    assert (first.success, first.new_version) == (True, 2)
    second = await b.one(id="task-1", expected_version=1, metadata={"y": 2})
    seen = (await b.exchange.pull(await b.row(), PROJECT, names=["task-1"])).tasks[0]
    if strategy == "manual":
        assert (second.error, second.resolution) == ("VERSION_CONFLICT", "MANUAL")
        assert second.conflict_id is not None
        assert seen.metadata == {"x": 1, "y": 0}
        assert (await tally(store))["conflicts_open"] == 1
    else:
        word = "MERGED" if strategy == "merge" else "PLUGIN_WINS"
        assert (second.success, second.resolution) == (True, word)
        assert seen.metadata == {"x": 1, "y": 2}
        assert "conflicts_open" not in await tally(store)
    assert (await tally(store))["conflicts_total"] == 1


def set_strategy(strategy: str) -> Any:
    from holdfast.store.script import call

    def make(dialect: Any, ids: Any, now: float) -> Any:
        return (yield call(own("set_strategy"), id=PROJECT, strategy=strategy, settings_json="{}"))

    return make


async def test_two_payloads_on_one_base_are_left_to_a_person(
    store: Store, a: Plugin, b: Plugin
) -> None:
    await a.create(payload="base")
    assert (await a.one(id="task-1", expected_version=1, payload="ours")).success
    theirs = await b.one(id="task-1", expected_version=1, payload="theirs")
    assert (theirs.error, theirs.resolution) == ("VERSION_CONFLICT", "MANUAL")
    assert theirs.state is not None
    assert theirs.state.payload == "ours"
    kinds = [event.kind for event in await read_all(store)]
    assert kinds[-1] == "conflict.recorded"


async def test_labels_join_and_an_addition_wins(a: Plugin, b: Plugin) -> None:
    await a.create(labels=LabelChange(("x", "y")))
    await a.one(id="task-1", expected_version=1, labels=LabelChange((), ("x",)))
    result = await b.one(id="task-1", expected_version=1, labels=LabelChange(("x",), ("y",)))
    assert result.state is not None
    assert result.state.labels == ["x"]


async def test_versions_of_the_future_are_refused(a: Plugin) -> None:
    await a.create()
    ahead = await a.one(id="task-1", expected_version=9, metadata={"x": 1})
    assert (ahead.error, ahead.resolution) == ("VERSION_AHEAD", "SERVER_WINS")
    assert ahead.conflict_id is not None
    unknown = await a.one(id="nothing", expected_version=3, metadata={"x": 1})
    assert (unknown.error, unknown.state) == ("TASK_NOT_FOUND", None)
    assert (await a.one(id="new", expected_version=0, status="running")).error == (
        "INVALID_TRANSITION"
    )
    assert (await a.one(id="task-1", expected_version=1, status="fine")).error == "INVALID_STATUS"


async def test_a_mutation_is_answered_once(store: Store, a: Plugin) -> None:
    item = {"id": "task-1", "expected_version": 0, "payload": 1, "mutation_id": "m1"}
    first = await a.one(**item)
    again = await a.one(**item)
    assert (again.success, again.duplicate, again.new_version) == (True, True, first.new_version)
    reused = await a.one(**(item | {"payload": 2}))
    assert (reused.error, reused.resolution) == ("MUTATION_REUSED", "REJECT")
    refused = {"id": "task-1", "expected_version": 9, "metadata": {"x": 1}, "mutation_id": "m2"}
    one, two = await a.one(**refused), await a.one(**refused)
    assert (two.error, two.duplicate, two.conflict_id) == (one.error, True, one.conflict_id)
    assert two.state is not None
    assert len([e for e in await read_all(store) if e.kind == "conflict.recorded"]) == 1
    twice = await a.push(
        {"id": "task-2", "expected_version": 0, "mutation_id": "m3"},
        {"id": "task-2", "expected_version": 0, "mutation_id": "m3"},
    )
    assert [result.duplicate for result in twice] == [False, True]


async def test_items_of_one_task_apply_in_order(a: Plugin) -> None:
    results = await a.push(
        {"id": "t", "expected_version": 0, "payload": 1},
        {"id": "t", "expected_version": 1, "metadata": {"x": 1}},
        {"id": "t", "expected_version": 2, "payload": 2},
    )
    assert [result.new_version for result in results] == [1, 2, 3]
    assert results[0].state == results[2].state, "each has the state after the push"


async def test_an_atomic_push_writes_all_or_nothing(store: Store, a: Plugin) -> None:
    items = [
        {"id": "t1", "expected_version": 0},
        {"id": "t2", "expected_version": 5, "metadata": {"x": 1}},
    ]
    results = await a.push(*items, is_atomic=True)
    assert [result.error for result in results] == ["ATOMIC", "TASK_NOT_FOUND"]
    assert (await a.exchange.pull(await a.row(), PROJECT, names=["t1"])).missing == ["t1"]
    assert "pushes" not in await tally(store)
    results = await a.push(*items)
    assert [result.success for result in results] == [True, False]


async def test_no_node_lifts_the_hold_of_an_operator(store: Store, a: Plugin) -> None:
    await a.create()
    task_id = await a.id_of("task-1")
    await store.apply([Instruction(task_id, Pause("user:ann", "wait"))])
    held = await a.one(id="task-1", expected_version=2, status="queued")
    assert (held.error, held.resolution) == ("HELD", "SERVER_WINS")


async def test_an_ended_task_never_changes(store: Store, a: Plugin) -> None:
    await a.create()
    task_id = await a.id_of("task-1")
    await store.apply([Instruction(task_id, Abort("user:ann"))])
    result = await a.one(id="task-1", expected_version=2, metadata={"x": 1})
    assert (result.error, result.resolution) == ("TERMINAL", "SERVER_WINS")


async def test_only_the_server_makes_versions_and_the_clock_rises(store: Store, a: Plugin) -> None:
    first = await a.exchange.push(a.voice, PROJECT, [], local_clock=5)
    assert first.pushed.clock == 0, "nothing was written"
    await a.create()
    from holdfast.core.exchange.item import Item

    answer = await a.exchange.push(
        a.voice, PROJECT, [Item(id="x", expected_version=0)], local_clock=41
    )
    assert answer.pushed.clock == 42
    far = await a.exchange.push(
        a.voice, PROJECT, [Item(id="y", expected_version=0)], local_clock=10**9
    )
    assert (far.pushed.clock, far.pushed.is_clamped) == (42 + 10**6 + 1, True)


async def test_an_item_with_status_and_content_applies_both(store: Store, a: Plugin) -> None:
    await a.create(payload=1)
    await a.claim()
    result = await a.one(
        id="task-1", expected_version=2, status="completed", result=1, metadata={"x": 1}
    )
    assert result.success
    task = await get(store, await a.id_of("task-1"))
    assert (task.status, task.metadata) == (Status.COMPLETED, {"x": 1})


async def test_a_payload_is_not_changed_under_a_runner(a: Plugin) -> None:
    await a.create(payload=1)
    await a.claim()
    refused = await a.one(id="task-1", expected_version=2, payload=2)
    assert refused.error == "INVALID_TRANSITION"
    both = await a.one(id="task-1", expected_version=2, status="completed", payload=2)
    assert (both.success, both.content_error) == (True, "INVALID_TRANSITION")


@pytest.mark.parametrize(
    "fields",
    [
        {"progress": 1.5},
        {"expected_version": -1},
        {"fence": -1},
        {"iteration": 2**60},
        {"payload": "x" * 300_000},
        {"mutation_id": ""},
        {"priority": "soon"},
        {"labels": LabelChange(("a" * 101,))},
        {"type": "!x"},
    ],
    ids=str,
)
async def test_a_bad_item_refuses_the_push(a: Plugin, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await a.push({"id": "t", "expected_version": 0, **fields})


async def test_a_push_is_bounded(a: Plugin) -> None:
    with pytest.raises(BatchTooLarge):
        await a.push(*[{"id": f"t{n}", "expected_version": 0} for n in range(501)])


async def test_figures_and_log_tell_what_happened(store: Store, a: Plugin) -> None:
    await a.create(mutation_id="m1")
    await a.one(id="task-1", expected_version=0, mutation_id="m1")
    await a.one(id="task-1", expected_version=0, status="running")
    figures = await tally(store)
    assert (figures["pushes"], figures["accepted"], figures["duplicates"], figures["refused"]) == (
        3,
        1,
        1,
        1,
    )
    rows = await query(
        store,
        own("read_log"),
        project=PROJECT,
        after_id=0,
        task_id=None,
        node=None,
        outcome=None,
        limit=10,
    )
    assert [(row[3], row[4], row[6], row[7]) for row in rows] == [
        ("register", None, "accepted", None),
        ("push", "task-1", "accepted", None),
        ("push", "task-1", "duplicate", None),
        ("push", "task-1", "refused", "VERSION_CONFLICT"),
    ]
