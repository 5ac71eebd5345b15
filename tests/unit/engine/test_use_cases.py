"""The use cases that every face calls: one way to say who asks, one way to answer."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import holdfast.queue
from holdfast import Status, Task, TaskQueue
from holdfast.errors import Conflict, IllegalTransition, InvalidInput, NotFound, VersionConflict
from holdfast.primitives.locks import Locks
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter
from holdfast.queue.locks import LockAdmin
from holdfast.testing import harness


@pytest.fixture
def queue() -> TaskQueue:
    queue = TaskQueue()

    async def work(task: Task) -> None:
        if task.payload == "bad":
            raise ValueError("bad")

    queue.register_handler("work", work, max_attempts=1)
    return queue


async def test_a_change_of_another_version_than_expected_is_refused(queue: TaskQueue) -> None:
    async with harness(queue):
        tasks = queue.parts.tasks
        task = await tasks.get(await queue.enqueue("work", 1, delay=60))
        edited = await tasks.edit(task.id, 2, By("ada", expected_version=task.version))
        with pytest.raises(Conflict, match="read it again"):
            await tasks.cancel(task.id, By("bob", "late", expected_version=task.version))
        assert (await tasks.get(task.id)).payload == 2
        last = await tasks.cancel(task.id, By("bob", expected_version=edited.version))
        assert (last.status, last.held_by) == (Status.ABORTED, "bob")


async def test_every_change_of_one_task_takes_an_expected_version(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        task = await queue.parts.tasks.get(await queue.enqueue("work", 1, delay=60))
        dead_id = await queue.enqueue("work", "bad")
        await h.run_until_idle()
        dead = await queue.parts.dead_letters.get(dead_id)
        for refused in (
            queue.cancel(task.id, expected_version=task.version + 1),
            queue.pause_task(task.id, expected_version=task.version + 1),
            queue.resume_task(task.id, expected_version=task.version + 1),
            queue.edit_task(task.id, 2, expected_version=task.version + 1),
            queue.replay_dead_task(dead.id, expected_version=dead.version + 1),
        ):
            with pytest.raises(Conflict, match="read it again"):
                await refused
        edited = await queue.edit_task(task.id, 2, expected_version=task.version)
        aborted = await queue.cancel(task.id, expected_version=edited.version)
        assert (edited.payload, aborted.status) == (2, Status.ABORTED)
        replayed = await queue.replay_dead_task(dead.id, expected_version=dead.version)
        assert replayed.status is Status.QUEUED


def test_every_public_change_of_one_task_has_the_keyword() -> None:
    changes = {
        name
        for name, call in inspect.getmembers(TaskQueue, inspect.isfunction)
        if {"task_id", "actor"} <= inspect.signature(call).parameters.keys()
    }
    assert changes == {"cancel", "pause_task", "resume_task", "edit_task", "replay_dead_task"}
    for name in changes:
        parameters = inspect.signature(getattr(TaskQueue, name)).parameters
        assert parameters["expected_version"].kind is inspect.Parameter.KEYWORD_ONLY, name


async def test_a_dead_letter_is_replayed_at_the_version_that_was_seen(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        letters = queue.parts.dead_letters
        task_id = await queue.enqueue("work", "bad")
        await h.run_until_idle()
        dead = await letters.get(task_id)
        with pytest.raises(Conflict, match="read it again"):
            await letters.replay(task_id, By(expected_version=dead.version - 1))
        with pytest.raises(InvalidInput, match="give one of them"):
            await letters.replay(task_id, By(), payload={"n": 1}, patch={"n": 2})
        replayed = await letters.replay(task_id, By(expected_version=dead.version), payload="good")
        assert replayed.status is Status.QUEUED
        with pytest.raises(IllegalTransition, match="not a dead letter"):
            await letters.discard(task_id, By())


async def test_what_does_not_exist_is_not_found(queue: TaskQueue) -> None:
    by = By("ada")
    async with harness(queue):
        parts = queue.parts
        for asked in (
            parts.tasks.get("none"),
            parts.tasks.wait("none"),
            parts.tasks.parents("none"),
            parts.tasks.dependents("none"),
            parts.tasks.history("none"),
            parts.tasks.why("none"),
            parts.tasks.cancel("none", by),
            parts.tasks.pause("none", by),
            parts.tasks.resume("none", by),
            parts.tasks.edit("none", 1, by),
            parts.dead_letters.get("none"),
            parts.dead_letters.replay("none", by),
            parts.dead_letters.discard("none", by),
            parts.queues.get("none"),
            parts.queues.pause("none", by),
            parts.queues.resume("none", by),
            parts.schedules.get("none"),
            parts.schedules.remove("none", by),
            parts.schedules.pause("none", by),
            parts.schedules.resume("none", by),
        ):
            with pytest.raises(NotFound, match="none"):
                await asked


async def test_a_version_of_a_thing_that_has_none_is_refused(queue: TaskQueue) -> None:
    by = By(expected_version=1)
    async with harness(queue), Locks.connect("sqlite://") as locks:
        parts = queue.parts
        for asked in (
            parts.dead_letters.replay_all(DeadFilter(), by),
            parts.dead_letters.discard_all(DeadFilter(), by),
            LockAdmin(locks).revoke("attic", by),
        ):
            with pytest.raises(InvalidInput, match="has no version"):
                await asked


async def test_an_old_version_of_a_queue_or_schedule_is_refused(queue: TaskQueue) -> None:
    by = By(expected_version=1)
    async with harness(queue):
        parts = queue.parts
        for asked in (
            parts.queues.pause("default", by),
            parts.schedules.put("hourly", by, spec="@every 60", type="work"),
        ):
            with pytest.raises(VersionConflict):
                await asked
        with pytest.raises(NotFound):
            await parts.schedules.remove("hourly", by)
        assert not (await parts.queues.get("default")).is_paused
        assert await parts.schedules.list() == []


@pytest.mark.parametrize(
    "given",
    [
        {"actor": ""},
        {"actor": 7},
        {"reason": 7},
        {"reason": "x" * 100_000},
        {"expected_version": -1},
        {"expected_version": "1"},
        {"expected_version": True},
    ],
)
def test_the_actor_of_a_change_is_checked_in_one_place(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(given))):
        By(**given)


async def test_pages_of_dead_letters_go_on_after_the_last_one(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        letters = queue.parts.dead_letters
        await queue.enqueue_many([{"type": "work", "payload": "bad"} for _ in range(7)])
        await h.run_until_idle()
        found: list[str] = []
        last: Task | None = None
        while page := await letters.page_after(DeadFilter(type="work"), last, limit=3):
            found += [task.id for task in page]
            last = page[-1]
        assert sorted(found) == sorted(task.id for task in await h.tasks("work"))
        assert await letters.page_after(DeadFilter(type="other"), None) == []


def test_parts_of_a_queue_are_put_together_not_inherited() -> None:
    """No class of the queue has another one as its base, but for the facade, which is in two files."""
    trees = [ast.parse(path.read_text("utf-8")) for path in folder().glob("*.py")]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    names = {node.name for node in classes}
    bases = {(node.name, ast.unparse(base)) for node in classes for base in node.bases}
    assert len(classes) > 20
    facade = {("Queue", "OperatorCalls"), ("BlockingQueue", "BlockingOperatorCalls")}
    assert {pair for pair in bases if pair[1] in names} == facade


def folder() -> Path:
    return Path(next(iter(holdfast.queue.__path__)))
