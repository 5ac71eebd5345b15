"""Role x operation x transport: the table of `core.rights` on connections that stay open, by real requests.

REST and /api/v2/sync have every route in test_rights.py and test_sync_rights.py. Here: the feed by WebSocket,
by server-sent events and by long poll; worker sync by gRPC, WebSocket and HTTP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import websockets

from holdfast.core.rights import RIGHTS, Operation, Right, Role
from holdfast.core.token import TokenKind
from holdfast.core.worker import wire
from holdfast.queue.by import By
from holdfast.sync.access.tokens import NewToken
from tests.integration.gateway.test_rights import KIND_OF
from tests.integration.worker.served import ADMIN, Site, open_site
from tests.integration.worker.support import WsWorker

O = Operation  # noqa: E741
OURS, THEIRS = "web", "shop"
NODE = {OURS: "w-web", THEIRS: "w-shop"}
ROLES = [role for role in Role if role in KIND_OF]
HELLO = {"type": "hello", "workerId": "", "types": ["work"], "queues": ["default"]}


class World:
    """A server with a task and a node in each of two projects."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.tasks: dict[str, str] = {}

    async def prepare(self) -> None:
        async with self.site.client() as client:
            for project in (OURS, THEIRS):
                node = {"nodeId": NODE[project], "projectId": project}
                made = await client.post("/api/v2/sync/nodes/register", json=node)
                assert made.status_code == 200, made.text
                task = {"type": "work", "project": project, "payload": {"of": project}}
                made = await client.post("/api/v1/tasks", json=task)
                self.tasks[project] = made.json()["task"]["id"]

    async def token(self, role: Role, **options: Any) -> str:
        kind = KIND_OF[role]
        new = NewToken(
            name=role.value,
            roles=(role.value,),
            kind=kind,
            projects=(OURS,),
            node_id=NODE[OURS] if kind is TokenKind.NODE else None,
            **options,
        )
        return (await self.site.tokens.create(new, By("test"))).secret

    @asynccontextmanager
    async def watching(self, token: str) -> AsyncIterator[websockets.ClientConnection]:
        async with websockets.connect(
            self.site.listening.url.replace("http", "ws") + "/api/v1/ws",
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=[websockets.Subprotocol("holdfast.v1")],
            proxy=None,
        ) as socket:
            yield socket


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_site(f"sqlite:///{tmp_path}/holdfast.db") as site:
        made = World(site)
        await made.prepare()
        yield made


@pytest.fixture
async def strict_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """The bounds of addresses do not recover during the test."""
    monkeypatch.setattr("holdfast.gateway.auth.addresses.PER_SECOND", 1e-6)
    async with open_site(f"sqlite:///{tmp_path}/holdfast.db") as site:
        made = World(site)
        await made.prepare()
        yield made


def channels(world: World) -> dict[str, tuple[Operation, str, str | None]]:
    """Channel: the operation that it needs, the project of its object, the node that owns the object."""
    table: dict[str, tuple[Operation, str, str | None]] = {}
    for project in (OURS, THEIRS):
        table[f"project:{project}"] = (O.EVENTS_READ, project, None)
        table[f"task:{world.tasks[project]}"] = (O.EVENTS_READ, project, None)
        table[f"node:{NODE[project]}"] = (O.NODES_READ, project, NODE[project])
    table["queue:default"] = (O.QUEUES_READ, OURS, None)
    table["system:events"] = (O.EVENTS_READ, "all", None)
    return table


def expected(role: Role, operation: Operation, project: str, owner: str | None) -> int:
    """The status of a request: 200, 403 or, for an object of a foreign project, 404."""
    right = RIGHTS[role, operation]
    if right is Right.DENIED:
        return 403
    if project != OURS:
        return 404
    return 200 if right is Right.ALLOWED or owner == NODE[OURS] else 403


STATUS = {"forbidden": 403, "not-found": 404}


async def by_websocket(socket: websockets.ClientConnection, channel: str) -> int:
    await socket.send(json.dumps({"type": "subscribe", "channel": channel}))
    while True:
        frame = json.loads(await socket.recv())
        if frame["type"] == "subscribed" and frame["id"] == channel:
            return 200
        if frame["type"] == "error":
            return STATUS[frame["code"]]


