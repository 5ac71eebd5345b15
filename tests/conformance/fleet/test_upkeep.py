"""The loops of the fleet that are about no single job, in the background."""

from __future__ import annotations

import asyncio

from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED
from holdfast.clock import SystemClock, VirtualClock
from holdfast.core.fleet.webhooks.address import AddressRules
from holdfast.fleet.blocks.blocks import LOOK_SECONDS, BlockLoop, Blocks, NewBlock
from holdfast.fleet.fleet import Fleet, FleetParts
from holdfast.fleet.upkeep import FleetUpkeep
from holdfast.store.store import Store
from tests.conformance.fleet.endpoint import open_endpoint
from tests.conformance.fleet.support import BY, PROJECT, add_host, events


async def test_an_event_reaches_an_endpoint_by_itself(store: Store) -> None:
    fleet = Fleet(store, parts=FleetParts(addresses=AddressRules(["127.0.0.1"])))
    bus = LocalBus()
    upkeep = FleetUpkeep(fleet, store, SystemClock(), bus)
    async with open_endpoint() as endpoint, upkeep.running():
        await fleet.webhooks.add_endpoint(PROJECT, endpoint.url, BY, kinds=["host.*"])
        await add_host(store, "web-1")
        bus.publish(FEED)
        async with asyncio.timeout(30):
            await endpoint.has_received(1)
    assert endpoint.types == ["host.added"]


async def test_the_loop_of_blocks_sleeps_until_one_ends(store: Store, clock: VirtualClock) -> None:
    await add_host(store, "web-1")
    blocks = Blocks(store)
    loop = BlockLoop(blocks, store, clock)
    assert await loop.step() == LOOK_SECONDS
    for seconds in (4.0, 100.0):
        new = NewBlock(host="web-1", reason="r", expires_at=store.now() + seconds)
        await blocks.add(PROJECT, new, BY)
    assert await loop.step() == 4.0
    clock.set(clock.now() + 4.0)
    assert await loop.step() == LOOK_SECONDS
    assert len(await events(store, "block.expired")) == 1
