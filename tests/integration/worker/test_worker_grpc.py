"""Worker sync over gRPC, with a real server and real streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio
import pytest

from holdfast.core.task import Status
from holdfast.core.worker import wire
from holdfast.core.worker.wire import (
    Ask,
    Changes,
    CommandAck,
    CommandFrame,
    HeldRunState,
    Offer,
    OutputChunk,
    Ping,
    Pong,
    Renew,
    Renewed,
    SyncAck,
    SyncMessage,
    TaskChange,
)
from holdfast.errors import StoreUnavailable
from holdfast.gateway.worker.grpc import MESSAGE_BYTES_MAX
from holdfast.sync.worker import reads
from holdfast.sync.worker.messages import Inbound, MessageAnswer
from tests.conformance.tasks.helpers import put
from tests.integration.worker.support import Gateway, GrpcWorker, grpc_worker


def progress(sequence: int, task_id: str = "t", **fields: object) -> SyncMessage:
    change = TaskChange(task_id=task_id, fence=1, **fields)  # type: ignore[arg-type]
    return SyncMessage(sequence=sequence, changes=Changes(task=(change,)))


async def claimed(gateway: Gateway, worker: GrpcWorker, task_id: str = "t") -> None:
    await put(gateway.store, task_id)
    await worker.hello(boot_id="boot")
    await worker.send(Ask(slots=1, claim_id=f"c-{task_id}", lease_ms=30_000))
    offer = await worker.expect(Offer)
    assert [task.task_id for task in offer.tasks] == [task_id]


async def test_a_task_runs_over_the_wire(gateway: Gateway) -> None:
    await put(gateway.store, "t", payload={"n": 7})
    async with grpc_worker(gateway) as worker:
        welcome = await worker.hello(boot_id="boot")
        assert (welcome.incarnation, welcome.applied_through) == (1, 0)
        assert (welcome.window_frames, welcome.gateway) == (64, "g1")
        await worker.send(Ask(slots=1, claim_id="c", lease_ms=30_000))
        offer = await worker.expect(Offer)
        task = offer.tasks[0]
        assert (task.task_id, task.fence, task.attempt) == ("t", 1, 1)
        assert json.loads(task.task_json)["payload"] == {"n": 7}
        assert 25_000 < task.lease_ms <= 30_000
        await worker.send(Ask(slots=1, claim_id="c"))
        assert [t.task_id for t in (await worker.expect(Offer)).tasks] == ["t"]
        await worker.send(
            SyncMessage(
                sequence=1,
                changes=Changes(
                    task=(TaskChange(task_id="t", fence=1, progress=0.5),),
                    output=(OutputChunk(task_id="t", fence=1, data=b"hi\xff"),),
                ),
            )
        )
        ack = await worker.expect(SyncAck)
        assert (ack.accepted, ack.sequence, ack.output_next) == (True, 1, {"t/1/stdout": 3})
        await worker.send(Renew(held=(HeldRunState(task_id="t", fence=1),), lease_ms=20_000))
        renewed = await worker.expect(Renewed)
        assert [run.task_id for run in renewed.kept] == ["t"]
        await worker.send(Ping(n=5))
        assert (await worker.expect(Pong)).n == 5
        await worker.send(progress(2, status="completed", result_json='{"ok":true}'))
        assert (await worker.expect(SyncAck)).sequence == 2
    row = (await gateway.store.reads.get(["t"]))["t"]
    assert (row.status, row.result) == (Status.COMPLETED, {"ok": True})
    pieces = await reads.output(gateway.store, "t", 1, "stdout")
    assert [piece.data for piece in pieces] == [b"hi\xff"]


async def test_a_reconnected_worker_resends_and_nothing_is_applied_twice(gateway: Gateway) -> None:
    async with grpc_worker(gateway) as worker:
        await claimed(gateway, worker)
        await worker.send(progress(1, progress=0.1))
        assert (await worker.expect(SyncAck)).sequence == 1
    async with grpc_worker(gateway) as worker:
        welcome = await worker.hello(incarnation=1, boot_id="boot")
        assert (welcome.applied_through, welcome.incarnation) == (1, 1)
        await worker.send(progress(1, progress=0.1))
        assert (await worker.expect(SyncAck)).accepted
        await worker.send(progress(3, progress=0.3))
        gap = await worker.expect(SyncAck)
        assert (gap.accepted, gap.reason, gap.expected_sequence) == (False, "gap_detected", 2)
        await worker.send(progress(2, status="completed"))
        assert (await worker.expect(SyncAck)).sequence == 2
    history = await gateway.store.feed.history("t")
    assert [event.kind for event in history].count("task.progress") == 1


async def test_a_newer_incarnation_fences_the_older_stream(gateway: Gateway) -> None:
    async with grpc_worker(gateway) as old, grpc_worker(gateway) as new:
        assert (await old.hello(boot_id="one")).incarnation == 1
        assert (await new.hello(boot_id="two")).incarnation == 2
        assert await old.receive() is None
        assert await old.status() is grpc.StatusCode.ABORTED
    async with grpc_worker(gateway) as late:
        await late.send(wire.Hello(incarnation=1, boot_id="one"))
        assert await late.receive() is None
        assert await late.status() is grpc.StatusCode.ABORTED
    async with grpc_worker(gateway) as late:
        await late.send(SyncMessage(sequence=1, incarnation=1))
        ack = await late.expect(SyncAck)
        assert (ack.accepted, ack.reason) == (False, "node_fenced")
        assert await late.status() is grpc.StatusCode.ABORTED


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_stream_needs_a_token(gateway: Gateway, token: str) -> None:
    async with grpc_worker(gateway, token) as worker:
        assert await worker.receive() is None
        assert await worker.status() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (wire.Hello(worker_id="w2"), grpc.StatusCode.PERMISSION_DENIED),
        (wire.Hello(protocol="other"), grpc.StatusCode.INVALID_ARGUMENT),
        (wire.Hello(incarnation=9), grpc.StatusCode.NOT_FOUND),
        (SyncMessage(sequence=1), grpc.StatusCode.NOT_FOUND),
        (SyncMessage(sequence=1, incarnation=1, worker_id="w2"), grpc.StatusCode.PERMISSION_DENIED),
    ],
)
async def test_a_worker_speaks_only_for_itself(
    gateway: Gateway, message: wire.WorkerMessage, status: grpc.StatusCode
) -> None:
    async with grpc_worker(gateway) as worker:
        await worker.send(message)
        assert await worker.receive() is None
        assert await worker.status() is status


async def test_a_large_message_ends_only_its_stream(gateway: Gateway) -> None:
    async with grpc_worker(gateway) as good, grpc_worker(gateway, "token-2") as bad:
        await good.hello()
        await bad.hello()
        chunk = OutputChunk(task_id="t", data=b"x" * (MESSAGE_BYTES_MAX + 1))
        await bad.send(SyncMessage(sequence=1, changes=Changes(output=(chunk,))))
        assert await bad.status() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await good.send(Ping(n=1))
        assert (await good.expect(Pong)).n == 1


async def test_bytes_that_are_no_message_end_only_their_stream(gateway: Gateway) -> None:
    async with (
        grpc_worker(gateway, "token-2") as good,
        grpc.aio.insecure_channel(f"127.0.0.1:{gateway.grpc_port}") as channel,
    ):
        await good.hello()
        call: Any = channel.stream_stream("/holdfast.sync.v1.WorkerSync/Sync")
        stream = call(metadata=(("authorization", "Bearer token-1"),))
        await stream.write(b"\xff\xff\xff")
        assert await stream.code() is not grpc.StatusCode.OK
        await good.send(Ping(n=1))
        assert (await good.expect(Pong)).n == 1


async def test_commands_go_down_until_they_are_acknowledged(gateway: Gateway) -> None:
    async with grpc_worker(gateway) as worker:
        await claimed(gateway, worker)
        command = CommandFrame(id="ivn_1", kind="PAUSE", task_id="t", fence=1, reason="why")
        gateway.commands.issue(command)
        assert await worker.expect(CommandFrame) == command
        await worker.send(Renew(held=(HeldRunState(task_id="t", fence=1),)))
        await worker.expect(Renewed)
        assert (await worker.expect(CommandFrame)).id == "ivn_1"
        await worker.send(CommandAck(id="ivn_1", outcome="done"))
        await worker.send(Renew(held=(HeldRunState(task_id="t", fence=1),)))
        await worker.expect(Renewed)
        await worker.send(Ping(n=9))
        assert (await worker.expect(Pong)).n == 9
        assert [ack.outcome for ack in gateway.commands.acks] == ["done"]


async def test_an_ask_waits_for_work(gateway: Gateway) -> None:
    async with grpc_worker(gateway) as worker:
        await worker.hello()
        await worker.send(Ask(slots=1, claim_id="c", wait_ms=20_000))
        await worker.send(Ping(n=1))
        await worker.expect(Pong)
        await put(gateway.store, "later")
        assert [t.task_id for t in (await worker.expect(Offer)).tasks] == ["later"]
        await worker.send(Ask(slots=1, claim_id="d"))
        assert (await worker.expect(Offer)).tasks == ()


async def test_a_task_is_claimed_by_id(gateway: Gateway) -> None:
    await put(gateway.store, "a")
    await put(gateway.store, "b")
    async with grpc_worker(gateway) as worker, grpc_worker(gateway, "token-2") as other:
        await worker.hello()
        await other.hello()
        await worker.send(Ask(task_id="b", claim_id="c"))
        assert [t.task_id for t in (await worker.expect(Offer)).tasks] == ["b"]
        await other.send(Ask(task_id="b", claim_id="x"))
        assert (await other.expect(wire.ErrorFrame)).code == "already-locked"
        assert (await other.expect(Offer)).tasks == ()
        await other.send(Ask(task_id="none", claim_id="y"))
        assert (await other.expect(wire.ErrorFrame)).code == "not-found"


async def test_a_full_window_is_answered_by_few_acknowledgements(gateway: Gateway) -> None:
    async with grpc_worker(gateway) as worker:
        await claimed(gateway, worker)
        for n in range(1, 65):
            await worker.send(progress(n, iteration=n))
        acks = [await worker.expect(SyncAck)]
        while acks[-1].sequence < 64:
            acks.append(await worker.expect(SyncAck))
        assert all(ack.accepted for ack in acks)
        assert len(acks) < 64
    history = await gateway.store.feed.history("t")
    assert [event.kind for event in history].count("task.progress") == 64


async def test_a_worker_that_ignores_the_window_is_ended(gateway: Gateway) -> None:
    """The store is held, so nothing is acknowledged and the worker must wait."""
    release = asyncio.Event()
    apply = gateway.sync.apply

    async def held(messages: Sequence[Inbound]) -> list[MessageAnswer]:
        await release.wait()
        return await apply(messages)

    gateway.sync._commits._apply = held
    async with grpc_worker(gateway) as worker:
        await claimed(gateway, worker)
        for n in range(1, 66):
            await worker.send(progress(n, iteration=n))
        # The stream ends while the store is still held: an offender does not wait for it.
        assert await worker.status() is grpc.StatusCode.RESOURCE_EXHAUSTED
        release.set()


async def test_without_the_store_nothing_is_acknowledged(gateway: Gateway) -> None:
    async def away(messages: Sequence[Inbound]) -> list[MessageAnswer]:
        raise StoreUnavailable("the store is away")

    async with grpc_worker(gateway) as worker:
        await claimed(gateway, worker)
        apply, gateway.sync._commits._apply = gateway.sync._commits._apply, away
        await worker.send(progress(1, status="completed"))
        assert await worker.receive() is None
        assert await worker.status() is grpc.StatusCode.UNAVAILABLE
        gateway.sync._commits._apply = apply
    async with grpc_worker(gateway) as worker:
        assert (await worker.hello(incarnation=1)).applied_through == 0
        await worker.send(progress(1, status="completed"))
        assert (await worker.expect(SyncAck)).sequence == 1
