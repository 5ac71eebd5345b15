"""Redlock in the simulator: independent lock servers, and holders that ask a majority of them.

Promises: the quorum protocol, the efficiency locks and the renewals are product code; each server is an
in-memory Redis behind the network with its own clock. A server that restarts has lost its state. Grants
and restarts of servers are recorded.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.core.ids import Ids
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.primitives.kv import MemoryKV, Op
from holdfast.primitives.kv._commands import compare, strings
from holdfast.primitives.locks.efficiency import EfficiencyLocks
from holdfast.primitives.locks.nodes import KEYS, TIMEOUT_SECONDS
from holdfast.primitives.locks.quorum import QuorumRequest, Timing, Verb
from holdfast.primitives.locks.redlock import AsyncRedlock
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.record import Granted, HolderInterval, Record

RESOURCES: Final = ("report", "cache")


class Server:
    """One lock server. Its node provides start and crash; the state is here."""

    def __init__(self, node: Node, record: Record) -> None:
        self.node = node
        self._record = record
        self._kv = MemoryKV(node.clock.now)
        node.when_dead = self._forget

    def answer(self, request: QuorumRequest) -> bool:
        """Executes one Redis command."""
        key = KEYS + request.resource
        op: Op[bool]
        match request.verb:
            case Verb.TAKE:
                op = strings.set(key, request.token, nx=True, px=request.ttl_ms)
            case Verb.REFRESH:
                # As in the script: only a lock held under this token is extended.
                op = compare.compare_and_set(key, request.token, request.token, px=request.ttl_ms)
            case _:
                op = compare.compare_and_delete(key, request.token)
        applied = self._kv.execute(op)
        if applied and request.verb is not Verb.RELEASE:
            self._record.granted.append(
                Granted(self.node.name, request.resource, request.token, self._record.time())
            )
        return applied

    def _forget(self) -> None:
        """Loses all state, as a server without persistence does when it restarts."""
        self._kv = MemoryKV(self.node.clock.now)
        self._record.restarts.setdefault(self.node.name, []).append(self._record.time())
        self.node.cluster.trace.sometimes("lock-server-forgot")


class RemoteNode:
    """A server as a holder reaches it: see `holdfast.primitives.locks.redlock.AsyncNode`."""

    def __init__(self, server: Server, node: Node) -> None:
        self._server = server
        self._node = node

    async def ask(self, request: QuorumRequest) -> bool | None:
        net = self._node.cluster.net
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS / self._node.clock.rate):
                return await net.call(
                    self._node.name,
                    self._server.node.name,
                    request.verb.value,
                    lambda: self._server.answer(request),
                )
        except (TimeoutError, StoreUnavailable):
            return None

    async def close(self) -> None:
        return


class QuorumHolder:
    """Takes and releases quorum locks in a loop. See `sim.subsystem.Subsystem`."""

    def __init__(self, node: Node, servers: list[Server], record: Record, draw: Draw) -> None:
        self.node = node
        self._servers = servers
        self._record = record
        self._draw = draw
        self._is_calm = False
        self._holds_since_calm = 0

    def calm(self) -> None:
        self._is_calm = True

    def is_at_rest(self) -> bool:
        """Whether a lock was granted after the fault phase."""
        return self._holds_since_calm > 0

    async def report(self) -> None:
        if not self.is_at_rest():
            self._record.ungranted.append(f"{self.node.name} was granted nothing after the faults")

    def end(self) -> None:
        return

    async def main(self, node: Node, queue: Queue) -> None:
        draw = self._draw.stream(node.life)
        nodes = [RemoteNode(server, node) for server in self._servers]
        redlock = AsyncRedlock(nodes, Timing(node.clock.monotonic), Ids(draw.stream("tokens")))
        locks = EfficiencyLocks(redlock, clock=node.clock, ids=Ids(draw.stream("claims")))
        while True:
            await node.clock.sleep(draw.wait(15.0))
            try:
                await self._hold(locks, draw)
            except HoldfastError as error:
                node.cluster.trace.sometimes(f"redlock {error.code}")

    async def _hold(self, locks: EfficiencyLocks, draw: Draw) -> None:
        resource = draw.pick(RESOURCES)
        ttl, wait = draw.between(2.0, 10.0), draw.pick((0.0, 0.2, 1.0))
        async with locks.hold(resource, ttl=ttl, wait=wait) as lease:
            interval = HolderInterval(resource, lease.claim_id, self.node.life, self._record.time())
            self._record.quorum_holders.append(interval)
            try:
                await self.node.clock.sleep(draw.wait(5.0))
                self._holds_since_calm += self._is_calm
            finally:
                interval.until = self._record.time()
