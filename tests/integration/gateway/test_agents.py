"""Agents at a real server: enrolment, long polls, refusals, over HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
import websockets

from holdfast.core.command import Abort, Admit, Instruction
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.jobs.spec import check_request, stored
from holdfast.core.fleet.rules import RULES
from holdfast.core.node_identity import NodeState
from holdfast.core.rights import Operation
from holdfast.core.task import Status
from holdfast.core.token import TokenKind
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.sync.access.tokens import NewToken
from holdfast.sync.nodes.nodes import Nodes
from tests.conformance.fleet.agent_support import add_job, get_task, slot_of
from tests.integration.gateway.support import problem
from tests.integration.worker.served import Site, open_site

SECONDS = 30


@pytest.fixture
async def site(url: str) -> AsyncIterator[Site]:
    async with open_site(url) as made:
        yield made


class Host:
    """A host with an agent that is a client."""

    def __init__(self, site: Site, client: httpx2.AsyncClient, enrolled: dict[str, Any]) -> None:
        self.site = site
        self.client = client
        self.id: str = enrolled["host_id"]
        self.credential: str = enrolled["credential"]
        self.incarnation: int = enrolled["incarnation"]
        self.seq = 0

    def body(self, **parts: Any) -> dict[str, Any]:
        self.seq += 1
        return {"boot_id": "b0", "incarnation": self.incarnation, "seq": self.seq} | parts

    async def post(self, **parts: Any) -> httpx2.Response:
        return await self.client.post("/agent/v1/sync", json=self.body(**parts))

    async def sync(self, **parts: Any) -> dict[str, Any]:
        response = await self.post(**parts)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer


async def join_token(site: Site) -> str:
    new = NewToken(
        name="join",
        roles=("join",),
        projects=("default",),
        scopes=(Operation.AGENTS_ENROL.value,),
        kind=TokenKind.JOIN,
        uses=100,
        expires_in_seconds=3_600.0,
    )
    return (await site.tokens.create(new, By("test"))).secret


@asynccontextmanager
async def host(site: Site, name: str = "web-1") -> AsyncIterator[Host]:
    async with site.client(await join_token(site)) as joining:
        body = {"host": name, "boot_id": "b0", "journal_id": "j0", "version": "1"}
        response = await joining.post("/agent/v1/enrol", json=body)
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
    enrolled = response.json()
    async with site.client(enrolled["credential"], timeout=SECONDS) as client:
        yield Host(site, client, enrolled)


async def job(site: Site, *hosts: Host, **fields: Any) -> list[str]:
    """A job whose executions wait for these hosts."""
    request = JobRequest(command_type="exec", command="true", hosts=["x"])
    spec = check_request(request, RULES.command_types, RULES)
    return await add_job(site.store, [one.id for one in hosts], spec_json=stored(spec), **fields)


async def held(site: Site, agent: Host) -> asyncio.Task[dict[str, Any]]:
    """A poll that the server holds, and its answer."""
    task = asyncio.create_task(agent.sync(wait_seconds=25))
    await is_held(site, task)
    return task


async def polling(site: Site, agent: Host) -> asyncio.Task[httpx2.Response]:
    """The same, answered or refused."""
    task = asyncio.create_task(agent.post(wait_seconds=25))
    await is_held(site, task)
    return task


async def is_held(site: Site, task: asyncio.Task[Any]) -> None:
    async with site.client() as admin, asyncio.timeout(SECONDS):
        while "holdfast_agent_polls_held 1" not in (await admin.get("/metrics")).text:
            assert not task.done(), task.result()


async def test_an_execution_over_http(site: Site) -> None:
    async with host(site) as agent:
        [execution] = await job(site, agent)
        answer = await agent.sync()
        [offer] = answer["offers"]
        assert (offer["execution"], offer["token"], offer["argv"]) == (execution, 1, ["true"])
        assert answer["heartbeat_seconds"] <= 25
        ref = {"execution": execution, "token": 1}
        assert (await agent.sync(accepts=[ref]))["go"] == [ref]
        chunk = {**ref, "stream": "stdout", "start": 0, "data_base64": b64encode(b"hi").decode()}
        result = {**ref, "id": "r1", "state": "exited", "exit_code": 0, "sizes": {"stdout": 2}}
        answer = await agent.sync(chunks=[chunk], results=[result])
        assert answer["acks"] == ["r1"]
        assert (await get_task(site.store, execution)).status is Status.COMPLETED


async def test_a_held_poll_is_answered_when_work_comes(site: Site) -> None:
    async with host(site) as agent:
        task = await held(site, agent)
        [execution] = await job(site, agent, is_admitted=False)
        await site.store.apply([Instruction(execution, Admit())])
        answer = await asyncio.wait_for(task, SECONDS)
        assert [one["execution"] for one in answer["offers"]] == [execution]


async def test_a_held_poll_hears_that_its_run_is_cancelled(site: Site) -> None:
    async with host(site) as agent:
        [execution] = await job(site, agent)
        await agent.sync()
        ref = {"execution": execution, "token": 1}
        await agent.sync(accepts=[ref])
        running = [{**ref, "phase": "started"}]
        task = asyncio.create_task(agent.sync(running=running, wait_seconds=25))
        await site.store.apply([Instruction(execution, Abort("user:ann", "wrong"))])
        answer = await asyncio.wait_for(task, SECONDS)
        assert [one["type"] for one in answer["commands"]] == ["ABORT"]
        assert (await slot_of(site.store, agent.id))[1] == execution


async def test_a_newer_poll_ends_the_older_one(site: Site) -> None:
    async with host(site) as agent:
        task = await held(site, agent)
        answer = await agent.sync()
        assert not answer["offers"]
        assert (await asyncio.wait_for(task, SECONDS))["seq"] == 1


async def test_a_server_that_stops_answers_what_it_holds(url: str) -> None:
    async with open_site(url) as site, host(site) as agent:
        task = await held(site, agent)
        site.server.stop()
        assert (await asyncio.wait_for(task, SECONDS))["seq"] == 1


async def test_a_start_fences_the_incarnation_before(site: Site) -> None:
    async with host(site) as agent:
        response = await agent.client.post(
            "/agent/v1/start", json={"boot_id": "b0", "journal_id": "j0"}
        )
        assert response.json()["incarnation"] == 2
        assert problem(await agent.post()) == (409, "node-fenced")
        agent.incarnation = 2
        await agent.sync()


@pytest.mark.parametrize(
    ("parts", "refused"),
    [
        ({"unknown": 1}, (422, "invalid-input")),
        ({"seq": -1}, (422, "invalid-input")),
        ({"accepts": [{"execution": "e", "token": 1}] * 501}, (413, "batch-too-large")),
        (
            {"results": [{"id": "r", "execution": "e", "token": 1, "state": "x"}]},
            (422, "invalid-input"),
        ),
        (
            {
                "chunks": [
                    {
                        "execution": "e",
                        "token": 1,
                        "stream": "stdout",
                        "start": 0,
                        "data_base64": "?",
                    }
                ]
            },
            (422, "invalid-input"),
        ),
    ],
)
async def test_a_bad_message_is_refused_and_changes_nothing(
    site: Site, parts: dict[str, Any], refused: tuple[int, str]
) -> None:
    async with host(site) as agent, host(site, "web-2") as other:
        [execution] = await job(site, other)
        bad, good = await asyncio.gather(agent.post(**parts), other.post())
        assert problem(bad) == refused
        assert good.json()["offers"][0]["execution"] == execution


async def test_bodies_are_bounded(site: Site) -> None:
    async with host(site) as agent:
        reason = "x" * 5_000_000
        assert problem(await agent.post(boot_id=reason)) == (413, "too-large")
        data = b64encode(b"x" * 262_145).decode()
        chunk = {"execution": "e", "token": 1, "stream": "stdout", "start": 0, "data_base64": data}
        assert problem(await agent.post(chunks=[chunk])) == (413, "too-large")


async def test_only_agents_sync_and_only_join_tokens_enrol(site: Site) -> None:
    async with host(site) as agent:
        async with site.client() as admin:
            assert problem(await admin.post("/agent/v1/sync", json=agent.body()))[0] == 403
        body = {"host": "web-9", "boot_id": "b", "journal_id": "j"}
        assert problem(await agent.client.post("/agent/v1/enrol", json=body))[0] == 403
        assert problem(await agent.client.get("/api/v1/tasks"))[0] == 403
    async with site.client("hf_agent_" + "x" * 43) as stranger:
        assert problem(await stranger.post("/agent/v1/sync", json=agent.body()))[0] == 401


async def test_the_same_messages_over_a_websocket(site: Site) -> None:
    async with host(site) as agent, websocket(site, agent) as socket:
        await socket.send_json(agent.body(wait_seconds=25))
        [execution] = await job(site, agent)
        await socket.send_json(agent.body())
        answers = {answer["seq"]: answer for answer in [await socket.next(), await socket.next()]}
        offers = [offer for answer in answers.values() for offer in answer["offers"]]
        assert {(one["execution"], one["token"]) for one in offers} == {(execution, 1)}
        await socket.send_json(agent.body(seq=-1))
        refused = await socket.next()
        assert refused["error"]["code"] == "invalid-input"
        await socket.send_json(agent.body(incarnation=7))
        assert await socket.closed() == 4409


async def revoke(site: Site, agent: Host) -> None:
    token = await site.tokens.find(agent.credential)
    assert token is not None
    await site.tokens.revoke(token.id, By("test"))


async def revoke_node(site: Site, agent: Host) -> None:
    await Nodes(site.store).set_state(agent.id, NodeState.REVOKED, By("test"))


async def remove_host(site: Site, agent: Host) -> None:
    await Hosts(site.store).remove(agent.id, By("test"))


@pytest.mark.parametrize("end", [revoke, revoke_node, remove_host])
async def test_a_credential_that_ends_ends_what_waits_for_it(
    url: str, end: Callable[[Site, Host], Awaitable[None]]
) -> None:
    """At each gateway, and without another message of the agent."""
    async with AsyncExitStack() as stack:
        site, other = [await stack.enter_async_context(open_site(url)) for _ in range(2)]
        agent = await stack.enter_async_context(host(site))
        poll = await polling(site, agent)
        socket = await stack.enter_async_context(websocket(other, agent))
        await end(site, agent)
        # Whether its token or its node is looked at first.
        refused = problem(await asyncio.wait_for(poll, SECONDS))
        assert refused in ((401, "unauthenticated"), (409, "node-fenced"))
        assert await socket.closed() in (4401, 4409)
        assert " " in (socket.connection.close_reason or ""), "a text that says what to do"


async def test_a_quarantined_agent_is_cut_off(site: Site) -> None:
    async with host(site) as agent:
        poll = await polling(site, agent)
        await Nodes(site.store).set_state(agent.id, NodeState.QUARANTINED, By("test"))
        assert problem(await asyncio.wait_for(poll, SECONDS)) == (409, "node-fenced")


async def test_agents_are_not_counted_as_nodes_that_run_tasks(site: Site) -> None:
    async with host(site) as agent, site.client() as admin:
        before = (await admin.get("/api/v1/stats")).json()["nodes"]
        async with host(site, "web-2"):
            listed = (await admin.get("/api/v1/nodes")).json()["items"]
            runners = (await admin.get("/api/v1/nodes?agents=false")).json()["items"]
            assert agent.id in {node["id"] for node in listed}
            assert (await admin.get("/api/v1/stats")).json()["nodes"] == before == len(runners)
            assert len(listed) == before + 2


class Socket:
    def __init__(self, connection: websockets.ClientConnection) -> None:
        self.connection = connection

    async def send_json(self, body: dict[str, Any]) -> None:
        await self.connection.send(json.dumps(body))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = json.loads(await self.connection.recv())
        return frame

    async def closed(self) -> int | None:
        async with asyncio.timeout(SECONDS):
            await self.connection.wait_closed()
        return self.connection.close_code


@asynccontextmanager
async def websocket(site: Site, agent: Host) -> AsyncIterator[Socket]:
    async with websockets.connect(
        site.listening.url.replace("http", "ws") + "/agent/v1/ws",
        additional_headers={"Authorization": f"Bearer {agent.credential}"},
        subprotocols=[websockets.Subprotocol("holdfast.agent.v1")],
        proxy=None,
    ) as connection:
        yield Socket(connection)
