"""The fleet through the client: hosts, groups, blocks, jobs, votes, webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from holdfast.client.blocking import BlockingClient
from holdfast.client.client import Client
from holdfast.core.errors import ApprovalVoid, SelfApproval, UnknownHost
from holdfast.errors import Conflict, IdempotencyConflict, NotFound, WaitTimeout
from holdfast.gateway.compose import compose
from tests.feed_support import serving
from tests.integration.client.conftest import in_background
from tests.integration.client.test_client import client_of
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import ADMIN, Site, open_site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site("sqlite://") as made:
        yield made


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    async with client_of(site) as made:
        yield made


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[str]:
    """The whole gateway, with its live feed."""
    made = compose(site.services, site.gateway.settings)
    async with AsyncExitStack() as stack:
        for running in made.running:
            await stack.enter_async_context(running())
        port = await stack.enter_async_context(serving(made.app()))
        yield f"http://127.0.0.1:{port}"


async def test_hosts_and_groups(client: Client) -> None:
    added = await client.hosts.add("web-1", labels={"role": "web"})
    assert (added.name, added.driver) == ("web-1", "agent")
    text = "web-[2-3] role=web\ndb-1 role=db\n"
    imported = await client.hosts.import_hosts(text=text, format="text")
    assert (imported.added, imported.failed) == (3, 0)
    again = await client.hosts.import_hosts([{"name": "web-1", "labels": {"role": "web"}}])
    assert again.unchanged == 1
    assert [host.name for host in await client.hosts.list(selector="role=web")] == [
        "web-1",
        "web-2",
        "web-3",
    ]
    changed = await client.hosts.edit("db-1", labels={"env": "prod", "role": None}, reason="r")
    assert changed.labels == {"env": "prod"}
    group = await client.groups.add("front", "role=web")
    assert (await client.groups.edit("front", "role=web!web-1")).version == group.version + 1
    assert (await client.hosts.select("@front")).folded == "web-[2-3]"
    assert (await client.hosts.get("web-2")).groups == ["front"]
    assert [each.name for each in await client.groups.list()] == ["front"]
    assert (await client.groups.get("front")).selector == "role=web!web-1"
    await client.groups.remove("front")
    await client.hosts.remove("db-1", reason="sold")
    with pytest.raises(NotFound):
        await client.hosts.get("db-1")


async def test_blocks(client: Client) -> None:
    await client.hosts.add("web-1")
    block = await client.blocks.add("disk swap", host="web-1", expires_in_seconds=60)
    assert (await client.blocks.get(block.id)).affects == 1
    assert (await client.hosts.get("web-1")).blocks == [block.id]
    changed = await client.blocks.edit(block.id, effect="hold", expires_in_seconds=None)
    assert (changed.effect, changed.expires_at) == ("hold", None)
    assert [each.id for each in await client.blocks.list(host="web-1")] == [block.id]
    lifted = await client.blocks.lift(block.id, reason="done")
    assert (lifted.active, await client.blocks.list()) == (False, [])
    assert [each.id for each in await client.blocks.list(lifted=True)] == [block.id]
    with pytest.raises(Conflict):
        await client.blocks.edit(block.id, reason="x")


async def test_a_job_from_its_plan_to_its_retry(site: Site, client: Client) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(3)
    dry = await client.jobs.create("noop", selector="*", dry_run=True)
    assert (dry.folded, dry.created) == ("web-[001-003]", False)
    with pytest.raises(UnknownHost):
        await client.jobs.create("noop", hosts=["none"])
    made = await client.jobs.create("noop", selector="*", external_id="deploy")
    assert (await client.jobs.create("noop", selector="*", external_id="deploy")).created is False
    with pytest.raises(IdempotencyConflict):
        await client.jobs.create("noop", selector="*", external_id="deploy", reason="x")
    assert (await client.jobs.pause("deploy", "wait")).job.status == "PAUSED"
    assert (await client.jobs.resume("deploy")).job.halt is None
    changed = await client.jobs.set("deploy", max_in_flight=2, budget={"failed": 3}, reason="slow")
    assert changed.repeated is False
    assert [row.would_run for row in await client.jobs.plan("deploy")] == [True] * 3
    why = await client.jobs.why("deploy", "web-001")
    assert why.reasons[0].code in ("window", "wave")
    await fleet.run_out({"job_id": made.job_id}, failing="web-002")
    job = await client.jobs.get("deploy", drift=True)
    assert (job.status, job.counts["FAILED"], job.drift is not None) == ("PARTIAL", 1, True)
    failed = await client.jobs.executions("deploy", status="FAILED")
    assert [each.host for each in failed] == ["web-002"]
    assert (await client.jobs.execution("deploy", "web-002")).id == failed[0].id
    assert [chunk async for chunk in client.jobs.logs("deploy", "web-002", follow=True)] == []
    assert (await client.jobs.output("deploy")).missing_count == 3
    again = await client.jobs.retry("deploy", only=["failed"], external_id="again")
    assert (again.hosts, again.created) == (1, True)
    assert [row.id for row in await client.jobs.list(parent=made.job_id)] == [again.job_id]
    aborted = await client.jobs.abort("again", "enough", mode="kill")
    assert aborted.job.halt is not None


async def test_votes(site: Site, client: Client) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(1)
    own = await client.jobs.create("shell", "uptime", selector="*")
    with pytest.raises(SelfApproval):
        await client.jobs.approve(own.job_id, "r")
    asked = await fleet.asked()
    waiting = await client.jobs.approvals()
    assert {each.job.id for each in waiting} == {own.job_id, asked["job_id"]}
    with pytest.raises(ApprovalVoid):
        await client.jobs.approve(asked["job_id"], "r", expect_digest="d1:0")
    voted = await client.jobs.approve(asked["job_id"], "r", expect_digest=asked["digest"])
    assert voted.approval_state == "APPROVED"
    back = await client.jobs.withdraw(asked["job_id"])
    assert back.approval_state == "WAIT_APPROVAL"
    rejected = await client.jobs.reject(asked["job_id"], "not today")
    assert rejected.approval_state == "REJECTED"
    broken = await client.jobs.break_glass(own.job_id, "fire", "INC-1")
    assert broken.status == "NEW"
    async with client_of(site, await site.token("approver")) as other:
        reviewed = await other.jobs.review(own.job_id, "seen")
    assert reviewed.job_id == own.job_id


async def test_webhooks(client: Client) -> None:
    source = await client.webhooks.add_source("ci")
    endpoint = await client.webhooks.add_endpoint("https://hooks.example/in", kinds=["job.*"])
    assert (source.direction, endpoint.direction) == ("in", "out")
    rotated = await client.webhooks.rotate(source.id)
    assert rotated.secret != source.secret
    assert (await client.webhooks.retire(source.id)).secrets == 1
    sent = await client.webhooks.test(endpoint.id)
    again = await client.webhooks.resend(endpoint.id, sent.id)
    assert [each.id for each in await client.webhooks.deliveries(endpoint.id)] == [
        again.id,
        sent.id,
    ]
    changed = await client.webhooks.edit(endpoint.id, state="disabled")
    assert changed.state == "disabled"
    assert (await client.webhooks.get(source.id)).name == "ci"
    await client.webhooks.remove(source.id)
    assert [each.id for each in await client.webhooks.list(direction="in")] == []


async def test_the_project_of_the_client_counts(site: Site) -> None:
    async with client_of(site) as all_projects:
        web = Client(
            "http://gateway", ADMIN, project="web", transport=all_projects._http._transport
        )
        async with web:
            assert (await web.hosts.add("w")).project == "web"
            assert (await web.jobs.create("noop", hosts=["w"])).project == "web"
            assert [each.name for each in await web.hosts.list()] == ["w"]
            assert await web.hosts.list(project="default") == []


async def test_the_end_of_a_job_is_waited_for(site: Site) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(2)
    made = await fleet.job(external_id="deploy")
    async with served(site) as url, Client(url, ADMIN) as client:
        with pytest.raises(WaitTimeout, match="is still NEW"):
            await client.jobs.wait("deploy", 0.05)
        waiting = asyncio.create_task(client.jobs.wait("deploy", 30))
        async with client.jobs.watch(made["job_id"]) as events:
            first = await anext(events)
            assert (first.type, first.payload["id"]) == ("snapshot", made["job_id"])
            await fleet.run_out(made)
            site.services.wake()
            kinds = [item.kind async for item in events]
            assert kinds[-1] == "job.finished"
        assert [item.type async for item in client.jobs.watch(made["job_id"])] == ["snapshot"]
        assert (await waiting).status == "SUCCESS"
        assert (await client.jobs.wait("deploy")).counts["SUCCESS"] == 2


@pytest.fixture
def url() -> Iterator[str]:
    @asynccontextmanager
    async def serve() -> AsyncIterator[str]:
        async with open_site("sqlite://") as site, served(site) as address:
            yield address

    yield from in_background(serve)


def test_the_blocking_client_has_the_same_calls(url: str) -> None:
    with BlockingClient(url, ADMIN) as client:
        client.hosts.add("web-1", labels={"role": "web"})
        client.groups.add("front", "role=web")
        block = client.blocks.add("r", selector="@front")
        job = client.jobs.create("noop", selector="*")
        assert [each.id for each in client.jobs.list()] == [job.job_id]
        assert client.jobs.get(job.job_id).excluded[0].reason == "block"
        client.blocks.lift(block.id)
        client.jobs.abort(job.job_id, "enough")
        with client.jobs.watch(job.job_id) as events:
            assert next(iter(events)).type == "snapshot"
        assert list(client.webhooks.list()) == []
