"""Holdfast: changes of remote workers through a gateway process, acknowledged after their commit."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

import grpc
import grpc.aio

from holdfast.core.worker import wire
from proof.bench import deltas
from proof.bench.gateway import TOKEN, Gateway
from proof.lab.subject import Subject, main


class HoldfastDeltas(Subject):
    """`holdfast server` and workers that report the progress of their tasks."""

    def open(self) -> None:
        """Starts the server, registers the type and enqueues the tasks of all workers."""
        self.gateway = Gateway(self.options.url, "--no-loops")
        _prepare(self.gateway.url)

    def close(self) -> None:
        """Stops it."""
        self.gateway.stop()

    async def op_deltas(self, n: int, changes: int) -> dict[str, float | None]:
        """``n`` changes over all streams."""
        async with grpc.aio.insecure_channel(self.gateway.grpc_address) as channel:
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
