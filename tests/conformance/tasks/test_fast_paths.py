"""The shortcuts of a store, compared with the rules of the core (`core.decide`).

A shortcut writes the row and the events of the rule. A case that it does not cover takes the general path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.core import decide
from holdfast.core.command import Complete, Instruction
from holdfast.core.decide import Refusal, Transition
from holdfast.core.event import NEW_EVENTS, NewEvent
from holdfast.core.limit import LimitRule
from holdfast.core.submit import Submission, like
from holdfast.core.task import Priority, Status, Task, TaskOptions
from holdfast.store.scripts import admin
from holdfast.store.store import Inserted, Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    after as when_ended,
    asked,
    check_counters,
    claim,
    claim_request,
    complete,
    failing,
    fresh,
    get,
    kinds,
    put,
    put_plain,
    read_all,
    runner_says,
    shown,
)

STRANGE: dict[str, Any] = {
    "type": 'a "quoted" \\ type',
    "queue": "ünï",
    "priority": "low",
    "payload": {"text": 'quote " slash \\ line\n zero \x00'},
    "metadata": {"trace": "abc"},
    "max_attempts": 7,
    "options": TaskOptions(timeout_seconds=3.0),
    "project": "forge.v2",
}
FIELDS = pytest.mark.parametrize(
    "fields", [{}, STRANGE, {"delay_seconds": 5.0}], ids=["few", "strange", "delayed"]
)


class Spy:
    """Records the shortcuts that were used."""

    def __init__(self, store: Store) -> None:
        self._fast: Any = store._dialect.fast
        self.taken: list[str] = []
        store._dialect.fast = self  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        self.taken.append(name)
        return getattr(self._fast, name)


def born(submission: Submission, now: float) -> Task:
    """The task as an insert stores it. A delay counts from the insert."""
    task = submission.task
    due_at = now + (task.due_at - task.created_at)
    return replace(task, created_at=now, updated_at=now, due_at=due_at)


async def recorded(store: Store, task_id: str) -> list[NewEvent]:
    return [
        NewEvent(
            event.kind,
            event.at,
            event.task_id,
            event.type,
            event.data,
            event.project,
            event.version,
        )
        for event in await store.feed.history(task_id)
    ]


async def check_row(store: Store, after: Task, events: Sequence[NewEvent]) -> None:
    """Checks that the store has this task, and that these are its latest events."""
    assert await get(store, after.id) == after
    decided = NEW_EVENTS.decode(msgspec.json.encode(events))
    assert (await recorded(store, after.id))[-len(events) :] == decided
    await check_counters(store)


# -- inserts -----------------------------------------------------------------------------------------


@FIELDS
@pytest.mark.parametrize("count", [1, 3])
async def test_an_insert_writes_what_the_core_decides(
    store: Store, count: int, fields: dict[str, Any]
) -> None:
    spy = Spy(store)
    group = [fresh(store, f"t{n}", **fields) for n in range(count)]
    inserted = await store.insert(group)
    assert [(answer.status, answer.created) for answer in inserted] == [
        (Status.QUEUED, True)
    ] * count
    assert set(spy.taken) <= {"insert_one", "insert_plain"}
    assert spy.taken
    for submission in group:
        after = born(submission, store.now())
        await check_row(store, after, [decide.enqueued(after, store.now())])


@pytest.mark.parametrize("fields", [{}, STRANGE], ids=["few", "strange"])
async def test_a_task_like_a_model_is_written_as_the_core_decides(
    store: Store, fields: dict[str, Any]
) -> None:
    model = fresh(store, "model", **fields)
    insert = store.prepare_insert(model)
    for name in ("t1", "t2"):
        now = store.now()
        text = '{"text":"quote \\" zero \\u0000"}'
        answer = await insert(name, text, now, "")
        assert answer == Inserted(name, Status.QUEUED, True, now)
        after = like(model, text, name, now).task
        await check_row(store, after, [decide.enqueued(after, now)])
    assert await store.reads.named(["model"], [model.task.project]) == {}


async def test_a_task_like_a_model_whose_id_exists_goes_the_general_way(store: Store) -> None:
    await store.insert([fresh(store, "t1")])
    insert = store.prepare_insert(fresh(store, "model"))
    answer = await insert("t1", "2", store.now(), "")
    assert not answer.created
    assert (await get(store, "t1")).payload == {"n": 1}


async def test_the_general_path_writes_the_same_rows(store: Store) -> None:
    group = [fresh(store, "1", **STRANGE), fresh(store, "2", **STRANGE)]
    await store.insert([fresh(store, "alone", **STRANGE)])
    await store.insert(group)
    spy = Spy(store)
    await store.insert([asked(store, "general", **STRANGE)])
    assert spy.taken == [], "an id of the caller's may be repeated"
    rows = [shown(await get(store, name)) | {"id": ""} for name in ("alone", "1", "2", "general")]
    assert rows[0] == rows[1] == rows[2] == rows[3]
    events = [(e.kind, e.type, e.at, e.data) for e in await read_all(store)]
    assert events[0] == events[1] == events[2] == events[3]


async def test_a_repeated_insert_writes_nothing_twice(store: Store) -> None:
    first, second = fresh(store, "a"), fresh(store, "b")
    answers = [(await store.insert([first]))[0] for _ in range(2)]
    assert [answer.created for answer in answers] == [True, False]
    inserted = await store.insert([first, second])
    assert [answer.created for answer in inserted] == [False, True]
    assert await kinds(store, "a") == ["task.enqueued"]
    assert len(await read_all(store)) == 2
    await check_counters(store)


# -- claims ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", [None, 8, 1])
async def test_a_claim_writes_what_the_core_decides(
    store: Store, clock: VirtualClock, expected: int | None
) -> None:
    await store.insert([fresh(store, "t", **STRANGE), fresh(store, "later", delay_seconds=60.0)])
    before = await get(store, "t")
    clock.set(clock.now() + 1)
    spy = Spy(store)
    asked_for = claim_request(
        1 if expected == 1 else 10,
        node='a "node"',
        queues=("default", "ünï"),
        types=("work", STRANGE["type"]),
        lease_seconds=7.0,
        expected=expected,
    )
    [after] = (await store.claim(asked_for)).tasks
    assert spy.taken == ["claim_next" if expected == 1 else "claim"]
    move = decide.claim(before, node='a "node"', lease_seconds=7.0, now=clock.now())
    assert after == move.after
    await check_row(store, move.after, move.events)


@pytest.mark.parametrize("other", [{}, STRANGE], ids=["alike", "two kinds"])
async def test_a_claim_of_many_writes_what_the_core_decides_of_each(
    store: Store, clock: VirtualClock, other: dict[str, Any]
) -> None:
    names = ["plain", 'a "quoted" id', '","', "task.started", "ünï"]
    await store.insert([asked(store, name) for name in names])
    await store.insert([fresh(store, "other", **other)])
    before = {name: await get(store, name) for name in (*names, "other")}
    clock.set(clock.now() + 1)
    types = ("work", STRANGE["type"])
    asked_for = claim_request(10, node="n", queues=("default", "ünï"), types=types)
    taken = (await store.claim(asked_for)).tasks
    assert {task.id for task in taken} == before.keys()
    lease_seconds = asked_for.lease_seconds
    for task in before.values():
        move = decide.claim(task, node="n", lease_seconds=lease_seconds, now=clock.now())
        await check_row(store, move.after, move.events)


async def test_a_claim_answers_with_the_rows_of_tasks_of_every_kind(
    store: Store, clock: VirtualClock
) -> None:
    """Most of a claim's answer is left out for tasks without a past and without options."""
    await put(store, "failed")
    await put(store, "died")
    for task in await claim(store, 2):
        if task.id == "failed":
            await runner_says(store, task, failing())
    clock.set(clock.now() + 600)
    await store.sweep()
    first = ["failed", "died", *await put_plain(store, 2)]
    await put(store, "keyed", idempotency_key="k")
    await put(store, "watched", progress_timeout_seconds=5.0)
    await put(store, "kept", keep_done_seconds=60.0, project="forge")
    await put(store, "noted", tags=("a", "b"), metadata={"n": [1, 'q"']})
    await put(store, "child", depends_on=when_ended("noted"))
    await put(store, "urgent", priority="high", queue="other")
    spy = Spy(store)
    tasks = (await store.claim(claim_request(20, queues=("default", "other")))).tasks
    assert spy.taken == ["claim"]
    assert tasks[0].id == "urgent"
    assert {task.id for task in tasks} == {*first, "keyed", "watched", "kept", "noted", "urgent"}
    by_id = {task.id: task for task in tasks}
    assert by_id["failed"].failure is not None
    assert by_id["died"].deaths == 1
    assert by_id["noted"].has_dependents
    for task in tasks:
        assert task == await get(store, task.id)
        assert type(task.priority) is Priority
        assert type(task.status) is Status
    await check_counters(store)


