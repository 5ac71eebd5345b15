"""Remote workers run the tasks of one project: what `why`, `doctor` and lists say of other projects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.core.codec import dumps
from holdfast.queue import checks


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[TaskQueue]:
    made = TaskQueue(f"sqlite:///{tmp_path}/holdfast.db")
    yield made
    await made.stop()


async def worker(queue: TaskQueue, project: str) -> None:
    """A remote worker of a project, as a gateway describes it."""
    info = {"types": ["echo"], "queues": ["default"], "project": project, "remote": True}
    store = (await queue.open()).store
    await store.heartbeat(f"worker-{project}", dumps(info), [], 9.0)


async def echo() -> None: ...


async def test_a_task_of_a_project_without_a_worker(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    await queue.open()
    await worker(queue, "default")
    lost = await queue.enqueue("echo", project="web")
    ready = await queue.enqueue("echo")
    why = await queue.why(lost)
    assert [reason.code for reason in why.reasons] == ["project-unserved"]
    assert "no live worker serves project 'web'" in str(why)
    assert [reason.code for reason in (await queue.why(ready)).reasons] == ["waiting"]
    check = await checks.projects(queue, 60.0)
    assert (check.level, "'web' (1 task waits)" in check.text) == (checks.Level.WARN, True)
    await worker(queue, "web")
    assert [reason.code for reason in (await queue.why(lost)).reasons] == ["waiting"]
    assert (await checks.projects(queue, 60.0)).level is checks.Level.OK


async def test_tasks_are_listed_by_project(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    web = await queue.enqueue("echo", project="web")
    await queue.enqueue("echo")
    found = await queue.parts.tasks.find(project="web")
    assert [task.id for task in found] == [web]