@pytest.mark.parametrize("role", ROLES)
async def test_each_channel_by_websocket_and_stream(world: World, role: Role) -> None:
    token = await world.token(role)
    async with world.watching(token) as socket, world.site.client(token) as client:
        assert json.loads(await socket.recv())["type"] == "hello"
        for channel, needs in channels(world).items():
            assert await by_websocket(socket, channel) == expected(role, *needs), channel
            async with client.stream("GET", f"/api/v1/stream?topics={channel}") as stream:
                assert stream.status_code == expected(role, *needs), channel


@pytest.mark.parametrize("role", ROLES)
async def test_worker_sync_by_each_transport(world: World, role: Role) -> None:
    """A node runs tasks as itself, an administrator as a node that it names, a join token as a new one."""
    token = await world.token(role, uses=3 if KIND_OF[role] is TokenKind.JOIN else None)
    may_run = RIGHTS[role, O.SYNC_RUN] is not Right.DENIED or role is Role.JOIN
    for transport in ("grpc", "ws", "http"):
        name = "" if role is Role.WORKER else f"new-{transport}"
        hello = {**HELLO, "workerId": name}
        if transport == "grpc":
            async with world.site.grpc(token) as worker:
                if may_run:
                    assert (await worker.hello(worker_id=name)).node == name or NODE[OURS]
                else:
                    assert await worker.receive() is None
                    assert await worker.status() is grpc.StatusCode.PERMISSION_DENIED
        elif transport == "ws":
            async with world.site.websocket(token) as socket:
                if may_run:
                    assert (await socket.ask(hello))["type"] == "welcome"
                else:
                    assert await socket.closed() == 4403
        else:
            async with world.site.client(token) as client:
                answer = await client.post("/api/v1/worker/sync", json={"messages": [hello]})
                assert answer.status_code == (200 if may_run else 403)


async def test_a_reader_gets_events_of_its_projects_only(world: World) -> None:
    """By topic, query, stream, long poll and REST: no event, snapshot or count of another project."""
    token = await world.token(Role.VIEWER)
    texts = []
    async with world.watching(token) as socket, world.site.client(token) as client:
        head = (await client.get("/api/v1/events")).json()["head"]
        start = f"{head.partition(':')[0]}:0"
        wishes = [
            {"channel": f"project:{OURS}", "position": start},
            {"channel": "queue:default", "position": start, "id": "q1"},
            {"channel": "queue:default", "id": "q2"},
            {"query": "type:work", "position": start, "id": "by query"},
        ]
        for wish in wishes:
            await socket.send(json.dumps({"type": "subscribe", **wish}))
            texts.append("")
            while '"live":true' not in texts[-1]:
                texts.append(str(await socket.recv()))
        for path, more in (("stream", {"topics": f"project:{OURS}"}), ("events", {})):
            query = "&".join(f"{k}={v}" for k, v in {"after": start, **more}.items())
            async with client.stream("GET", f"/api/v1/{path}?{query}") as stream:
                async for line in stream.aiter_lines():
                    texts.append(line)
                    if "live" in line:
                        break
        paths = ("tasks", "queues", "stats", "nodes", "projects")
        texts += [(await client.get(f"/api/v1/{path}")).text for path in paths]
    everything = "".join(texts)
    assert world.tasks[OURS] in everything
    for foreign in (world.tasks[THEIRS], NODE[THEIRS], f'"{THEIRS}"'):
        assert foreign not in everything
    snapshots = [json.loads(text) for text in texts if '"type":"snapshot"' in text]
    (queue,) = [frame["payload"] for frame in snapshots if frame["id"] == "q2"]
    assert queue.get("counts", queue)["queued"] == 1