async def first_ids(store: Store, **fields: Any) -> list[str]:
    """Claims the first task in line, with the shortcut for a single one."""
    return [task.id for task in (await store.claim(claim_request(1, expected=1, **fields))).tasks]


async def test_claim_next_takes_the_most_urgent_then_the_oldest(
    store: Store, clock: VirtualClock
) -> None:
    for name, priority, queue in (
        ("low", "low", "default"),
        ("late", "high", "default"),
        ("other queue", "high", "mail"),
        ("later", "high", "default"),
        ("urgent", "critical", "mail"),
    ):
        await put(store, name, priority=priority, queue=queue)
        clock.set(clock.now() + 0.001)
    taken: list[str] = []
    while got := await first_ids(store, queues=("default", "mail")):
        taken += got
    assert taken == ["urgent", "late", "later", "other queue", "low"]


async def test_claim_next_leaves_tasks_that_cannot_start(store: Store, clock: VirtualClock) -> None:
    await put(store, "not due", delay_seconds=5.0)
    await put(store, "of another type", type="strange")
    await put(store, "of a paused queue", queue="mail")
    await pause(store, "mail")
    assert await first_ids(store, queues=("default", "mail")) == []
    assert await first_ids(store, queues=("default",), types=("work", "strange")) == [
        "of another type"
    ]
    clock.set(clock.now() + 5.0)
    assert await first_ids(store, queues=("default", "mail")) == ["not due"]


