"""The live feed of a real store: snapshots of real objects, commits of another process's connection, and two
gateways on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import Context
from holdfast.app import TaskQueue
from holdfast.core.event import Position
from holdfast.gateway.feed.directory import StoreDirectory
from holdfast.gateway.feed.metrics import FAMILIES, FeedMeter
from holdfast.gateway.feed.source import StoreSource
from holdfast.gateway.feed.summary import StoreSummary
from holdfast.metrics import Metrics
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.sync import views as hub_views
from holdfast.sync.exchange.conflicts import Conflicts
from holdfast.sync.live_reads import LiveReads
from holdfast.sync.nodes.nodes import Nodes
from holdfast.sync.projects import Projects
from tests.backends import SHARED, url_of
from tests.conformance.sync.support import Plugin
from tests.feed_support import Door, Served, person, served


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@asynccontextmanager
async def gateway(queue: TaskQueue, door: Door | None = None) -> AsyncIterator[Served]:
    """A gateway on the store of a queue."""
    parts = queue.parts
    resources = await parts.sessions.open()
    reads = LiveReads(resources.store)
    directory = StoreDirectory(
        parts.tasks,
        parts.queues,
        parts.nodes,
        resources.store.now,
        summary=StoreSummary(reads, parts.decisions, resources.store.now),
        held=reads.held_by,
        knows_project=reads.knows_project,
        registered=Nodes(resources.store).find,
    )
    async with served(
        StoreSource(resources.store), bus=resources.bus, directory=directory, door=door
    ) as server:
        yield server


@asynccontextmanager
async def opened(*urls: str) -> AsyncIterator[list[TaskQueue]]:
    """Queues with one type. Their workers do not run yet."""
    queues = [TaskQueue(url) for url in urls]
    for queue in queues:
        queue.task(greet)
    try:
        yield queues
    finally:
        for queue in queues:
            await queue.stop()


async def greet(name: str) -> str:
    return f"hello {name}"


async def work_off(queue: TaskQueue, *task_ids: str) -> None:
    await queue.start()
    for task_id in task_ids:
        await queue.wait_task(task_id, timeout=30.0)


async def test_a_task_from_its_snapshot_to_its_end(url: str) -> None:
    async with opened(url) as (queue,):
        task_id = (await queue.enqueue("greet", {"name": "ann"})).id
        async with gateway(queue) as server, server.client() as client:
            await client.subscribe(f"task:{task_id}")
            snapshot = await client.next()
            task = await queue.get_task(task_id)
            details = await queue.parts.tasks.details(task_id)
            assert task is not None
            assert snapshot["payload"] == views.task(task, task.updated_at, details)
            assert snapshot["payload"]["status"] == "queued"
            await client.until("bookmark")
            await work_off(queue, task_id)
            frames = await client.until("task.status_changed", count=2)
            assert [(frame["kind"], frame["payload"]["to"]) for frame in frames] == [
                ("task.started", "running"),
                ("task.completed", "completed"),
            ]
            assert [frame["version"] for frame in frames] == [2, 3]


async def test_replay_of_a_task_and_of_its_project(url: str) -> None:
    async with opened(url) as (queue,):
        task_ids = [(await queue.enqueue("greet", {"name": name})).id for name in ("ann", "bob")]
        start = await queue.parts.feed.position()
        await work_off(queue, *task_ids)
        async with gateway(queue) as server, server.client() as client:
            await client.subscribe(f"task:{task_ids[0]}", position=f"{start.epoch}:0")
            frames = [frame for frame in await client.until("bookmark") if "kind" in frame]
            kinds = [frame["kind"] for frame in frames]
            assert kinds == ["task.enqueued", "task.started", "task.completed"]
            assert frames[2]["payload"]["result"] == "hello ann"
            await client.subscribe("project:default", position=str(start))
            frames = await client.until("bookmark")
            assert len([frame for frame in frames if frame["type"] == "task.status_changed"]) == 4


async def test_two_gateways_serve_the_same_positions(url: str) -> None:
    """A client goes on at another gateway, and the hint of a commit reaches both."""
    async with opened(url, url) as (first, second), gateway(first) as one, gateway(second) as other:
        task_id = (await first.enqueue("greet", {"name": "ann"})).id
        async with one.client() as client:
            await client.subscribe("project:default", position="now")
            await client.until("bookmark")
            await second.parts.tasks.cancel(task_id, By("user:ann"))
            frame = (await client.until("task.status_changed"))[-1]
            assert frame["kind"] in {"task.enqueued", "task.aborted"}
            while frame["kind"] != "task.aborted":
                frame = await client.next()
        later = (await first.enqueue("greet", {"name": "bob"})).id
        async with other.client() as client:
            await client.subscribe("project:default", position=frame["position"])
            event = (await client.until("task.status_changed"))[-1]
            assert (event["kind"], event["payload"]["task_id"]) == ("task.enqueued", later)


async def test_snapshots_of_queues_and_nodes(url: str) -> None:
    async with opened(url) as (queue,), gateway(queue) as server, server.client() as client:
        await queue.enqueue("greet", {"name": "ann"})
        await client.subscribe("queue:default")
        assert (await client.next())["payload"]["counts"]["queued"] == 1
        for missing in (
            "queue:nothing",
            "node:nothing",
            "task:nothing",
            "job:j1",
            "host:h1",
            "project:nothing",
        ):
            assert (await client.subscribe(missing))[-1]["code"] == "not-found"
        await queue.parts.queues.pause("default", By("user:ann"))
        assert (await client.until("queue.paused"))[-1]["payload"]["queue"] == "default"
        await queue.start()
        (node,) = await queue.parts.nodes.list()
        await client.subscribe(f"worker:{node.id}")
        snapshot = await client.next()
        assert (snapshot["payload"]["id"], snapshot["payload"]["held"]) == (node.id, [])


async def test_a_project_is_watched_once_it_was_created_or_has_a_task(url: str) -> None:
    async with opened(url) as (queue,), gateway(queue) as server, server.client() as client:
        assert (await client.subscribe("project:web"))[-1]["code"] == "not-found"
        await queue.enqueue("greet", {"name": "ann"}, project="web")
        assert (await client.subscribe("project:web"))[-1]["mode"] == "snapshot"
        store = (await queue.parts.sessions.open()).store
        await Projects(store).create("shop", By("test"))
        assert (await client.subscribe("project:shop"))[-1]["mode"] == "snapshot"
        door = Door(person(projects=("later",)))
    async with opened(url) as (queue,), gateway(queue, door) as server, server.client() as client:
        # The token names the project: its tasks may come later.
        assert (await client.subscribe("project:later"))[-1]["mode"] == "snapshot"


async def test_snapshots_of_a_project_and_of_a_person(url: str) -> None:
    """Two plugins have left a conflict, and a task waits for a person."""
    async with opened(url) as (queue,):
        store = (await queue.parts.sessions.open()).store
        plugins = [await Plugin(store, name).start() for name in ("p1", "p2")]
        await plugins[0].create(payload="base")
        await plugins[0].one(id="task-1", expected_version=1, payload="ours")
        conflict = await plugins[1].one(id="task-1", expected_version=1, payload="theirs")
        task_id = await plugins[0].id_of("task-1")
        queue.task(ask)
        asking = await queue.enqueue("ask", {})
        await queue.start()
        decision = await asked(queue, asking.id)
        async with gateway(queue) as server, server.client() as client:
            await client.subscribe(f"project:{plugins[0].project}")
            snapshot = (await client.next())["payload"]
            assert snapshot["counts"]["queued"] == 1
            assert snapshot["decisions"] == []
            (shown,) = snapshot["conflicts"]
            assert (shown["id"], shown["client_id"]) == (conflict.conflict_id, "task-1")
            assert shown == hub_views.conflict_row(await Conflicts(store).get(shown["id"]))
            await client.subscribe("system:events")
            snapshot = (await client.until("snapshot"))[-1]["payload"]
            assert snapshot["counts"]["paused"] == 1
            assert [row["id"] for row in snapshot["decisions"]] == [decision]
            assert len(snapshot["conflicts"]) == 1
            await client.subscribe("user:ann")
            snapshot = (await client.until("snapshot"))[-1]["payload"]
            assert [row["id"] for row in snapshot["decisions"]] == [decision]
            await client.subscribe("task:task-1")
            snapshot = (await client.until("snapshot"))[-1]["payload"]
            assert snapshot["id"] == task_id, "a task is found by the name that plugins use"
        other = Door(person(projects=("elsewhere",)))
        async with gateway(queue, other) as server, server.client() as client:
            await client.subscribe("user:ann")
            assert (await client.until("snapshot"))[-1]["payload"]["decisions"] == []


async def test_a_channel_of_a_name_of_several_projects_is_ambiguous(url: str) -> None:
    async with opened(url) as (queue,):
        store = (await queue.parts.sessions.open()).store
        ids = {}
        for project in ("web", "shop"):
            plugin = await Plugin(store, f"p-{project}", project).start()
            await plugin.create()
            ids[project] = await plugin.id_of("task-1")
        door = Door(person(), person("bob", projects=("web",)), person("eve", projects=("else",)))
        async with gateway(queue, door) as server:
            async with server.client() as client:
                refused = (await client.subscribe("task:task-1"))[-1]
                assert (refused["code"], refused["retryable"]) == ("ambiguous-id", False)
                assert all(id in refused["detail"] for id in ids.values())
            async with server.client(token="bob") as client:
                await client.subscribe("task:task-1")
                assert (await client.until("snapshot"))[-1]["payload"]["id"] == ids["web"]
                # Another task of the name does not end the subscription.
                door.people["bob"] = person("bob", projects=("web", "shop"))
                await client.send("auth", token="bob")
                await client.until("authenticated")
                await queue.parts.tasks.cancel(ids["web"], By("test"))
                frames = await client.until("task.status_changed", "reset")
                assert frames[-1]["type"] == "task.status_changed"
            async with server.client(token="eve") as client:
                assert (await client.subscribe("task:task-1"))[-1]["code"] == "not-found"


async def ask(ctx: Context) -> None:
    await ctx.decide("Deploy?", options=["yes", "no"], assignees=["user:ann"])


async def asked(queue: TaskQueue, task_id: str) -> str:
    """The decision of a task, once it waits."""
    async for event in queue.events(after=Position((await queue.parts.feed.position()).epoch, 0)):
        if event.kind == "checkpoint.hitl_required" and event.task_id == task_id:
            return str(event.data["decision_id"])
        assert event.kind != "task.failed", event
    raise AssertionError("the feed has ended")


async def test_classes_have_measured_latencies(url: str) -> None:
    metrics = Metrics(FAMILIES)
    async with opened(url) as (queue,), gateway(queue) as server, server.client() as client:
        server.feed.broadcaster.meter = FeedMeter(metrics)
        await client.subscribe("project:default", position="now")
        await client.until("bookmark")
        await queue.enqueue("greet", {"name": "ann"})
        await client.until("task.status_changed")
        labels = {"source": "engine", "target": "ws", "state_type": "critical"}
        assert metrics.value("holdfast_sync_latency_seconds", **labels) == 1
        assert metrics.value("holdfast_ws_frames_total", **{"class": "critical"}) == 1
