"""Remote workers run the tasks of one project: what `why`, `doctor` and lists say of other projects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.core.codec import dumps
from holdfast.core.command import Reassign
from holdfast.core.exchange.item import Item
from holdfast.core.speaking import Voice
from holdfast.errors import BadConfig
from holdfast.queue import checks
from holdfast.queue.by import By
from holdfast.queue.check import Level
from holdfast.sync.exchange.exchange import Exchange
from holdfast.sync.nodes.nodes import Nodes, Registration


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
    assert (check.level, "'web' (1 task waits)" in check.text) == (Level.WARN, True)
    await worker(queue, "web")
    assert [reason.code for reason in (await queue.why(lost)).reasons] == ["waiting"]
    assert (await checks.projects(queue, 60.0)).level is Level.OK


async def test_tasks_that_nodes_claim_by_id_need_no_worker(queue: TaskQueue) -> None:
    store = (await queue.open()).store
    await Nodes(store).register(Registration(node="n1", project="web"), By("test"))
    item = Item(id="task-1", expected_version=0, payload=1)
    await Exchange(store).push(Voice("n1"), "web", [item])
    assert (await checks.nodes(queue, 60.0)).text.startswith("no worker is live")
    await worker(queue, "default")
    for check in (checks.nodes, checks.projects, checks.waiting):
        assert (await check(queue, -1.0)).level is Level.OK
    why = await queue.why("task-1")
    assert [reason.code for reason in why.reasons] == ["external"]
    assert "a node claims it by its id" in str(why)


async def test_a_process_may_serve_some_projects_only(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    ids = {name: await queue.enqueue("echo", project=name) for name in ("web", "shop", "other")}
    await queue.start(projects=("web", "shop"))
    for name in ("web", "shop"):
        await queue.wait_task(ids[name].id, 10)
    why = await queue.why(ids["other"])
    assert [reason.code for reason in why.reasons] == ["project-unserved"]
    assert "serve project 'shop', 'web'" in str(why)
    check = await checks.projects(queue, 60.0)
    assert (check.level, "'other'" in check.text) == (Level.WARN, True)
    [node] = await queue.get_nodes()
    assert node.projects == ["web", "shop"]


@pytest.mark.parametrize("projects", [(), "web", ("Not a name",)])
async def test_projects_that_are_no_names_are_refused(queue: TaskQueue, projects: object) -> None:
    queue.register_handler("echo", echo)
    with pytest.raises(BadConfig, match="projects"):
        await queue.start(projects=projects)


async def test_tasks_are_listed_by_project(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    web = await queue.enqueue("echo", project="web")
    await queue.enqueue("echo")
    found = await queue.parts.tasks.find(project="web")
    assert [task.id for task in found] == [web]


async def test_why_says_that_a_reservation_is_for_a_node_that_cannot_run_it(
    queue: TaskQueue,
) -> None:
    queue.register_handler("echo", echo)
    queue.register_handler("other", echo)
    await worker(queue, "default")
    for task_type, node, said in [
        ("echo", "worker-default", "worker-default for another"),
        ("other", "worker-default", "which has no handler for 'other'"),
        ("echo", "gone", "which is not live"),
    ]:
        task_id = await queue.enqueue(task_type)
        await queue.parts.tasks.apply(task_id, Reassign("ann", node, 60.0, "test"), By("ann"))
        assert said in str(await queue.why(task_id))