async def pause(store: Store, queue: str) -> None:
    await store.run(
        lambda dialect, ids, now: admin.pause_queue(
            dialect, ids, now, name=queue, actor="me", reason=""
        )
    )


async def test_claim_next_leaves_limited_tasks_to_a_general_claim(store: Store) -> None:
    await put(store, "limited", rules=(("key", LimitRule(max_running=1)),))
    await put(store, "behind")
    assert await first_ids(store) == []
    assert (await get(store, "limited")).status is Status.QUEUED
    assert {task.id for task in await claim(store, 5)} == {"limited", "behind"}


async def test_a_locked_task_is_not_waited_for(shared_bench: Bench) -> None:
    store, other = await shared_bench.open(), await shared_bench.open()
    await put(store, "a")
    assert await first_ids(store) == ["a"]
    assert await first_ids(other) == []


# -- inserted and claimed in one commit --------------------------------------------------------------


async def take_in(store: Store, *names: str, limit: int = 10, **fields: Any) -> list[str]:
    """Returns the ids of the started tasks."""
    group = [fresh(store, name, **fields) for name in names]
    _, claimed = await store.insert_and_claim(group, claim_request(limit))
    for task in claimed.tasks:
        assert task == await get(store, task.id), "what the runner gets is what the store has"
    await check_counters(store)
    return [task.id for task in claimed.tasks]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_direct_start_writes_what_the_core_decides(
    store: Store, clock: VirtualClock, count: int
) -> None:
    group = [fresh(store, f"t{n}", payload=[n]) for n in range(count)]
    clock.set(clock.now() + 1)  # Inserted some time after its creation.
    inserted, claimed = await store.insert_and_claim(group, claim_request(lease_seconds=7.0))
    assert [answer.created for answer in inserted] == [True] * count
    assert len(claimed.tasks) == count
    for submission, after in zip(group, claimed.tasks, strict=True):
        task = born(submission, clock.now())
        move = decide.claim(task, node="node-a", lease_seconds=7.0, now=clock.now())
        assert after == move.after
        await check_row(store, after, [decide.enqueued(task, clock.now()), *move.events])
    events = await read_all(store)
    assert [event.position.offset for event in events] == list(range(1, 2 * count + 1))
    assert isinstance(await complete(store, claimed.tasks[0]), Transition)


