"""Writes of a runner: fenced, answered alike when repeated, recorded when late. Leases and deaths."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import retry
from holdfast.core.command import (
    Abort,
    Cancel,
    Command,
    Complete,
    Edit,
    Instruction,
    Pause,
    Release,
    Replay,
    Report,
    Resume,
    Snooze,
)
from holdfast.core.decide import Transition, applied
from holdfast.core.task import FailureKind, RunId, Status, Task, TaskOptions
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import (
    all_tasks,
    check_counters,
    claim,
    claim_one,
    code,
    complete,
    failing,
    get,
    kinds,
    order,
    put,
    put_plain,
    read_all,
    runner_says,
    shown,
)

RUNNER_COMMANDS: dict[str, Command] = {
    "complete": Complete('"late"'),
    "fail": failing("late"),
    "fail for good": failing("late", final=True),
    "snooze": Snooze(5.0),
    "cancel": Cancel("late"),
    "release": Release("late"),
    "report": Report(progress_json="0.5", checkpoint_json="1"),
}


async def taken_over(store: Store, clock: VirtualClock) -> tuple[Task, Task]:
    """A claim whose lease has expired, and the claim after it."""
    await put(store, "a", options=TaskOptions(max_deaths=10))
    old = await claim_one(store, node="old")
    clock.set(clock.now() + 10.0)
    await store.sweep()
    new = await claim_one(store, node="new")
    assert new.fence > old.fence
    return old, new


@pytest.mark.parametrize("name", RUNNER_COMMANDS)
async def test_an_old_fence_changes_nothing(store: Store, clock: VirtualClock, name: str) -> None:
    old, new = await taken_over(store, clock)
    command = RUNNER_COMMANDS[name]
    for ruling in (
        (await store.finish([(old, Instruction("a", command, fence=old.fence))]))[0],
        await runner_says(store, old, command),
    ):
        assert code(ruling) == "lease-lost"
    assert await get(store, "a") == new
    late = [event for event in await store.feed.history("a") if event.kind == "task.late"]
    is_result = name in ("complete", "fail", "fail for good")
    late_events = [event for event in await read_all(store) if event.kind == "task.late"]
    assert len(late_events) == (2 if is_result else 0)
    assert len(late) <= len(late_events)
    if is_result:
        assert late_events[0].data["fence"] == old.fence
        assert late_events[0].data["current_fence"] == new.fence
        assert "late" in (late_events[0].data.get("result"), late_events[0].data.get("error"))
    await check_counters(store)


async def test_the_new_runner_is_not_disturbed(store: Store, clock: VirtualClock) -> None:
    old, new = await taken_over(store, clock)
    assert code(await complete(store, old, '"old"')) == "lease-lost"
    assert code(await complete(store, new, '"new"')) == "moved"
    assert code(await complete(store, old, '"old"')) == "lease-lost"
    assert (await get(store, "a")).result == "new"


@pytest.mark.parametrize("name", ["complete", "fail", "fail for good", "snooze", "cancel"])
async def test_a_repeated_command_is_answered_as_applied(store: Store, name: str) -> None:
    await put(store, "a")
    task = await claim_one(store)
    command = RUNNER_COMMANDS[name]
    assert code(await runner_says(store, task, command)) == "moved"
    then = await get(store, "a")
    head = await store.feed.head()
    for ruling in (
        await runner_says(store, task, command),
        (await store.finish([(task, Instruction("a", command, fence=task.fence))]))[0],
    ):
        assert code(ruling) == "already-applied"
    assert await get(store, "a") == then
    assert await store.feed.head() == head


async def test_a_fast_completion_equals_the_general_one(store: Store) -> None:
    await put_plain(store, 2)
    first, second = await claim(store, 2)
    await store.finish(
        [(first, Instruction(first.id, Complete('{"x":1}', 0.5), fence=first.fence))]
    )
    await store.apply([Instruction(second.id, Complete('{"x":1}', 0.5), fence=second.fence)])
    rows = [shown(await get(store, task.id)) | {"id": ""} for task in (first, second)]
    assert rows[0] == rows[1]
    assert rows[0]["status"] is Status.COMPLETED
    ends = [event for event in await read_all(store) if event.kind == "task.completed"]
    assert ends[0].data == ends[1].data
    assert ends[0].data == {
        "node": "node-a",
        "attempt": 1,
        "duration": 0.5,
        "result": {"x": 1},
    }
    assert await kinds(store, first.id) == await kinds(store, second.id)
    await check_counters(store)


async def test_finish_accepts_and_refuses_outcomes_of_one_batch(
    store: Store, clock: VirtualClock
) -> None:
    ids = await put_plain(store, 6)
    tasks = await claim(store, 6)
    await order(store, ids[1], Abort("ann"))
    ended = [
        (tasks[0], Instruction(ids[0], Complete("0"), fence=tasks[0].fence)),
        (tasks[1], Instruction(ids[1], Complete("1"), fence=tasks[1].fence)),
        (tasks[2], Instruction(ids[2], failing(), fence=tasks[2].fence)),
        (tasks[3], Instruction(ids[3], Complete("3"), fence=tasks[3].fence - 1)),
        (tasks[4], Instruction(ids[4], Snooze(1.0), fence=tasks[4].fence)),
        (tasks[5], Instruction(ids[5], Complete("5"), fence=tasks[5].fence)),
    ]
    rulings = await store.finish(ended)
    assert [code(ruling) for ruling in rulings] == [
        *("moved", "lease-lost", "moved", "lease-lost", "moved", "moved")
    ]
    statuses = [(await get(store, task_id)).status.value for task_id in ids]
    assert statuses == ["completed", "aborted", "queued", "running", "queued", "completed"]
    await check_counters(store)


async def test_an_outcome_after_a_report_still_counts(store: Store) -> None:
    """A report raises the version. A runner that did not get the answer still holds the task."""
    await put(store, "a")
    task = await claim_one(store)
    await runner_says(store, task, Report(progress_json='{"done":0.5}'))
    await runner_says(store, task, Report(checkpoint_json='{"page":3}'))
    assert code(await complete(store, task)) == "moved"
    done = await get(store, "a")
    assert (done.progress, done.checkpoint) == ({"done": 0.5}, {"page": 3})
    assert await kinds(store, "a") == [
        *("task.enqueued", "task.started", "task.progress", "task.checkpoint", "task.completed")
    ]


async def test_a_failure_is_retried_when_its_delay_is_over(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "a", max_attempts=3)
    for attempt in (1, 2):
        task = await claim_one(store)
        assert task.attempts == attempt
        await runner_says(store, task, failing())
        waiting = await get(store, "a")
        delay = retry.delay_seconds(
            attempt, base=1.0, cap=60.0, jitter=retry.unit_jitter("a", attempt)
        )
        assert (waiting.status, waiting.due_at) == (Status.QUEUED, clock.now() + delay)
        assert waiting.error == "boom"
        assert await claim(store) == []
        clock.set(waiting.due_at)
    await runner_says(store, await claim_one(store), failing("last"))
    dead = await get(store, "a")
    assert (dead.status, dead.attempts, dead.error) == (Status.FAILED, 3, "last")
    assert dead.is_dead
    assert dead.finished_at == clock.now()
    assert await kinds(store, "a") == [
        "task.enqueued",
        *("task.started", "task.failed") * 3,
        "task.dead",
    ]
    await check_counters(store)


async def test_snooze_and_release_cost_no_attempt(store: Store, clock: VirtualClock) -> None:
    await put(store, "a", max_attempts=1)
    for n in range(5):
        task = await claim_one(store)
        assert task.attempts == 1
        await runner_says(store, task, Snooze(3.0, "not yet") if n % 2 else Release("stopping"))
        assert (await get(store, "a")).attempts == 0
        clock.set(clock.now() + 3.0)
    assert code(await complete(store, await claim_one(store))) == "moved"


async def test_a_lease_is_renewed_or_reported_lost(store: Store, clock: VirtualClock) -> None:
    ids = await put_plain(store, 3)
    tasks = await claim(store, 3, lease_seconds=9.0)
    leases = [task.run for task in tasks]
    await complete(store, tasks[1])
    await store.heartbeat("node-a", "{}", [], 9.0)  # A new node writes an event.
    head = await store.feed.head()
    clock.set(clock.now() + 5.0)
    believed = [leases[0], leases[1], RunId(ids[2], tasks[2].fence - 1), RunId("unknown", 1)]
    beat = await store.heartbeat("node-a", "{}", believed, 9.0)
    assert beat.lost == set(believed[1:])
    assert {row[0] for row in beat.owned} == {ids[0], ids[2]}
    renewed = await get(store, ids[0])
    assert renewed.lease_until == clock.now() + 9.0
    assert renewed.version == tasks[0].version
    assert await store.feed.head() == head, "a renewal is no event"
    assert (await store.heartbeat("node-a", "{}", [], 9.0)).lost == set()
    clock.set(clock.now() + 5.0)
    expired = (await store.sweep()).expired
    assert [ruling.after.id for ruling in expired if isinstance(ruling, Transition)] == [ids[2]]


async def test_two_runs_of_one_task_are_renewed_apart(store: Store, clock: VirtualClock) -> None:
    """A process has claimed a task again and does not know yet that its first run is lost."""
    old, new = await taken_over(store, clock)
    beat = await store.heartbeat("new", "{}", [old.run, new.run], 9.0)
    assert beat.lost == {old.run}
    assert [RunId(*row[:2]) for row in beat.owned] == [new.run]


@pytest.mark.parametrize("old_first", [True, False])
@pytest.mark.parametrize("name", ["complete", "fail"])
async def test_of_two_runs_of_one_task_in_a_batch_the_older_is_refused(
    store: Store, clock: VirtualClock, old_first: bool, name: str
) -> None:
    old, new = await taken_over(store, clock)
    late = (old, Instruction("a", RUNNER_COMMANDS[name], fence=old.fence))
    good = (new, Instruction("a", Complete('"good"'), fence=new.fence))
    batch = [late, good] if old_first else [good, late]
    answers = [code(ruling) for ruling in await store.finish(batch)]
    assert answers == (["lease-lost", "moved"] if old_first else ["moved", "lease-lost"])
    task = await get(store, "a")
    assert (task.status, task.result) == (Status.COMPLETED, "good")
    assert [event.kind for event in await read_all(store)].count("task.late") == 1


async def test_a_report_whose_answer_was_lost_is_answered_not_repeated(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    first = Report(progress_json="0.5")
    assert code(await runner_says(store, task, first)) == "moved"
    again = await runner_says(store, task, first)
    assert code(again) == "already-applied"
    assert applied(again) == await get(store, "a")
    checkpoint = Report(checkpoint_json="1")
    assert code(await runner_says(store, task, checkpoint)) == "moved", "another report"
    assert code(await runner_says(store, task, Report(progress_json="0.6"))) == "moved"
    assert (await kinds(store, "a")).count("task.progress") == 2
    assert (await kinds(store, "a")).count("task.checkpoint") == 1
    assert (await get(store, "a")).version == task.version, "a report is no new version"


async def test_a_death_costs_no_attempt_but_counts(store: Store, clock: VirtualClock) -> None:
    await put(store, "a", max_attempts=1, options=TaskOptions(max_deaths=3))
    assert (await store.sweep()).expired == []
    for death in (1, 2):
        task = await claim_one(store, node=f"node-{death}")
        assert (await store.sweep()).expired == [], "the lease still runs"
        clock.set(clock.now() + 9.0)
        await store.sweep()
        back = await get(store, "a")
        assert (back.status, back.attempts, back.deaths) == (Status.QUEUED, 0, death)
        assert back.fence == task.fence + 1
        clock.set(max(clock.now(), back.due_at))
    await claim_one(store, node="node-3")
    clock.set(clock.now() + 9.0)
    await store.sweep()
    dead = await get(store, "a")
    assert (dead.status, dead.deaths) == (Status.FAILED, 3)
    assert dead.failure is not None
    assert (dead.failure.kind, dead.failure.node) == (FailureKind.LOST, "node-3")
    assert "3 times" in dead.failure.message
    assert (await kinds(store, "a")).count("task.lost") == 2
    assert (await kinds(store, "a"))[-1] == "task.dead"
    await check_counters(store)


async def test_a_sweep_ends_no_more_leases_than_its_limit(
    store: Store, clock: VirtualClock
) -> None:
    await put_plain(store, 5)
    await claim(store, 5)
    clock.set(clock.now() + 10.0)
    assert [len((await store.sweep(limit=2)).expired) for _ in range(4)] == [2, 2, 1, 0]


async def test_unknown_tasks_are_refused(store: Store) -> None:
    rulings = await store.apply(
        [Instruction("unknown", Abort("ann")), Instruction("unknown", Complete("1"), 1)]
    )
    assert [code(ruling) for ruling in rulings] == ["not-found", "not-found"]
    assert await read_all(store) == []


async def test_terminal_states_are_final(store: Store) -> None:
    ids = await put_plain(store, 2)
    tasks = await claim(store, 2)
    await complete(store, tasks[0])
    await order(store, ids[1], Abort("ann", "unwanted"))
    before = [await get(store, task_id) for task_id in ids]
    for task in tasks:
        for command in (
            *RUNNER_COMMANDS.values(),
            *(Abort("x"), Pause("x"), Resume("x"), Replay("x"), Edit("x", "1")),
        ):
            await order(store, task.id, command, fence=task.fence)
            await order(store, task.id, command, fence=task.fence + 1)
    assert [await get(store, task_id) for task_id in ids] == before


async def test_an_operator_stops_a_runner(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    assert code(await order(store, "a", Pause("ann", "look at it"))) == "moved"
    paused = await get(store, "a")
    assert (paused.status, paused.held_by, paused.attempts) == (
        Status.PAUSED,
        "ann: look at it",
        0,
    )
    assert code(await complete(store, task)) == "lease-lost"
    assert await claim(store) == []
    assert code(await order(store, "a", Resume("bob"))) == "moved"
    again = await claim_one(store)
    assert again.fence > task.fence
    assert again.held_by is None
    assert code(await order(store, "a", Abort("ann"))) == "moved"
    assert code(await runner_says(store, again, Report(progress_json="1"))) == "lease-lost"
    assert (await get(store, "a")).status is Status.ABORTED
    await check_counters(store)


async def test_a_version_that_was_seen_guards_an_order(store: Store) -> None:
    await put(store, "a")
    before = await get(store, "a")
    assert code(await order(store, "a", Edit("ann", "2"), version=before.version)) == "moved"
    assert (
        code(await order(store, "a", Edit("bob", "3"), version=before.version))
        == "version-conflict"
    )
    assert (await get(store, "a")).payload == 2


async def test_a_replay_resets_the_attempts(store: Store, clock: VirtualClock) -> None:
    await put(store, "a", payload={"n": 0}, max_attempts=2)
    await runner_says(store, await claim_one(store), failing(final=True))
    assert code(await order(store, "a", Replay("ann", 5.0, '{"n":1}'))) == "moved"
    back = await get(store, "a")
    assert (back.status, back.attempts, back.deaths, back.payload) == (
        *(Status.QUEUED, 0, 0),
        {"n": 1},
    )
    assert back.finished_at is None
    assert await claim(store) == []
    clock.set(clock.now() + 5.0)
    assert (await claim_one(store)).attempts == 1
    assert code(await order(store, "a", Replay("ann"))) == "illegal-transition"
    assert len(await all_tasks(store)) == 1
    await check_counters(store)