@pytest.mark.parametrize("how", ["revoke", "rotate", "expire"])
async def test_a_token_that_ends_closes_its_connections(
    world: World, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of open connection ends: at once after an event of the token, else at the next check."""
    if how == "expire":
        monkeypatch.setattr("holdfast.gateway.feed.connection.RECHECK_SECONDS", 0.2)
        monkeypatch.setattr("holdfast.gateway.worker.credential.RECHECK_SECONDS", 0.2)
    site = world.site
    life = 2.0 if how == "expire" else None
    kinds = (
        NewToken(name="v", roles=("viewer",), projects=(OURS,), expires_in_seconds=life),
        NewToken(name="n", roles=("worker",), kind=TokenKind.NODE, node_id=NODE[OURS],
                 projects=(OURS,), expires_in_seconds=life),
    )  # fmt: skip
    (viewer, node) = [await site.tokens.create(new, By("test")) for new in kinds]
    async with (
        world.watching(viewer.secret) as socket,
        site.client(viewer.secret) as client,
        site.grpc(node.secret) as by_grpc,
        site.client() as admin,
        client.stream("GET", f"/api/v1/stream?topics=project:{OURS}") as stream,
    ):
        await by_grpc.hello()
        for made in (viewer, node):
            if how == "revoke":
                await admin.delete(f"/api/v1/tokens/{made.token.id}")
            elif how == "rotate":
                await admin.post(f"/api/v1/tokens/{made.token.id}/rotate")
        async with asyncio.timeout(30):
            assert await WsWorker(socket).closed() == 4401
            assert "bye" in "".join([line async for line in stream.aiter_lines()])
            while await by_grpc.receive() is not None:
                pass
            assert await by_grpc.status() is grpc.StatusCode.UNAUTHENTICATED


async def test_wrong_credentials_slow_their_address_down_on_every_transport(
    strict_world: World,
) -> None:
    """The address is refused before its credential is looked up. A token that was accepted goes on."""
    world = strict_world
    good = await world.token(Role.VIEWER)
    wrong = "hf_user_" + "x" * 43
    async with world.site.client(good) as client, world.site.client(wrong) as guessing:
        assert (await client.get("/api/v1/whoami")).status_code == 200
        statuses = [(await guessing.get("/api/v1/whoami")).status_code for _ in range(21)]
        assert statuses == [401] * 20 + [429]
        refused = await guessing.get("/api/v1/whoami")
        assert (refused.status_code, refused.json()["code"]) == (429, "rate-limited")
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await guessing.get("/api/v1/stream?topics=system:events")).status_code == 429
        async with world.site.websocket(wrong) as socket:
            assert await socket.closed() == 4429
        async with world.site.websocket(query="?ticket=none") as socket:
            assert await socket.closed() == 4429
        async with world.site.grpc(wrong) as worker:
            assert await worker.receive() is None
            assert await worker.status() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await client.get("/api/v1/whoami")).status_code == 200
    async with world.site.client(ADMIN) as admin:
        assert (await admin.get("/api/v1/whoami")).status_code == 200


async def test_tickets_and_registrations_are_bounded_by_address(strict_world: World) -> None:
    world = strict_world
    viewer, join = await world.token(Role.VIEWER), await world.token(Role.JOIN, uses=100)
    async with world.site.client(viewer) as client, world.site.client(join) as joining:
        codes = [(await client.post("/api/v1/ws-tickets")).status_code for _ in range(51)]
        assert codes == [201] * 50 + [429]
        node = {"nodeId": "n", "projectId": OURS}
        refused = await joining.post("/api/v2/sync/nodes/register", json=node)
        assert refused.status_code == 429
        async with world.site.grpc(join) as worker:
            assert await worker.receive() is None
            assert await worker.status() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_token_has_50_connections_over_all_transports(world: World) -> None:
    token = await world.token(Role.WORKER)
    async with world.watching(token) as first:
        assert json.loads(await first.recv())["type"] == "hello"
        sockets = []
        try:
            for _ in range(49):
                manager = world.watching(token)
                sockets.append((manager, await manager.__aenter__()))
            async with world.site.websocket(token) as socket:
                assert await socket.closed() == 4429
            async with world.site.grpc(token) as worker:
                assert await worker.receive() is None
                assert await worker.status() is grpc.StatusCode.RESOURCE_EXHAUSTED
            async with world.site.client(token) as client:
                full = await client.get(f"/api/v1/stream?topics=project:{OURS}")
                assert full.status_code == 429
        finally:
            for manager, _ in sockets:
                await manager.__aexit__(None, None, None)
    # The places are free again.
    async with world.site.grpc(token) as worker:
        assert isinstance(await worker.hello(), wire.Welcome)