async def test_waiting_tasks_start_before_a_new_one(store: Store, clock: VirtualClock) -> None:
    [waiting] = await put_plain(store, 1)
    clock.set(clock.now() + 1)
    assert await take_in(store, "new", limit=1) == [waiting]
    assert await take_in(store, "newer") == ["new", "newer"]


async def test_a_task_that_is_due_later_does_not_hold_up_a_new_one(store: Store) -> None:
    await put_plain(store, 1, delay_seconds=60.0)
    assert await take_in(store, "a") == ["a"]


@pytest.mark.parametrize(
    "fields", [{"delay_seconds": 5.0}, {"queue": "elsewhere"}, {"type": "unknown-here"}]
)
async def test_a_task_that_may_not_start_here_waits(store: Store, fields: dict[str, Any]) -> None:
    assert await take_in(store, "a", **fields) == []
    assert (await get(store, "a")).status is Status.QUEUED


async def test_a_paused_queue_starts_nothing(store: Store) -> None:
    await pause(store, "default")
    assert await take_in(store, "a") == []
    assert (await get(store, "a")).status is Status.QUEUED


async def test_an_insert_that_is_repeated_starts_nothing_twice(store: Store) -> None:
    task = fresh(store, "a")
    await store.insert_and_claim([task], claim_request())
    inserted, claimed = await store.insert_and_claim([task], claim_request())
    assert ([answer.created for answer in inserted], claimed.tasks) == ([False], [])
    assert (await get(store, "a")).fence == 1


async def test_several_tasks_start_in_their_order(store: Store) -> None:
    assert await take_in(store, "a", "b", "c", limit=2) == ["a", "b"]


# -- completions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "results",
    [["null"] * 3, ['{"text":"a \\"quoted\\" \\\\ line"}'] * 3, ["null", "1", '"two"']],
    ids=["null", "text", "different"],
)
async def test_a_completion_writes_what_the_core_decides(
    store: Store, clock: VirtualClock, count: int, results: list[str]
) -> None:
    await put_plain(store, count)
    running = await claim(store)
    clock.set(clock.now() + 1)
    ended = [
        (task, Instruction(task.id, Complete(result), fence=task.fence))
        for task, result in zip(running, results, strict=False)
    ]
    spy = Spy(store)
    rulings = await store.finish(ended)
    assert spy.taken == ["complete_plain"]
    for (before, instruction), ruling in zip(ended, rulings, strict=True):
        move = decide.decide(before, instruction, clock.now())
        assert isinstance(move, Transition)
        assert ruling == move
        await check_row(store, move.after, move.events)


@pytest.mark.parametrize(
    "results",
    [["1"] * 3, ["1", "2", "3"], [r'"a \u0000 b"'] * 3],
    ids=["alike", "different", "alike-with-nul"],
)
async def test_a_stale_outcome_does_not_block_others(
    store: Store, clock: VirtualClock, results: list[str]
) -> None:
    await put_plain(store, 3)
    running = await claim(store)
    await store.finish(
        [(running[1], Instruction(running[1].id, Complete("0"), fence=running[1].fence))]
    )
    untouched = await get(store, running[1].id)
    clock.set(clock.now() + 1)
    ended = [
        (task, Instruction(task.id, Complete(result), fence=task.fence))
        for task, result in zip(running, results, strict=True)
    ]
    rulings = await store.finish(ended)
    assert isinstance(rulings[1], Refusal)
    assert await get(store, untouched.id) == untouched
    for n in (0, 2):
        move = decide.decide(*ended[n], clock.now())
        assert isinstance(move, Transition)
        assert rulings[n] == move
        await check_row(store, move.after, move.events)
