"""A gateway process that is killed at any moment: each message of a worker is applied once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets import Subprotocol
from websockets.asyncio.client import connect

from holdfast.core.worker.wire import PROTOCOL
from tests.backends import SHARED, url_of
from tests.integration.worker.served import ADMIN
from tests.integration.worker.support import WsWorker
from tests.launcher import Child, launcher

KILLS = 4
MESSAGES = 240
WINDOW = 60


class Process:
    """A gateway as its own process."""

    def __init__(self, child: Child, line: str) -> None:
        self.child = child
        self.url = line.split()[3]


@contextmanager
def started(folder: Path, url: str) -> Iterator[Process]:
    command = ["server", "--port", "0", "--no-loops", "--url", url]
    env = {"HOLDFAST_ADMIN_TOKEN": ADMIN}
    with (
        (folder / "stderr").open("a") as stderr,
        launcher().running(command, folder, env, stderr) as child,
    ):
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, (folder / "stderr").read_text()
        yield Process(child, line)


class Sender:
    """A worker that keeps each message until it is acknowledged. It speaks JSON, where output without an
    offset is appended: a message that is applied twice shows twice."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.acknowledged = 0
        self.fence = 0

    def message(self, sequence: int) -> dict[str, Any]:
        chunk = {"taskId": "t", "fence": self.fence, "text": line_of(sequence).decode()}
        numbers = {"sequence": sequence, "incarnation": self.incarnation}
        return {"type": "sync", **numbers, "changes": {"output": chunk}}

    async def connect(self, worker: WsWorker) -> None:
        names = {"workerId": "w1", "types": ["work"], "queues": ["default"], "bootId": "boot"}
        await worker.send({"type": "hello", **names, "incarnation": self.incarnation})
        welcome = await worker.receive()
        applied = welcome.get("appliedThrough", 0)
        assert applied >= self.acknowledged, "an acknowledged message was lost"
        self.incarnation, self.acknowledged = welcome["incarnation"], applied
        if not self.fence:
            ask = {"type": "ask", "claimId": "c", "slots": 1, "leaseMs": 3_600_000}
            (task,) = (await worker.ask(ask))["tasks"]
            self.fence = task["fence"]

    async def send_until(self, worker: WsWorker, stop_at: int) -> None:
        """Sends within the window until the messages up to `stop_at` are acknowledged."""
        sent = self.acknowledged
        while self.acknowledged < stop_at:
            while sent < min(MESSAGES, self.acknowledged + WINDOW):
                sent += 1
                await worker.send(self.message(sent))
            ack = await worker.receive()
            assert (ack["type"], ack["accepted"], ack.get("refused", [])) == ("ack", True, []), ack
            self.acknowledged = ack["sequence"]


def line_of(sequence: int) -> bytes:
    return f"line {sequence}\n".encode()


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


async def test_each_message_is_applied_once_however_often_the_gateway_dies(
    tmp_path: Path, url: str
) -> None:
    sender, chance = Sender(), random.Random(7)
    goals = [*sorted(chance.sample(range(1, MESSAGES - WINDOW), KILLS)), MESSAGES]
    for number, goal in enumerate(goals):
        with (
            started(tmp_path, url) as process,
            httpx2.Client(
                base_url=process.url, headers={"Authorization": f"Bearer {ADMIN}"}
            ) as client,
        ):
            if number == 0:
                types = {"definitions_json": '[{"name": "work"}]'}
                assert client.put("/api/v1/types", json=types).status_code == 200
                made = client.post("/api/v1/tasks", json={"type": "work", "id": "t"})
                assert made.status_code == 201, made.text
            async with connect(
                process.url.replace("http", "ws") + "/api/v1/worker/ws",
                additional_headers={"Authorization": f"Bearer {ADMIN}"},
                subprotocols=[Subprotocol(PROTOCOL)],
                proxy=None,
                close_timeout=1,
            ) as socket:
                worker = WsWorker(socket)
                await sender.connect(worker)
                await sender.send_until(worker, goal)
                if goal != MESSAGES:
                    # Up to WINDOW messages are under way: received, in a commit, or not acknowledged yet.
                    process.child.kill()
                    continue
            raw = client.get("/api/v1/tasks/t/output", headers={"Accept": "text/plain"})
            assert raw.content == b"".join(map(line_of, range(1, MESSAGES + 1)))
            status = client.get("/api/v1/tasks/t").json()["status"]
            assert status == "running"
