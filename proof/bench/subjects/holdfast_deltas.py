"""Holdfast: changes of remote workers through a gateway process, acknowledged after their commit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any
from urllib.request import Request, urlopen

import grpc
import grpc.aio

from holdfast.core import worker_wire as wire
from proof.bench import deltas
from proof.lab.subject import Subject, main

TOKEN = "hf_admin_" + "d" * 40


class HoldfastDeltas(Subject):
    """`holdfast server` and workers that report the progress of their tasks."""

    def open(self) -> None:
        """Starts the server, registers the type and enqueues the tasks of all workers."""
        command = [sys.executable, "-m", "holdfast", "server", "--port", "0", "--no-loops"]
        self.server = subprocess.Popen(
            [*command, "--url", self.options.url],
            env={**os.environ, "HOLDFAST_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        port = re.search(r"gRPC on port (\d+)", line)
        assert port is not None, line
        self.address = f"127.0.0.1:{port[1]}"
        _prepare(line.split()[3])

    def close(self) -> None:
        """Stops it."""
        self.server.kill()
        self.server.wait()

    async def op_deltas(self, n: int, changes: int) -> dict[str, float | None]:
        """``n`` changes over all streams."""
        async with grpc.aio.insecure_channel(self.address) as channel:
            rate = await _measured(channel, n // changes // deltas.STREAMS, changes)
        return {"rate": rate}


async def _measured(channel: grpc.aio.Channel, messages: int, changes: int) -> float:
    streams, batches = [], []
    for number in range(deltas.STREAMS):
        stream = deltas.open_stream(channel, TOKEN)
        hello = wire.Hello(worker_id=f"w{number}", types=("work",), queues=("default",))
        assert isinstance(await deltas.ask(stream, hello), wire.Welcome)
        claim = wire.Ask(claim_id=f"c{number}", slots=deltas.TASKS, lease_ms=600_000)
        offer = await deltas.ask(stream, claim)
        tasks = [(task.task_id, task.fence) for task in offer.tasks]
        assert len(tasks) == deltas.TASKS, tasks
        streams.append(stream)
        batches.append(deltas.reports(tasks, messages, changes))
    return await deltas.measure(streams, batches, changes)


def _prepare(url: str) -> None:
    """Registers the type and enqueues the tasks of all workers."""
    _post("PUT", f"{url}/api/v1/types", {"definitions_json": '[{"name": "work"}]'})
    tasks = [{"type": "work"} for _ in range(deltas.STREAMS * deltas.TASKS)]
    _post("POST", f"{url}/api/v1/tasks/batch", {"tasks": tasks})


def _post(method: str, url: str, body: Any) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    urlopen(Request(url, json.dumps(body).encode(), headers, method=method)).close()


if __name__ == "__main__":
    main(HoldfastDeltas)
