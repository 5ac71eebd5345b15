"""Changes of remote workers over gRPC: a client that keeps the window full, and what it sends.

The same client drives a gateway, which acknowledges after its commit, and a bare echo of grpc.aio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from holdfast.core.worker import wire
from holdfast.proto import codec
from holdfast.proto.sync.v1 import sync_pb2 as pb

METHOD = "/holdfast.sync.v1.WorkerSync/Sync"
STREAMS = 4
TASKS = 10
"""Tasks that each worker runs."""


def encoded(message: wire.WorkerMessage) -> bytes:
    """A message as it travels."""
    data: bytes = codec.encode_worker(message).SerializeToString()
    return data


def reports(tasks: Sequence[tuple[str, int]], n: int, changes: int) -> list[bytes]:
    """``n`` messages with that many reports of progress each, over the tasks in turn."""
    made = []
    for number in range(n):
        chosen = [tasks[(number * changes + k) % len(tasks)] for k in range(changes)]
        progress = (number + 1) / (n + 1)
        parts = tuple(
            wire.TaskChange(task_id=id, fence=fence, progress=progress) for id, fence in chosen
        )
        made.append(
            encoded(wire.SyncMessage(sequence=number + 1, changes=wire.Changes(task=parts)))
        )
    return made


def open_stream(channel: grpc.aio.Channel, token: str = "") -> Any:
    """A stream of raw messages."""
    call: Any = channel.stream_stream(METHOD, None, None)
    return call(metadata=(("authorization", f"Bearer {token}"),) if token else ())


async def ask(stream: Any, message: wire.WorkerMessage) -> Any:
    """Sends one message and reads one."""
    await stream.write(encoded(message))
    return codec.decode_gateway(pb.GatewayMessage.FromString(await stream.read()))


async def pump(stream: Any, messages: Sequence[bytes], window: int = 64) -> None:
    """Sends the messages and waits until all are acknowledged. One answer may cover several messages."""
    acknowledged = 0
    room = asyncio.Semaphore(window)

    async def send() -> None:
        for message in messages:
            await room.acquire()
            await stream.write(message)

    sending = asyncio.create_task(send())
    while acknowledged < len(messages):
        ack = pb.GatewayMessage.FromString(await stream.read()).ack
        assert ack.accepted, ack.reason
        assert not ack.refused, ack.refused
        for _ in range(ack.sequence - acknowledged):
            room.release()
        acknowledged = ack.sequence
    await sending


async def measure(streams: Sequence[Any], batches: Sequence[list[bytes]], changes: int) -> float:
    """Changes per second over all streams."""
    started = time.perf_counter()
    await asyncio.gather(*map(pump, streams, batches))
    return sum(map(len, batches)) * changes / (time.perf_counter() - started)
