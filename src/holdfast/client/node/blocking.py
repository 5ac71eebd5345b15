"""The offline node for callers that block.

    with BlockingNode.open(".holdfast", gateway="http://127.0.0.1:8787") as node:
        node.sync()
        with node.claim("task-1") as claim:
            claim.output("begun\\n")
            claim.complete({"pages": 12})

Promises: the calls, answers and errors are those of `Node` and `Claim`; claims are renewed in the background.
Any thread may call. Never: a second implementation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
import msgspec

from holdfast.client.bridge import Bridge
from holdfast.client.node.claim import Claim
from holdfast.client.node.commands import Command
from holdfast.client.node.exchange import SyncReport
from holdfast.client.node.journal import Refused
from holdfast.client.node.node import CAPABILITIES, LEASE_SECONDS, LocalTask, Node
from holdfast.clock import Clock
from holdfast.core.ids import Ids

T = TypeVar("T")


class _Here:
    """Calls that run in the thread of the node: its database and its claims belong to it."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def _run(self, act: Callable[[], T]) -> T:
        async def call() -> T:
            return act()

        return self._bridge.call(call)


class BlockingNode(_Here):
    """See `Node`. Make it with `open`."""

    def __init__(self, bridge: Bridge, node: Node) -> None:
        super().__init__(bridge)
        self._node = node

    @classmethod
    def open(
        cls,
        folder: Path | str = Path(".holdfast"),
        *,
        gateway: str | Sequence[str] | None = None,
        project: str | None = None,
        join_token: str | None = None,
        node_id: str | None = None,
        node_type: str = "plugin",
        capabilities: Sequence[str] = CAPABILITIES,
        clock: Clock | None = None,
        ids: Ids | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> BlockingNode:
        """See `Node.open`."""
        bridge = Bridge()
        try:
            node = bridge.call(
                lambda: Node.open(
                    folder,
                    gateway=gateway,
                    project=project,
                    join_token=join_token,
                    node_id=node_id,
                    node_type=node_type,
                    capabilities=capabilities,
                    clock=clock,
                    ids=ids,
                    transport=transport,
                )
            )
        except BaseException:
            bridge.close(_nothing)
            raise
        return cls(bridge, node)

    @property
    def node_id(self) -> str:
        """The id of the node: it stays the same in this folder."""
        return self._node.node_id

    @property
    def incarnation(self) -> int | None:
        """The number of this start. None: not registered yet."""
        return self._node.incarnation

    @property
    def lost(self) -> list[dict[str, Any]]:
        """Claims of an earlier start that the server did not give back."""
        return self._node.lost

    def get(self, task_id: str) -> LocalTask | None:
        """The task as it is here."""
        return self._run(lambda: self._node.get(task_id))

    def tasks(self) -> list[LocalTask]:
        """All tasks that the node has."""
        return self._run(self._node.tasks)

    def create(
        self,
        task_id: str,
        *,
        payload: Any = None,
        metadata: dict[str, Any] | None = None,
        labels: Sequence[str] = (),
        type: str | None = None,
        queue: str | None = None,
        priority: str | int | None = None,
    ) -> str:
        """See `Node.create`."""
        content: dict[str, Any] = {"payload": payload, "metadata": metadata, "labels": labels}
        options: dict[str, Any] = {"type": type, "queue": queue, "priority": priority}
        return self._run(lambda: self._node.create(task_id, **content, **options))

    def edit(
        self,
        task_id: str,
        *,
        payload: Any = msgspec.UNSET,
        metadata: dict[str, Any] | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
    ) -> str:
        """See `Node.edit`."""
        labels: dict[str, Any] = {"add_labels": add_labels, "remove_labels": remove_labels}
        return self._run(
            lambda: self._node.edit(task_id, payload=payload, metadata=metadata, **labels)
        )

    def set_status(
        self, task_id: str, status: str, *, result: Any = msgspec.UNSET, error: str | None = None
    ) -> str:
        """See `Node.set_status`."""
        return self._run(lambda: self._node.set_status(task_id, status, result=result, error=error))

    def pending(self) -> int:
        """How many local changes the server has not answered."""
        return self._run(self._node.pending)

    def conflicts(self) -> list[Refused]:
        """See `Node.conflicts`."""
        return self._run(self._node.conflicts)

    def dismiss(self, mutation_id: str | None = None) -> int:
        """See `Node.dismiss`."""
        return self._run(lambda: self._node.dismiss(mutation_id))

    def sync(self) -> SyncReport:
        """Reads what is new and pushes what was changed, until both sides agree."""
        return self._bridge.call(self._node.sync)

    def claim(self, task_id: str, lease_seconds: float = LEASE_SECONDS) -> BlockingClaim:
        """See `Node.claim`. Use it in `with`."""
        claim = self._bridge.call(lambda: self._node.claim(task_id, lease_seconds))
        return BlockingClaim(self._bridge, claim)

    def close(self) -> None:
        """See `Node.close`."""
        self._bridge.close(self._node.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class BlockingClaim(_Here):
    """See `Claim`. Use it in `with`: leaving without an end releases the task."""

    def __init__(self, bridge: Bridge, claim: Claim) -> None:
        super().__init__(bridge)
        self._claim = claim

    @property
    def task_id(self) -> str:
        """The task."""
        return self._claim.task_id

    @property
    def fence(self) -> int:
        """The number of the claim: the server takes results of the latest only."""
        return self._claim.fence

    @property
    def is_lost(self) -> bool:
        """Whether the claim is no longer this node's: stop the work. Look at it often."""
        return self._claim.lost.is_set()

    @property
    def lost_reason(self) -> str:
        return self._claim.lost_reason

    def progress(
        self, done: float, *, phase: str | None = None, iteration: int | None = None
    ) -> None:
        """See `Claim.progress`."""
        self._run(lambda: self._claim.progress(done, phase=phase, iteration=iteration))

    def metrics(self, **totals: float) -> None:
        """See `Claim.metrics`."""
        self._run(lambda: self._claim.metrics(**totals))

    def output(self, data: str | bytes, stream: str = "stdout") -> None:
        """See `Claim.output`."""
        self._bridge.call(lambda: self._claim.output(data, stream))

    def checkpoint(self, type: str, data: Any = None, note: str = "") -> str:
        """See `Claim.checkpoint`."""
        return self._bridge.call(lambda: self._claim.checkpoint(type, data, note))

    def complete(self, result: Any = None) -> None:
        """See `Claim.complete`."""
        self._bridge.call(lambda: self._claim.complete(result))

    def fail(self, error: str) -> None:
        """See `Claim.fail`."""
        self._bridge.call(lambda: self._claim.fail(error))

    def release(self, reason: str = "") -> bool:
        """See `Claim.release`."""
        return self._bridge.call(lambda: self._claim.release(reason))

    def next_command(self, timeout: float | None = None) -> Command | None:
        """Waits for an act of an operator. None if there is none within `timeout` seconds."""

        async def wait() -> Command | None:
            try:
                async with asyncio.timeout(timeout):
                    return await self._claim.next_command()
            except TimeoutError:
                return None

        return self._bridge.call(wait)

    def acknowledge(self, command: Command, outcome: str = "done", detail: str = "") -> None:
        """See `Claim.acknowledge`."""
        self._run(lambda: self._claim.acknowledge(command, outcome, detail))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bridge.call(lambda: self._claim.__aexit__(kind, error, traceback))


async def _nothing() -> None:
    """A node that was not opened has nothing to close."""
