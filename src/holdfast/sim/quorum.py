"""Redlock under simulation: lock servers that share nothing, and holders that ask a majority of them.

Promises: the quorum's talk, the efficiency locks and the renewals are the product's own; each server is the
memory twin of a Redis behind the network, with a clock of its own. A server that restarts has lost its
memory. What each server granted, and what it forgot, is on record.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.core.ids import Ids
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.primitives.kv import MemoryKV, Op
from holdfast.primitives.kv.commands import compare, strings
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
    """One lock server. Its node only lives and dies; what it knows is here."""

    def __init__(self, node: Node, record: Record) -> None:
        self.node = node
        self._record = record
        self._kv = MemoryKV(node.clock.now)
        node.when_dead = self._forget

    def answer(self, order: QuorumRequest) -> bool:
        """One command of a Redis."""
        key = KEYS + order.resource
        op: Op[bool]
        match order.verb:
            case Verb.TAKE:
                op = strings.set(key, order.token, nx=True, px=order.ttl_ms)
            case Verb.REFRESH:
                # As the script does: only what is held under this token gets a new end.
                op = compare.compare_and_set(key, order.token, order.token, px=order.ttl_ms)
            case _:
                op = compare.compare_and_delete(key, order.token)
        done = self._kv.execute(op)
        if done and order.verb is not Verb.RELEASE:
            self._record.granted.append(
                Granted(self.node.name, order.resource, order.token, self._record.time())
            )
        return done

    def _forget(self) -> None:
        """The restart of a server that keeps nothing on disk."""
        self._kv = MemoryKV(self.node.clock.now)
        self._record.restarts.setdefault(self.node.name, []).append(self._record.time())
        self.node.cluster.trace.sometimes("lock-server-forgot")


class RemoteNode:
    """How a holder reaches a server: see `holdfast.primitives.locks.redlock.AsyncNode`."""

    def __init__(self, server: Server, node: Node) -> None:
        self._server = server
        self._node = node

    async def ask(self, order: QuorumRequest) -> bool | None:
        net = self._node.cluster.net
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS / self._node.clock.rate):
                return await net.call(
                    self._node.name,
                    self._server.node.name,
                    order.verb.value,
                    lambda: self._server.answer(order),
                )
        except (TimeoutError, StoreUnavailable):
            return None

    async def close(self) -> None:
        return


class QuorumHolder:
    """Holds a lock that saves work, again and again. A part of the world: see `sim.part.Part`."""

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
        """Free locks are granted again, once everything works."""
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
