"""Tokens of remote workers: which are accepted, and what a revocation does."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast import Task
from holdfast.core.errors import Forbidden, Unauthenticated
from holdfast.errors import EngineFailed
from tests.integration.remote.support import (
    SECONDS,
    Server,
    engine_of,
    queue_with_handlers,
    worker,
)


async def test_a_wrong_token_does_not_start(sqlite_gateway: Server) -> None:
    queue = queue_with_handlers(sqlite_gateway.address, token="hf_admin_wrong-wrong-wrong-wrong")
    with pytest.raises(Unauthenticated, match="unknown, expired or revoked"):
        await queue.start()
    with pytest.raises(Unauthenticated):
        await queue.enqueue("add", {"a": 1, "b": 1})
    await queue.stop()


async def test_a_viewer_runs_no_tasks(sqlite_gateway: Server) -> None:
    body = {"name": "ann", "roles": ["viewer"]}
    token = (await sqlite_gateway.ask("POST", "/tokens", json=body))["token"]
    queue = queue_with_handlers(sqlite_gateway.address, token=token)
    with pytest.raises(Forbidden, match="join token"):
        await queue.start()
    await queue.stop()


async def test_a_join_token_makes_one_node_that_comes_back(sqlite_gateway: Server) -> None:
    token = await sqlite_gateway.joining(uses=1)
    queue = queue_with_handlers(sqlite_gateway.address, token=token)
    async with queue:
        node = engine_of(queue).link.node
        assert await (await queue.enqueue("add", {"a": 1, "b": 2})).result(SECONDS) == 3
    async with queue:  # The credential that it got counts, the join token is used up.
        assert engine_of(queue).link.node == node
    other = queue_with_handlers(sqlite_gateway.address, token=token)
    with pytest.raises(Unauthenticated):
        await other.start()
    await other.stop()


async def test_a_revoked_token_ends_the_worker(sqlite_gateway: Server) -> None:
    token = await sqlite_gateway.joining(uses=1)
    queue = queue_with_handlers(sqlite_gateway.address, token=token, lease_seconds=5.0)
    await queue.start()
    node = engine_of(queue).link.node
    tokens = (await sqlite_gateway.ask("GET", "/tokens"))["items"]
    own = next(item["id"] for item in tokens if item["node_id"] == node)
    await sqlite_gateway.ask("DELETE", f"/tokens/{own}")
    engine_of(queue).heartbeat.wake()
    failure = await asyncio.wait_for(queue.wait_failed(), SECONDS)
    assert isinstance(failure, EngineFailed)
    assert "no gateway accepts this worker" in str(failure)
    await queue.stop()


@pytest.mark.parametrize("verb", ["cordon", "drain", "quarantine", "revoke"])
async def test_a_node_that_an_operator_stops_gets_no_tasks(
    sqlite_gateway: Server, verb: str
) -> None:
    """All tasks go to the other worker, although both wait for work."""
    gateway = sqlite_gateway
    tokens = [await gateway.joining(), await gateway.joining()]
    first, second = (queue_with_handlers(gateway.address, token) for token in tokens)
    producer = queue_with_handlers(gateway.address)
    await first.start()
    await second.start()
    stopped, serving = engine_of(first).link.node, engine_of(second).link.node
    await gateway.ask("POST", f"/nodes/{stopped}/{verb}", json={"reason": "test"})
    handles = await producer.enqueue_many(
        [{"type": "add", "payload": {"a": n, "b": 0}} for n in range(20)]
    )
    await asyncio.gather(*(handle.result(SECONDS) for handle in handles))
    started = {
        event.data["node"]
        async for event in producer.events(follow=False)
        if event.kind == "task.started"
    }
    assert started == {serving}
    for queue in (first, second, producer):
        await queue.stop()


class Heard(logging.Handler):
    """Says when a text was logged."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.count, self.heard = text, 0, asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.text in record.getMessage():
            self.count += 1
            self.heard.set()


async def test_a_drained_worker_says_so_and_waits(
    sqlite_gateway: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """`task why` and `doctor` name it as the cause that tasks wait."""
    caplog.set_level(logging.INFO, "holdfast.worker")
    gateway, log = sqlite_gateway, logging.getLogger("holdfast.worker")
    texts = Heard("is draining"), Heard("is drained: no task runs"), Heard("gets tasks again")
    for handler in texts:
        log.addHandler(handler)
    draining, drained, back = texts
    queue = queue_with_handlers(gateway.address, await gateway.joining(), lease_seconds=5.0)
    running, go = asyncio.Event(), asyncio.Event()

    async def hold(task: Task) -> None:
        running.set()
        await go.wait()

    queue.register_handler("hold", hold)
    try:
        async with queue:
            node = engine_of(queue).link.node
            url = f"http://{gateway.address.partition('://')[2]}"
            assert f"connected to gateway {url} as {node}" in caplog.messages
            held = await queue.enqueue("hold")
            await asyncio.wait_for(running.wait(), SECONDS)
            await gateway.ask("POST", f"/nodes/{node}/drain", json={"reason": "test"})
            await asyncio.wait_for(draining.heard.wait(), SECONDS)
            assert drained.count == 0
            go.set()
            await held.result(SECONDS)
            await asyncio.wait_for(drained.heard.wait(), SECONDS)
            waiting = await queue.enqueue("add", {"a": 1, "b": 2})
            [reason] = (await queue.why(waiting)).reasons
            assert reason.code == "nodes-out-of-service"
            assert f"{node} (draining)" in reason.text
            checks = {c["name"]: c for c in (await gateway.ask("GET", "/doctor"))["items"]}
            assert checks["nodes"]["level"] == "fail"
            assert f"out of service: {node} (draining)" in checks["nodes"]["text"]
            await gateway.ask("POST", f"/nodes/{node}/uncordon", json={"reason": "test"})
            assert await waiting.result(SECONDS) == 3
            await asyncio.wait_for(back.heard.wait(), SECONDS)
            assert [handler.count for handler in texts] == [1, 1, 1]
    finally:
        for handler in texts:
            log.removeHandler(handler)


async def test_a_gateway_alone_is_no_worker(sqlite_gateway: Server) -> None:
    checks = {c["name"]: c for c in (await sqlite_gateway.ask("GET", "/doctor"))["items"]}
    assert checks["nodes"]["level"] == "warn"
    assert "no worker is live" in checks["nodes"]["text"]
    assert checks["projects"]["text"] == "no worker is live"


async def test_a_token_file_keeps_the_credential_of_the_node(
    sqlite_gateway: Server, tmp_path: Path
) -> None:
    """A restart is the same node, though its join token is used up."""
    file = tmp_path / "worker.token"
    joining = await sqlite_gateway.joining(uses=1)
    file.write_text(joining + "\n")
    nodes = set()
    for _ in range(2):
        options = ("--token-file", str(file))
        async with worker(tmp_path, sqlite_gateway.address, None, *options) as process:
            assert file.read_text().strip() != joining
            assert file.stat().st_mode & 0o777 == 0o600
            listed = await sqlite_gateway.ask("GET", "/nodes")
            nodes |= {node["id"] for node in listed["items"] if "in_process" in node["types"]}
            process.terminate()
            assert await process.wait() == 0
    assert len(nodes) == 1
