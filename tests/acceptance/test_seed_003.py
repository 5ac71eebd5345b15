"""The specification of the task queue: its test scenarios and its exercise, ported one to one.

`job.*` events are `task.*`; where the original waits for some milliseconds, this waits for the event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Event, Status, Task, TaskQueue
from holdfast.errors import IllegalTransition, NotFound, TaskFailed, UnknownDependency
from tests.backends import SQL, url_of

SECONDS = 10.0


class Events:
    """Events received by `on_event`, and a way to wait for more."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._changed = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        self._changed.set()

    def find(self, kind: str, task_id: str | None = None) -> Event | None:
        found = (e for e in self.seen if e.kind == kind and task_id in (None, e.task_id))
        return next(found, None)

    async def wait(self, kind: str, task_id: str | None = None) -> Event:
        async with asyncio.timeout(SECONDS):
            while (found := self.find(kind, task_id)) is None:
                self._changed.clear()
                await self._changed.wait()
            return found


@pytest.fixture(params=SQL)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def queue(url: str) -> AsyncIterator[TaskQueue]:
    queue = TaskQueue(url)
    await queue.start(
        max_workers=3,
        min_workers=1,
        default_max_attempts=2,
        base_retry_delay=0.1,
        max_retry_delay=0.5,
        task_timeout=5,
    )
    yield queue
    await queue.stop()


@pytest.fixture
def events(queue: TaskQueue) -> Events:
    return Events()


@pytest.fixture(autouse=True)
async def subscribed(queue: TaskQueue, events: Events) -> None:
    queue.on_event(events)


def payload(task: Task) -> dict[str, Any]:
    assert isinstance(task.payload, dict)
    return task.payload


async def test_processes_a_task_successfully(queue: TaskQueue, events: Events) -> None:
    async def add_one(task: Task) -> int:
        value: int = payload(task)["value"]
        return value + 1

    queue.register_handler("add-one", add_one)

    task_id = await queue.enqueue("add-one", {"value": 41})

    enqueued = await events.wait("task.enqueued")
    started = await events.wait("task.started")
    completed = await events.wait("task.completed")
    assert (enqueued.task_id, enqueued.type, enqueued.priority) == (task_id, "add-one", "normal")
    assert (started.task_id, started.attempt) == (task_id, 1)
    assert (completed.task_id, completed.type, completed.result) == (task_id, "add-one", 42)
    assert completed.node == started.node
    assert completed.duration >= 0
    assert enqueued.at <= started.at <= completed.at


async def test_retries_failed_tasks_with_backoff(queue: TaskQueue, events: Events) -> None:
    attempts = 0

    async def flaky(task: Task) -> str:
        nonlocal attempts
        attempts += 1
        if attempts < 2:
            raise RuntimeError("a failure that passes")
        return "success"

    queue.register_handler("flaky-job", flaky)

    await queue.enqueue("flaky-job", {})

    completed = await events.wait("task.completed")
    assert attempts == 2
    failed = await events.wait("task.failed")
    assert failed.will_retry is True
    assert failed.error == "a failure that passes"
    assert failed.attempt == 1
    assert 0.05 <= failed.next_retry_at - failed.at <= 0.5
    assert completed.at >= failed.next_retry_at
    assert (completed.result, completed.attempt) == ("success", 2)


async def test_moves_to_the_dead_letters_after_max_attempts(
    queue: TaskQueue, events: Events
) -> None:
    async def fails(task: Task) -> None:
        raise RuntimeError("a failure that stays")

    queue.register_handler("always-fails", fails)

    task_id = await queue.enqueue("always-fails", {})

    dead = await events.wait("task.dead")
    assert dead.task_id == task_id
    assert dead.attempts == 2  # default_max_attempts
    assert dead.error == "a failure that stays"
    retried = [e.will_retry for e in events.seen if e.kind == "task.failed"]
    assert retried == [True, False]
    stats = await queue.get_stats()
    assert stats.dead_letter_count == 1


