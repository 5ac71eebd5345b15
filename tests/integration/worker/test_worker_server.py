"""Worker sync in a whole server: credentials, origins, tickets, commands, the stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from starlette.requests import HTTPConnection

from holdfast.core import close_codes
from holdfast.core.errors import NodeFenced
from holdfast.core.token import TokenKind
from holdfast.core.worker import wire
from holdfast.gateway.rest import body
from holdfast.gateway.worker.door import Admitted, WorkerDoor
from holdfast.queue.by import By
from holdfast.sync.access.tokens import NewToken
from tests.integration.worker.served import ADMIN, Site, open_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(f"sqlite:///{tmp_path}/holdfast.db") as made:
        yield made


async def enqueue(site: Site) -> str:
    async with site.client() as client:
        made = await client.post("/api/v1/tasks", json={"type": "work"})
        task_id: str = made.json()["task"]["id"]
        return task_id


async def test_a_task_is_run_over_grpc(site: Site) -> None:
    _, secret = await site.node_token("w1")
    async with site.grpc(secret) as worker:
        welcome = await worker.hello()
        # The ask waits; the task arrives later and ends the wait by a hint.
        await worker.send(wire.Ask(claim_id="c", slots=1, wait_ms=20_000))
        task_id = await enqueue(site)
        offer = await worker.expect(wire.Offer)
        (task,) = offer.tasks
        assert task.task_id == task_id
        done = wire.TaskChange(
            task_id=task_id, fence=task.fence, status="completed", result_json="[7]"
        )
        chunk = wire.OutputChunk(task_id=task_id, fence=task.fence, data=b"done\n")
        await worker.send(
            wire.SyncMessage(
                sequence=1,
                incarnation=welcome.incarnation,
                changes=wire.Changes(task=(done,), output=(chunk,)),
            )
        )
        ack = await worker.expect(wire.SyncAck)
        assert (ack.accepted, ack.refused) == (True, ())
    async with site.client() as client:
        shown = (await client.get(f"/api/v1/tasks/{task_id}")).json()
        assert (shown["status"], shown["result"]) == ("completed", [7])
        raw = await client.get(f"/api/v1/tasks/{task_id}/output", headers={"Accept": "text/plain"})
        assert raw.content == b"done\n"


async def test_rights_are_those_of_the_table(site: Site) -> None:
    viewer = (await site.tokens.create(NewToken(name="v", roles=("viewer",)), By("t"))).secret
    for token, status in (
        (viewer, grpc.StatusCode.PERMISSION_DENIED),
        ("hf_node_" + "x" * 43, grpc.StatusCode.UNAUTHENTICATED),
        ("", grpc.StatusCode.UNAUTHENTICATED),
    ):
        async with site.grpc(token) as worker:
            assert await worker.receive() is None
            assert await worker.status() is status
    for token, code in ((viewer, 4403), ("hf_node_" + "x" * 43, 4401), ("", 4401)):
        async with site.websocket(token) as socket:
            assert await socket.closed() == code
        async with site.client(token or "-") as client:
            answer = await client.post("/api/v1/worker/sync", json={"messages": []})
            assert answer.status_code == code - 4000
    # An administrator speaks for the node that it names, a node only for itself.
    async with site.grpc(ADMIN) as worker:
        assert (await worker.hello(worker_id="w9")).node == "w9"
    _, secret = await site.node_token("w1")
    async with site.grpc(secret) as worker:
        await worker.send(wire.Hello(worker_id="w9", types=("work",)))
        assert await worker.receive() is None
        assert await worker.status() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_worker_gets_and_changes_tasks_of_one_project_only(site: Site) -> None:
    task_id = await enqueue(site)
    _, secret = await site.node_token("w1", projects=("shop",))
    async with site.grpc(secret) as worker:
        welcome = await worker.hello()
        await worker.send(wire.Ask(claim_id="c", slots=1))
        assert (await worker.expect(wire.Offer)).tasks == ()
        done = wire.TaskChange(task_id=task_id, fence=1, status="completed", result_json="1")
        await worker.send(
            wire.SyncMessage(
                sequence=1, incarnation=welcome.incarnation, changes=wire.Changes(task=(done,))
            )
        )
        ack = await worker.expect(wire.SyncAck)
        assert [refused.code for refused in ack.refused] == ["not-found"]
    async with site.client() as client:
        assert (await client.get(f"/api/v1/tasks/{task_id}")).json()["status"] == "queued"


async def test_a_revoked_token_ends_its_streams(site: Site) -> None:
    token_id, secret = await site.node_token("w1")
    _, other = await site.node_token("w2")
    async with site.grpc(secret) as worker, site.grpc(other) as bystander:
        await worker.hello()
        await bystander.hello()
        async with site.client() as client:
            assert (await client.delete(f"/api/v1/tokens/{token_id}")).status_code in (200, 204)
        assert await worker.receive() is None
        assert await worker.status() is grpc.StatusCode.UNAUTHENTICATED
        await bystander.send(wire.Ping(n=1))
        assert (await bystander.expect(wire.Pong)).n == 1


async def test_a_quarantined_node_gets_one_answer_everywhere(site: Site) -> None:
    _, secret = await site.node_token("w1")
    async with site.websocket(secret) as socket, site.client() as client:
        welcome = await socket.ask({"type": "hello", "types": ["work"], "bootId": "boot"})
        assert welcome["type"] == "welcome"
        await client.post("/api/v1/nodes/w1/quarantine", json={"reason": "odd"})
        assert await socket.closed() == close_codes.NOT_SPEAKING
    async with site.websocket(secret) as socket:
        assert await socket.closed() == close_codes.NOT_SPEAKING
    async with site.grpc(secret) as worker:
        assert await worker.receive() is None
        assert (await worker.status()).name == NodeFenced.grpc_status
    async with site.client(secret) as client:
        answers = [
            await client.post("/api/v1/worker/sync", json={"messages": []}),
            await client.get("/api/v1/stream", params={"topics": "project:default"}),
            await client.get("/api/v1/tasks"),
        ]
        said = [(answer.status_code, answer.json()["code"]) for answer in answers]
        assert said == [(409, "node-fenced")] * 3


async def test_a_page_of_another_origin_is_refused_and_a_ticket_counts_once(site: Site) -> None:
    async with site.websocket(ADMIN, Origin="https://elsewhere.example") as socket:
        assert await socket.closed() == 4403
    async with site.client() as client:
        answer = await client.post(
            "/api/v1/worker/sync",
            json={"messages": []},
            headers={"Origin": "https://elsewhere.example"},
        )
        assert answer.status_code == 403
        ticket = (await client.post("/api/v1/ws-tickets")).json()["ticket"]
    hello = {"type": "hello", "workerId": "w1", "types": ["work"], "queues": ["default"]}
    async with site.websocket(query=f"?ticket={ticket}") as socket:
        assert (await socket.ask(hello))["type"] == "welcome"
    async with site.websocket(query=f"?ticket={ticket}") as socket:
        assert await socket.closed() == 4401


async def test_the_answer_to_a_question_goes_down_at_once(site: Site) -> None:
    """And again with a renewal, until a worker has claimed the task."""
    task_id = await enqueue(site)
    _, secret = await site.node_token("w1")
    async with site.grpc(secret) as worker:
        welcome = await worker.hello()
        await worker.send(wire.Ask(claim_id="c", slots=1))
        (task,) = (await worker.expect(wire.Offer)).tasks
        asked = wire.DecisionAsk(key="go", question="Go?", options=("yes", "no"))
        point = wire.CheckpointChange(
            task_id=task_id, fence=task.fence, checkpoint_id="dec_1", decision=asked
        )
        changes = wire.Changes(checkpoint=(point,))
        message = wire.SyncMessage(sequence=1, incarnation=welcome.incarnation, changes=changes)
        await worker.send(message)
        assert (await worker.expect(wire.SyncAck)).refused == ()
        async with site.client() as client:
            made = await client.post("/api/v1/decisions/dec_1", json={"choice": "yes"})
            assert made.status_code == 200, made.text
        answer = await worker.expect(wire.Decided)
        assert (answer.task_id, answer.decision_id) == (task_id, "dec_1")
        assert (answer.choice_json, answer.by) == ('"yes"', made.json()["by"])
        await worker.send(wire.Renew())
        await worker.expect(wire.Renewed)
        assert await worker.expect(wire.Decided) == answer
        await worker.send(wire.Ask(claim_id="d", slots=1))
        (again,) = (await worker.expect(wire.Offer)).tasks
        assert '"choice":"yes"' in again.decisions_json
        await worker.send(wire.Renew())
        await worker.expect(wire.Renewed)
        await worker.send(wire.Ping(n=1))
        assert isinstance(await worker.receive(), wire.Pong)


async def test_a_command_goes_down_at_once(site: Site) -> None:
    task_id = await enqueue(site)
    _, secret = await site.node_token("w1")
    async with site.grpc(secret) as worker:
        await worker.hello()
        await worker.send(wire.Ask(claim_id="c", slots=1))
        (task,) = (await worker.expect(wire.Offer)).tasks
        async with site.client() as client:
            path = f"/api/v1/tasks/{task_id}/interventions"
            made = await client.post(path, json={"type": "ABORT", "reason": "wrong input"})
            assert made.status_code == 200, made.text
        command = await worker.expect(wire.CommandFrame)
        assert (command.kind, command.task_id, command.fence) == ("ABORT", task_id, task.fence)
        await worker.send(wire.CommandAck(id=command.id, outcome="done"))
        await worker.send(wire.Ping(n=1))
        await worker.expect(wire.Pong)
        async with site.client() as client:
            rows = (await client.get(path)).json()["items"]
            assert [row["state"] for row in rows] == ["applied"]


async def test_a_stop_drains_workers(tmp_path: Path) -> None:
    async with open_site(f"sqlite:///{tmp_path}/holdfast.db") as site:
        _, secret = await site.node_token("w1")
        async with site.grpc(secret) as worker, site.websocket(ADMIN) as socket:
            await worker.hello()
            hello = {"type": "hello", "workerId": "w2", "types": ["work"], "queues": ["default"]}
            assert (await socket.ask(hello))["type"] == "welcome"
            site.server.stop()
            assert (await worker.expect(wire.DrainFrame)).within_ms > 0
            assert (await socket.receive())["type"] == "drain"
            assert await worker.receive() is None
            assert await worker.status() is grpc.StatusCode.UNAVAILABLE
            assert await socket.closed() == 4503


async def test_a_join_token_makes_a_node(site: Site) -> None:
    join = NewToken(name="j", roles=("join",), kind=TokenKind.JOIN, uses=1)
    secret = (await site.tokens.create(join, By("test"))).secret
    async with site.grpc(secret) as worker:
        welcome = await worker.hello(worker_id="fresh")
        assert welcome.credential.startswith("hf_node_")
    async with site.grpc(welcome.credential) as worker:
        assert (await worker.hello()).node == "fresh"


DEFINED = json.dumps([{"name": "work", "queue": "default", "options": {"max_attempts": 5}}])


async def test_a_definition_of_a_worker_is_the_act_of_its_node(site: Site) -> None:
    """A node cannot speak in the name of a person, whatever its own name is."""
    _, secret = await site.node_token("user:admin")
    async with site.grpc(secret) as worker:
        await worker.hello(definitions_json=DEFINED)
    async with site.client() as client:
        rows = (await client.get("/api/v1/audit")).json()["items"]
    assert [row["actor"] for row in rows if row["subject"] == "type:work"] == ["node:user:admin"]


@pytest.mark.parametrize(
    ("definitions", "said"),
    [
        ('[{"name": 5}]', "definitionsJson"),
        ('[{"name": "work", "options": {"newer": 1}}]', "upgrade the gateway first"),
    ],
)
async def test_a_hello_with_wrong_definitions_starts_no_incarnation(
    site: Site, definitions: str, said: str
) -> None:
    _, secret = await site.node_token("w1")
    async with site.grpc(secret) as worker:
        await worker.send(wire.Hello(types=("work",), definitions_json=definitions))
        refused = await worker.expect(wire.ErrorFrame)
        assert refused.code == "invalid-input"
        assert said in refused.detail
    async with site.grpc(secret) as worker:
        assert (await worker.hello(definitions_json=DEFINED)).incarnation == 1


async def test_a_token_must_count_when_the_body_of_a_worker_has_come(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may begin a request, and ask for tasks when its token has been revoked for hours."""
    monkeypatch.setattr(body, "SLOW_SECONDS", 0.0)
    let_in, inner = asyncio.Event(), WorkerDoor.by_connection

    async def by_connection(self: WorkerDoor, connection: HTTPConnection) -> Admitted:
        admitted = await inner(self, connection)
        let_in.set()
        return admitted

    monkeypatch.setattr(WorkerDoor, "by_connection", by_connection)
    token_id, secret = await site.node_token("w1")

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"messages": '
        await asyncio.wait_for(let_in.wait(), 20)
        await site.tokens.revoke(token_id, By("test"))
        yield b'[{"type": "hello", "types": ["work"], "bootId": "b"}]}'

    async with site.client(secret) as client:
        answer = await client.post("/api/v1/worker/sync", content=slowly())
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
