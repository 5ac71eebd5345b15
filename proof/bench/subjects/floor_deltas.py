"""Floor: a bare echo of grpc.aio in another process: one small answer for each message, nothing stored."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from holdfast.proto.sync.v1 import sync_pb2 as pb
from proof.bench import deltas
from proof.lab.subject import Subject, main


class DeltasFloor(Subject):
    """The echo, driven by the same client."""

    def open(self) -> None:
        """Starts the echo."""
        command = [sys.executable, "-m", self.module, "echo"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        self.address = f"127.0.0.1:{self.server.stdout.readline().strip()}"

    def close(self) -> None:
        """Stops it."""
        self.server.kill()
        self.server.wait()

    async def op_deltas(self, n: int, changes: int) -> dict[str, float | None]:
        """``n`` changes over all streams."""
        tasks = [(f"task-{k}", 1) for k in range(deltas.TASKS)]
        messages = deltas.reports(tasks, n // changes // deltas.STREAMS, changes)
        async with grpc.aio.insecure_channel(self.address) as channel:
            streams = [deltas.open_stream(channel) for _ in range(deltas.STREAMS)]
            return {"rate": await deltas.measure(streams, [messages] * deltas.STREAMS, changes)}


async def _echo(requests: AsyncIterator[bytes], context: Any) -> None:
    number = 0
    async for _ in requests:
        number += 1
        answer = pb.GatewayMessage(ack=pb.SyncAck(accepted=True, sequence=number))
        await context.write(answer.SerializeToString())


async def _serve() -> None:
    server = grpc.aio.server()
    service, method = deltas.METHOD.removeprefix("/").split("/")
    handler: Any = grpc.stream_stream_rpc_method_handler(_echo)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    if sys.argv[1:] == ["echo"]:
        asyncio.run(_serve())
    else:
        main(DeltasFloor)
