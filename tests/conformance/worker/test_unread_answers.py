"""A worker that sends and never reads: what waits for it is bounded, and its session ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.access import Principal
from holdfast.core.errors import SlowConsumer
from holdfast.core.token import BOOTSTRAP
from holdfast.core.worker.wire import GatewayMessage, Hello, Ping, Renew, Welcome, WorkerMessage
from holdfast.gateway.worker.outlet import STALL_SECONDS, WAITING_MAX
from holdfast.gateway.worker.service import WorkerService
from holdfast.gateway.worker.session import REQUESTS_MAX, Received, WorkerSession
from holdfast.gateway.worker.speaker import Speaker
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.integration.worker.support import Commands

SENT = 4 * WAITING_MAX
ADMINISTRATOR: Principal = BOOTSTRAP


class Deaf:
    """A peer that sends as fast as it is read. It takes the first messages only."""

    def __init__(self, message: WorkerMessage, *, takes: int) -> None:
        self.sent = 0
        self.got: list[GatewayMessage] = []
        self._message = message
        self._takes = takes
        self._welcome = asyncio.Event()

    async def incoming(self) -> AsyncIterator[Received]:
        yield Hello(worker_id="w1", boot_id="b", types=("work",)), 10
        await self._welcome.wait()
        while self.sent < SENT:
            self.sent += 1
            yield self._message, 10

    async def take(self, message: GatewayMessage) -> None:
        if len(self.got) >= self._takes:
            await asyncio.Event().wait()
        self.got.append(message)
        if isinstance(message, Welcome):
            self._welcome.set()


@pytest.mark.parametrize("message", [Ping(n=1), Renew(), Hello(worker_id="w1", incarnation=1)])
async def test_a_worker_that_reads_nothing_is_not_read_either(
    store: Store, sync: WorkerSync, clock: VirtualClock, message: WorkerMessage
) -> None:
    service = WorkerService(store, clock, sync, Commands())
    peer = Deaf(message, takes=1)
    session = WorkerSession(service, Speaker(ADMINISTRATOR, "w1", "default"))
    running = asyncio.create_task(session.run(peer.incoming(), peer.take))
    sent = -1
    while not running.done():
        if sent == peer.sent and clock.next_wake() is not None:
            clock.pause(STALL_SECONDS)
        sent = peer.sent
        await store.feed.head()  # a turn of the store: the session may need one to go on
    with pytest.raises(SlowConsumer):
        await running
    assert peer.sent <= WAITING_MAX + REQUESTS_MAX + 1
    assert len(peer.got) == 1


async def test_a_worker_that_reads_is_answered_in_full(
    store: Store, sync: WorkerSync, clock: VirtualClock
) -> None:
    service = WorkerService(store, clock, sync, Commands())
    peer = Deaf(Ping(n=1), takes=SENT + 1)
    session = WorkerSession(service, Speaker(ADMINISTRATOR, "w1", "default"))
    await session.run(peer.incoming(), peer.take)
    assert len(peer.got) == SENT + 1
