"""Worker sync as JSON: over WebSocket and over plain HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest
import websockets

from holdfast.core.task import Status
from holdfast.core.worker.wire import CommandFrame
from holdfast.gateway.worker.websocket import FRAME_BYTES_MAX
from holdfast.sync.worker import reads
from tests.conformance.tasks.helpers import put
from tests.integration.worker.support import Gateway, WsWorker, ws_worker

HELLO = {"type": "hello", "types": ["work"], "queues": ["default"], "bootId": "boot"}
SEED = {
    "type": "sync",
    "workerId": "w1",
    "sequence": 1,
    "changes": {
        "task": {"taskId": "t", "status": "running", "progress": 0.4, "phase": "test"},
        "output": [{"taskId": "t", "data": "ok\n", "stream": "stdout"}],
        "metrics": {"taskId": "t", "tokensUsed": 1200, "cost": 0.03},
    },
    "timestamp": 1763237251123,
}


async def claimed(gateway: Gateway, worker: WsWorker) -> None:
    await put(gateway.store, "t")
    assert (await worker.ask(HELLO))["type"] == "welcome"
    offer = await worker.ask({"type": "ask", "slots": 1, "claimId": "c", "leaseMs": "30000"})
    assert [task["taskId"] for task in offer["tasks"]] == ["t"]


async def test_the_message_of_the_seed_is_valid_as_it_stands(gateway: Gateway) -> None:
    """A bare object is a list of one, the fence is implied, and output goes to the end."""
    async with ws_worker(gateway) as worker:
        await claimed(gateway, worker)
        assert await worker.ask(SEED) == {
            "type": "ack",
            "accepted": True,
            "sequence": 1,
            "outputNext": {"t/1/stdout": 3},
        }
        again = await worker.ask(SEED)
        assert (again["accepted"], again["sequence"]) == (True, 1)
        raw = base64.b64encode(b"\xff\0").decode()
        output = [{"taskId": "t", "dataBase64": raw}, {"taskId": "t", "text": "é"}]
        ack = await worker.ask({"type": "sync", "sequence": "2", "changes": {"output": output}})
        assert ack["outputNext"] == {"t/1/stdout": 7}
        end = {"taskId": "t", "status": "completed", "resultJson": "[1]"}
        assert (await worker.ask({"type": "sync", "sequence": 3, "changes": {"task": end}}))[
            "accepted"
        ]
    task = (await gateway.store.reads.get(["t"]))["t"]
    assert (task.status, task.result) == (Status.COMPLETED, [1])
    pieces = await reads.output(gateway.store, "t", 1, "stdout")
    whole = b"".join(piece.data or b"" for piece in pieces)
    assert whole == b"ok\n\xff\0" + "é".encode()
    assert await gateway.store.reads.metrics("t") == {"tokens_used": 1200, "cost": 0.03}


async def test_commands_and_losses_have_their_frames(gateway: Gateway) -> None:
    async with ws_worker(gateway) as worker:
        await claimed(gateway, worker)
        gateway.commands.issue(CommandFrame(id="i", kind="ABORT", task_id="t", fence=1))
        frame = await worker.receive()
        assert (frame["type"], frame["commandType"], frame["fence"]) == ("command", "ABORT", 1)
        await worker.send({"type": "commandAck", "id": "i", "outcome": "done"})
        held = [{"taskId": "t", "fence": 1}, {"taskId": "x", "fence": 4}]
        assert (await worker.ask({"type": "renew", "held": held}))["kept"] == held[:1]
        assert await worker.receive() == {
            "type": "lost",
            "taskId": "x",
            "fence": 4,
            "reason": "gone",
        }


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "dance"}, "invalid-input"),
        ({"type": "ping", "n": "x"}, "invalid-input"),
        ({"type": "ping", "m": 1}, "invalid-input"),
        ({"type": "sync", "sequence": 1, "changes": {"task": 5}}, "invalid-input"),
        ({"type": "sync", "sequence": -1}, "invalid-input"),
        ({"type": "sync", "sequence": 2**60}, "invalid-input"),
        ({"type": "sync", "sequence": 1, "timestamp": 10**400}, "invalid-input"),
        ({"type": "sync", "sequence": 1, "timestamp": -1}, "invalid-input"),
        ({"type": "sync", "sequence": 1, "changes": {"output": {"data": "x"}}}, "invalid-input"),
        (
            {"type": "sync", "sequence": 1, "changes": {"output": {"taskId": "t", "data": 5}}},
            "invalid-input",
        ),
        (
            {
                "type": "sync",
                "sequence": 1,
                "changes": {"output": {"taskId": "t", "data": "x" * 32_769}},
            },
            "too-large",
        ),
        (
            {"type": "sync", "sequence": 1, "changes": {"task": [{"taskId": "t"}] * 501}},
            "batch-too-large",
        ),
        ({"type": "ask", "claimId": ""}, "invalid-input"),
        ({"type": "renew", "held": [{"taskId": "t"}] * 1_001}, "batch-too-large"),
    ],
)
async def test_a_refused_request_leaves_the_connection_open(
    gateway: Gateway, frame: dict[str, Any], code: str
) -> None:
    async with ws_worker(gateway) as worker:
        assert (await worker.ask(HELLO))["type"] == "welcome"
        answer = await worker.ask(frame)
        assert (answer["type"], answer["code"]) == ("error", code)
        assert (await worker.ask({"type": "ping", "n": 3}))["n"] == 3


@pytest.mark.parametrize(
    ("frame", "close"),
    [
        ("{", 4400),
        ("[]", 4400),
        ("5", 4400),
        (b"bytes", 4400),
        ("[" * 40 + "]" * 40, 4400),
        ('{"type":"ping","n":' + "[" * 2000, 4400),
        ("x" * (FRAME_BYTES_MAX + 1), 4413),
        ({"type": "hello", "workerId": "w2"}, 4403),
        ({"type": "hello", "incarnation": 7}, 4409),
        ({"type": "sync", "sequence": 1}, 4409),
        ({"type": "goodbye"}, 1000),
    ],
)
async def test_what_ends_a_connection_has_its_code(
    gateway: Gateway, frame: object, close: int
) -> None:
    async with ws_worker(gateway, "token-2") as other, ws_worker(gateway) as worker:
        await other.ask(HELLO)
        await worker.send(frame)
        assert await worker.closed() == close
        assert (await other.ask({"type": "ping", "n": 1}))["n"] == 1, "others are not affected"


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_connection_needs_a_token(gateway: Gateway, token: str) -> None:
    async with ws_worker(gateway, token) as worker:
        assert await worker.closed() == 4401


async def test_a_connection_names_the_subprotocol(gateway: Gateway) -> None:
    with pytest.raises(websockets.InvalidStatus):
        async with ws_worker(gateway, subprotocol="other"):
            pass


async def test_a_newer_connection_replaces_the_older_one(gateway: Gateway) -> None:
    async with ws_worker(gateway) as old, ws_worker(gateway) as new:
        assert (await old.ask(HELLO))["incarnation"] == 1
        assert (await new.ask({**HELLO, "incarnation": 1}))["incarnation"] == 1
        assert await old.closed() == 4409
        assert (await new.ask({"type": "ping", "n": 1}))["n"] == 1


async def post(gateway: Gateway, *messages: object, token: str = "token-1", **more: object) -> Any:
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = await client.post(
            f"http://127.0.0.1:{gateway.http_port}/api/v1/worker/sync",
            content=json.dumps({"messages": list(messages), **more}),
            headers={"Authorization": f"Bearer {token}"},
        )
    return response.status_code, response.json()


async def test_a_task_runs_over_http(gateway: Gateway) -> None:
    await put(gateway.store, "t")
    status, answer = await post(gateway, HELLO, {"type": "ask", "slots": 1, "claimId": "c"})
    assert status == 200
    welcome, offer = answer["messages"]
    assert (welcome["incarnation"], offer["tasks"][0]["taskId"]) == (1, "t")
    done = {**SEED, "incarnation": 1}
    end = {"type": "sync", "sequence": 2, "incarnation": 1}
    change = {"changes": {"task": {"taskId": "t", "fence": 1, "status": "completed"}}}
    for _ in range(2):  # the answer of the first request may be lost
        status, answer = await post(gateway, done, end | change)
        assert status == 200
        assert answer["messages"][-1]["sequence"] == 2
    assert (await gateway.store.reads.get(["t"]))["t"].status is Status.COMPLETED
    gateway.commands.issue(CommandFrame(id="i", kind="RESUME"))
    status, answer = await post(gateway, wait_seconds=5)
    assert [message["id"] for message in answer["messages"]] == ["i"]


async def test_a_node_that_its_hello_names_gets_its_commands_over_http(gateway: Gateway) -> None:
    """The token of an administrator belongs to no node."""
    status, answer = await post(gateway, {**HELLO, "workerId": "w9"}, token="admin")
    assert status == 200
    assert [message["type"] for message in answer["messages"]] == ["welcome"]
    gateway.commands.issue(CommandFrame(id="i", kind="RESUME"))
    named = {**HELLO, "workerId": "w9", "incarnation": 1}
    _, answer = await post(gateway, named, token="admin")
    assert [message["type"] for message in answer["messages"]] == ["welcome", "command"]
    assert gateway.commands.asked[-1] == "w9"


@pytest.mark.parametrize(
    ("messages", "more", "token", "status"),
    [
        ([{"type": "hello", "workerId": "w2"}], {}, "token-1", 403),
        ([{"type": "sync", "sequence": 1}], {}, "token-1", 404),
        ([{"type": "ping"}], {}, "wrong", 401),
        ([{"type": "ping"}] * 65, {}, "token-1", 413),
        ([], {"extra": 1}, "token-1", 400),
        ([], {"wait_seconds": "x"}, "token-1", 422),
        ([5], {}, "token-1", 400),
    ],
)
async def test_bad_requests_over_http(
    gateway: Gateway, messages: list[object], more: dict[str, object], token: str, status: int
) -> None:
    assert (await post(gateway, *messages, token=token, **more))[0] == status
