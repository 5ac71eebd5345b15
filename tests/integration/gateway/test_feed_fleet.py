"""The channels of jobs and hosts of a real store: snapshots, events, and who may read them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.app import TaskQueue
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.rights import Role
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.views.whole import whole_host, whole_job
from holdfast.gateway.feed.directory import StoreDirectory
from holdfast.gateway.feed.fleet_directory import FleetDirectory
from holdfast.gateway.feed.source import StoreSource
from holdfast.queue.by import By
from tests.backends import SHARED, url_of
from tests.conformance.fleet.job_support import FleetBench
from tests.feed_support import Door, Served, person, served

BY = By("user:ann", "r")


class FleetFeed(NamedTuple):
    server: Served
    fleet: Fleet
    bench: FleetBench


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def feed(url: str) -> AsyncIterator[FleetFeed]:
    queue = TaskQueue(url)
    resources = await queue.parts.sessions.open()
    store, parts = resources.store, queue.parts
    door = Door(person(role=Role.OPERATOR), person("bob", Role.OPERATOR, ("web",)))
    fleet = Fleet(store, bus=resources.bus)
    directory = StoreDirectory(
        parts.tasks,
        parts.queues,
        parts.nodes,
        store.now,
        fleet=FleetDirectory(fleet, store.now),
    )
    source = StoreSource(store)
    async with served(source, bus=resources.bus, directory=directory, door=door) as server:
        bench = FleetBench(store)
        bench.pipeline._bus = resources.bus
        yield FleetFeed(server, fleet, bench)
    await queue.stop()


async def test_a_job_from_its_snapshot_to_its_end(feed: FleetFeed) -> None:
    bench, fleet = feed.bench, feed.fleet
    made = await bench.create(await bench.add_hosts(2), external_id="deploy")
    async with feed.server.client() as client:
        await client.subscribe("job:deploy")
        snapshot = await client.next()
        view, _ = await whole_job(fleet, made.job, bench.store.now())
        assert snapshot["payload"] == json.loads(json.dumps(view))
        await client.until("bookmark")
        await fleet.job_control.pause(made.job.id, BY)
        await fleet.job_control.resume(made.job.id, BY)
        frames = await client.until("job.resumed")
        kinds = [frame["kind"] for frame in frames if "kind" in frame]
        assert kinds[-2:] == ["job.halted", "job.resumed"]
        assert frames[-1]["payload"]["job"] == made.job.id


async def test_events_of_a_job_reach_its_project_and_its_requester(feed: FleetFeed) -> None:
    bench = feed.bench
    names = await bench.add_hosts(1)
    async with feed.server.client() as project, feed.server.client() as user:
        await project.subscribe("project:default", position="now")
        await project.until("bookmark")
        await user.subscribe("user:ann", position="now")
        await user.until("bookmark")
        made = await feed.fleet.jobs.create(_request(names), BY)
        for client in (project, user):
            frame = (await client.until("job.created"))[-1]
            assert frame["payload"]["job"] == made.job.id


async def test_a_host_and_its_changes(feed: FleetFeed) -> None:
    await feed.bench.add_hosts(1)
    [host] = await feed.fleet.hosts.list("default")
    async with feed.server.client() as client:
        await client.subscribe(f"host:{host.id}")
        snapshot = (await client.next())["payload"]
        view = await whole_host(feed.fleet, host, feed.bench.store.now())
        assert snapshot["id"] == view["id"]
        await client.until("bookmark")
        await feed.fleet.hosts.edit(host.id, BY, state="cordoned")
        frame = (await client.until("host.changed"))[-1]
        assert frame["payload"]["host"] == host.id


async def test_what_is_foreign_looks_like_what_does_not_exist(feed: FleetFeed) -> None:
    made = await feed.bench.create(await feed.bench.add_hosts(1), external_id="deploy")
    [host] = await feed.fleet.hosts.list("default")
    async with feed.server.client("bob") as client:
        for name in (f"job:{made.job.id}", "job:deploy", "job:none", f"host:{host.id}", "host:x"):
            assert (await client.subscribe(name))[-1]["code"] == "not-found", name


def _request(names: list[str]) -> JobRequest:
    return JobRequest(command_type="noop", hosts=names)
