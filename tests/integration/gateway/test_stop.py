"""The stop of a server: what waits is answered, what is live is closed, what is away does not hold it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets

from holdfast import TaskQueue
from holdfast.core.worker import wire
from holdfast.gateway.server import Listening, Server
from holdfast.gateway.settings import ServerSettings
from proof.lab.proxy import Proxy

ADMIN = "hf_admin_" + "d" * 40
AUTH = {"Authorization": f"Bearer {ADMIN}"}
SECONDS = 60.0
"""A bound for what hangs, not a measure."""
HELLO = {"type": "hello", "workerId": "w1", "types": ["work"], "queues": ["empty"]}


async def work(_: object) -> None:
    return None


@pytest.mark.parametrize("loops", [False, True])
async def test_a_store_that_is_away_does_not_hold_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, loops: bool
) -> None:
    """Each part of the engine waits for the store with its own bound: the stop has one for all."""
    monkeypatch.setattr("holdfast.gateway.server.QUEUE_SECONDS", 0.05)
    queue = TaskQueue(f"sqlite:///{tmp_path}/holdfast.db")
    server = Server(queue, ServerSettings(port=0, admin_token=ADMIN), loops=loops)
    ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.run(ready.set_result))
    await ready
    stop = queue.stop

    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(queue, "stop", hang)
    server.stop()
    async with asyncio.timeout(SECONDS):
        await running
    assert "the store did not answer within 0.05 s" in caplog.text  # no task runs here
    await stop()


async def test_a_stop_answers_what_waits(tmp_path: Path, redis_url: str) -> None:
    async with Proxy(int(redis_url.rpartition(":")[2].partition("/")[0])) as redis:
        url = f"redis://127.0.0.1:{redis.port}/0"
        queue = TaskQueue(f"sqlite:///{tmp_path}/holdfast.db", redis=url)
        queue.register_handler("work", work)
        server = Server(queue, ServerSettings(port=0, admin_token=ADMIN, redis=url), loops=False)
        ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(server.run(ready.set_result))
        base = (await ready).url
        async with httpx2.AsyncClient(base_url=base, headers=AUTH, timeout=SECONDS) as client:
            made = await client.post("/api/v1/tasks", json={"type": "work", "delay_seconds": 900})
            task_id = made.json()["task"]["id"]
            waiting = [
                asyncio.create_task(client.request(method, f"/api/v1/{path}", **options))
                for method, path, options in long_polls(task_id)
            ]
            async with (
                websockets.connect(
                    base.replace("http", "ws") + "/api/v1/ws",
                    additional_headers=AUTH,
                    subprotocols=[websockets.Subprotocol("holdfast.v1")],
                    proxy=None,
                ) as watcher,
                websockets.connect(
                    base.replace("http", "ws") + "/api/v1/worker/ws",
                    additional_headers=AUTH,
                    subprotocols=[websockets.Subprotocol(wire.PROTOCOL)],
                    proxy=None,
                ) as worker,
            ):
                await watcher.recv()
                await worker.send(json.dumps(HELLO | {"workerId": "w2"}))
                assert json.loads(await worker.recv())["type"] == "welcome"
                await accepted(server, len(waiting) + 2)
                redis.freeze()
                server.stop()
                answers = await asyncio.wait_for(asyncio.gather(*waiting), SECONDS)
                assert [answer.status_code for answer in answers] == [200] * len(waiting)
                assert answers[0].json()["status"] == "queued"
                await watcher.wait_closed()
                await worker.wait_closed()
                assert (watcher.close_code, worker.close_code) == (1001, 4503)
        await asyncio.wait_for(running, SECONDS)


def long_polls(task_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Requests that wait for what does not happen."""
    ask = {"type": "ask", "claimId": "c", "slots": 1, "waitMs": 30_000}
    return [
        ("GET", f"tasks/{task_id}", {"params": {"wait_seconds": 30}}),
        ("GET", "events", {"params": {"wait_seconds": 30, "kinds": "job.created"}}),
        ("POST", "worker/sync", {"json": {"messages": [HELLO, ask]}}),
    ]


async def accepted(server: Server, count: int) -> None:
    """Waits until the server works on all requests. One that has not begun to wait is answered too."""
    assert server._server is not None
    tasks = server._server.server_state.tasks
    while len(tasks) < count:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0)