async def test_respects_the_order_of_priorities(queue: TaskQueue, events: Events) -> None:
    processed: list[str] = []
    all_four = asyncio.Event()

    async def handler(task: Task) -> None:
        processed.append(payload(task)["name"])
        if len(processed) == 4:
            all_four.set()

    queue.register_handler("priority-test", handler)

    # In the opposite order of priorities; together, so that the first is not claimed before the
    # last.
    await queue.enqueue_many(
        {"type": "priority-test", "payload": {"name": name}, "priority": name}
        for name in ("low", "normal", "critical", "high")
    )

    async with asyncio.timeout(SECONDS):
        await all_four.wait()
    assert processed == ["critical", "high", "normal", "low"]


async def test_replays_dead_tasks(queue: TaskQueue, events: Events) -> None:
    should_fail = True

    async def replayable(task: Task) -> str:
        if should_fail:
            raise RuntimeError("the first run fails")
        return "replayed"

    queue.register_handler("replayable", replayable)

    task_id = await queue.enqueue("replayable", {}, max_attempts=1)

    await events.wait("task.dead")
    dead = await queue.get_dead_tasks()
    assert [task.id for task in dead] == [task_id]

    should_fail = False  # the task is repaired

    assert (await queue.replay_dead_task(dead[0].id)).status is Status.QUEUED

    completed = await events.wait("task.completed")
    assert (completed.task_id, completed.result) == (task_id, "replayed")
    final = await queue.get_stats()
    assert final.dead_letter_count == 0
    with pytest.raises(IllegalTransition):
        await queue.replay_dead_task(task_id)  # it is no longer a dead letter


async def test_scales_workers_dynamically(queue: TaskQueue) -> None:
    initial = await queue.get_stats()
    assert initial.workers == 1  # min_workers

    await queue.scale_workers(2)

    scaled = await queue.get_stats()
    assert scaled.workers == 3


async def test_shuts_down_gracefully_with_tasks_in_progress(
    queue: TaskQueue, events: Events
) -> None:
    ended = asyncio.Event()

    async def slow(task: Task) -> None:
        await asyncio.sleep(payload(task)["seconds"])
        ended.set()

    queue.register_handler("slow-job", slow)

    task_id = await queue.enqueue("slow-job", {"seconds": 0.2})

    # At once, before it can have been claimed.
    await queue.stop()

    assert ended.is_set()
    completed = events.find("task.completed")
    assert completed is not None
    assert completed.task_id == task_id
    assert not queue.is_running()


async def test_reports_sizes_and_statistics(queue: TaskQueue, events: Events) -> None:
    """What the original's monitor reads."""

    async def handler(task: Task) -> None: ...

    queue.register_handler("counted", handler)
    await queue.pause_queue()
    tasks = [
        await queue.enqueue("counted", {}, priority=priority)
        for priority in ("low", "high", "high")
    ]

    stats = await queue.get_stats()
    assert (stats.pending, stats.processing, stats.completed) == (3, 0, 0)
    assert stats.pending_by_priority == {"critical": 0, "high": 2, "normal": 0, "low": 1}
    assert stats.registered_handlers == ["counted"]
    assert await queue.get_queue_size() == 3
    assert queue.is_running()

    await queue.resume_queue()
    for task in tasks:
        await events.wait("task.completed", task)
    stats = await queue.get_stats()
    assert (stats.pending, stats.processing, stats.completed) == (0, 0, 3)
    assert await queue.get_queue_size() == 0


# -- the exercise: dependencies ------------------------------------------------------------------


