"""A worker as tests see it: it says hello, claims tasks and sends numbered messages."""

from __future__ import annotations

from typing import Any

from holdfast.core.speaking import Voice
from holdfast.core.task import Task
from holdfast.core.worker.wire import (
    Changes,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    SyncAck,
    TaskChange,
)
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.worker import reads
from holdfast.sync.worker.claims import NamedClaim
from holdfast.sync.worker.messages import Inbound
from holdfast.sync.worker.receivers import Start
from holdfast.sync.worker.worker_sync import WorkerSync


class Worker:
    def __init__(self, sync: WorkerSync, node: str = "w1", boot: str = "boot-1") -> None:
        self.sync, self.node, self.boot = sync, node, boot
        self.incarnation = self.sequence = 0

    async def start(self, *resume: tuple[str, int]) -> Worker:
        """`resume`: (task, fence) of runs that it goes on with."""
        await self.register(*resume)
        start = Start(self.node, self.incarnation, self.boot, registered=self.incarnation)
        greeting = await self.sync.hello(start)
        assert greeting.receiver is not None
        self.incarnation, self.sequence = greeting.receiver.incarnation, 0
        return self

    async def register(self, *resume: tuple[str, int]) -> None:
        registration = Registration(
            node=self.node, project="default", boot_id=self.boot, resume=resume
        )
        registered = await Nodes(self.sync.store).register(registration, By("user:admin"))
        self.incarnation = registered.incarnation

    @property
    def voice(self) -> Voice:
        return Voice(self.node, self.incarnation or None)

    def message(self, *changes: Any, sequence: int | None = None) -> Inbound:
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        kinds = {"task": TaskChange, "output": OutputChunk}
        kinds |= {"checkpoint": CheckpointChange, "metrics": MetricsChange}
        parts = {
            name: tuple(change for change in changes if isinstance(change, kind))
            for name, kind in kinds.items()
        }
        return Inbound(self.node, self.incarnation, sequence, Changes(**parts))

    async def send(self, *changes: Any, sequence: int | None = None) -> SyncAck:
        answers = await self.sync.apply([self.message(*changes, sequence=sequence)])
        return answers[0].ack

    async def claim(self, slots: int = 1, claim_id: str = "c-1", lease: float = 60.0) -> list[Task]:
        return await self.sync.claim(
            NamedClaim(
                voice=self.voice,
                claim_id=claim_id,
                types=("work", "other", "limited"),
                queues=("default",),
                slots=slots,
                lease_seconds=lease,
            )
        )


async def one(store: Store, task_id: str) -> Task:
    return (await store.reads.get([task_id]))[task_id]


async def output_of(store: Store, task_id: str, fence: int, stream: str = "stdout") -> bytes:
    pieces, end = [], 0
    while more := await reads.output(store, task_id, fence, stream, start=end):
        pieces += [piece for piece in more if piece.start >= end]
        end = more[-1].start + more[-1].size
    return b"".join(b"?" * piece.size if piece.data is None else piece.data for piece in pieces)


async def kinds_of(store: Store, task_id: str) -> list[str]:
    return [event.kind for event in await store.feed.history(task_id)]