async def test_a_dependent_waits_blocked_and_runs_after_its_dependency(
    queue: TaskQueue, events: Events
) -> None:
    may_end = asyncio.Event()

    async def fetch(task: Task) -> dict[str, str]:
        await may_end.wait()
        return {"data": "fetched"}

    async def process(task: Task) -> dict[str, bool]:
        return {"processed": True}

    queue.register_handler("fetch-data", fetch)
    queue.register_handler("process-data", process)

    fetch_id = await queue.enqueue("fetch-data", {"url": "/api/data"})
    process_id = await queue.enqueue("process-data", {"input": "data"}, depends_on=[fetch_id])

    await events.wait("task.started", fetch_id)
    blocked = await process_id.get()
    assert blocked.status is Status.BLOCKED
    assert await queue.get_dependents(fetch_id) == [process_id]
    assert (await queue.get_stats()).blocked == 1

    may_end.set()
    completed = await events.wait("task.completed", process_id)
    unblocked = await events.wait("task.unblocked", process_id)
    parent = await events.wait("task.completed", fetch_id)
    assert completed.result == {"processed": True}
    assert parent.position.offset < unblocked.position.offset < completed.position.offset


async def test_a_dependent_waits_for_all_of_its_dependencies(
    queue: TaskQueue, events: Events
) -> None:
    gates = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def handler(task: Task) -> None:
        gate = gates.get(payload(task).get("gate", ""))
        if gate is not None:
            await gate.wait()

    queue.register_handler("step", handler)
    first = await queue.enqueue("step", {"gate": "first"})
    second = await queue.enqueue("step", {"gate": "second"})
    child = await queue.enqueue("step", {}, depends_on=[first, second])

    gates["first"].set()
    await events.wait("task.completed", first)
    assert (await child.get()).status is Status.BLOCKED

    gates["second"].set()
    await events.wait("task.completed", child)


async def test_dependents_fail_with_a_dependency_that_dies(
    queue: TaskQueue, events: Events
) -> None:
    may_fail = asyncio.Event()
    ran: list[str] = []

    async def fails(task: Task) -> None:
        await may_fail.wait()
        raise RuntimeError("broken")

    async def never(task: Task) -> None:
        ran.append(task.id)

    queue.register_handler("fails", fails)
    queue.register_handler("never", never)
    parent = await queue.enqueue("fails", {}, max_attempts=1)
    child = await queue.enqueue("never", {}, depends_on=[parent])
    grandchild = await queue.enqueue("never", {}, depends_on=[child])

    may_fail.set()
    died = await events.wait("task.dead", grandchild)

    dead = {task.id: task for task in await queue.get_dead_tasks()}
    assert dead.keys() == {parent, child, grandchild}
    assert parent in (dead[child].error or "")
    assert "broken" in (dead[child].error or "")
    assert child in (dead[grandchild].error or "")
    assert died.attempts == 0
    assert (await queue.get_stats()).dead_letter_count == 3
    assert ran == []
    # One transaction: no reader sees a dead parent and a waiting child.
    offsets = [e.position.offset for e in events.seen if e.kind == "task.dead"]
    assert max(offsets) - min(offsets) <= 4


async def test_a_dependency_that_is_done_does_not_block(queue: TaskQueue, events: Events) -> None:
    async def handler(task: Task) -> str:
        return "ok"

    queue.register_handler("quick", handler)
    parent = await queue.enqueue("quick", {})
    await events.wait("task.completed", parent)

    child = await queue.enqueue("quick", {}, depends_on=[parent])
    assert child.status is Status.QUEUED
    assert await child.result(SECONDS) == "ok"


async def test_an_unknown_dependency_is_refused_and_a_failed_one_is_shared(
    queue: TaskQueue, events: Events
) -> None:
    async def fails(task: Task) -> None:
        raise RuntimeError("broken")

    queue.register_handler("fails", fails)
    parent = await queue.enqueue("fails", {}, max_attempts=1)
    await events.wait("task.dead", parent)

    with pytest.raises(UnknownDependency, match="nowhere"):
        await queue.enqueue("fails", {}, depends_on=["nowhere"])
    assert [task.id for task in await queue.find_tasks()] == [parent]  # nothing half-written
    child = await queue.enqueue("fails", {}, depends_on=[parent])
    with pytest.raises(TaskFailed, match=f"dependency {parent} failed: RuntimeError: broken"):
        await child.result(SECONDS)
    with pytest.raises(NotFound):
        await queue.get_dependents("nowhere")
