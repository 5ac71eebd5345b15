"""Events of nodes, locks and queues are written with their changes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from holdfast import TaskQueue
from holdfast.core.event import Event
from holdfast.core.lease import LeaseGranted, LeaseRequest
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.primitives.locks.locks import Locks
from holdfast.store.scripts import leases, nodes
from tests.statements import execute


async def events_of(queue: TaskQueue, family: str) -> list[Event]:
    events = [event async for event in queue.events(follow=False)]
    return [event for event in events if event.kind.startswith(f"{family}.")]


async def test_a_node_registers_and_leaves(shared_url: str) -> None:
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    async with queue:
        (node,) = await queue.get_nodes()
        assert queue.parts.sessions.engine is not None
        await queue.parts.sessions.engine.heartbeat.tick()
        await queue.parts.sessions.engine.heartbeat.tick()
        assert [(e.kind, e.node) for e in await events_of(queue, "node")] == [
            ("node.registered", node.id)
        ]
    watcher = TaskQueue(shared_url)
    assert [e.kind for e in await events_of(watcher, "node")] == ["node.registered", "node.left"]
    await watcher.stop()


async def test_a_silent_node_is_lost_once_and_may_come_back(shared_url: str) -> None:
    queues = [TaskQueue(shared_url) for _ in range(4)]
    stores = [(await queue.open()).store for queue in queues]
    store = stores[0]
    info = '{"lease_seconds":2.0}'
    seen_at = store.now() - 60
    await execute(store, "join_node", id="silent", now=seen_at, info_json=info)
    await store.heartbeat("alive", info, [], 2.0)
    sweeps = (each.run(partial(nodes.lose, forget_before=0.0)) for each in stores * 3)
    assert sum(await asyncio.gather(*sweeps)) == 1
    (lost,) = [e for e in await events_of(queues[0], "node") if e.kind == "node.lost"]
    assert (lost.node, lost.seen_at) == ("silent", seen_at)

    await store.heartbeat("silent", info, [], 2.0)
    await store.heartbeat("silent", info, [], 2.0)
    assert await store.run(partial(nodes.lose, forget_before=0.0)) == 0
    found = [(e.kind, e.node) for e in await events_of(queues[0], "node")]
    assert found == [
        ("node.registered", "alive"),
        ("node.lost", "silent"),
        ("node.registered", "silent"),
    ]
    for queue in queues:
        await queue.stop()


async def test_a_lock_that_is_revoked_or_taken_over_has_an_event(shared_url: str) -> None:
    locks, queue = Locks.connect(shared_url, owner="ann"), TaskQueue(shared_url)
    async with locks:
        for _ in range(3):
            async with locks.hold("plain"):
                pass
        await locks.acquire("host:1")
        await locks.revoke("host:1", by="operator", reason="stuck")
        (revoked,) = await events_of(queue, "lock")
        assert revoked.kind == "lock.revoked"
        assert revoked.data == {
            "resource": "host:1",
            "fence": 2,
            "owner": "ann",
            "actor": "operator",
            "reason": "stuck",
        }
        backend = StoreBackend((await queue.open()).store)

        async def ask(owner: str, later: float) -> Any:
            wanted = LeaseRequest("host:2", owner, owner, 10.0, 0.0, 0.0)
            return await backend.run(lambda hinter, now: leases.ask(hinter, wanted, now + later))

        assert isinstance(await ask("ann", 0.0), LeaseGranted)
        assert isinstance(await ask("bob", 100.0), LeaseGranted)
        assert isinstance(await ask("bob", 100.0), LeaseGranted)
    _, taken = await events_of(queue, "lock")
    assert (taken.kind, taken.resource, taken.fence) == ("lock.taken_over", "host:2", 2)
    assert (taken.owner_before, taken.owner) == ("ann", "bob")
    await queue.stop()


async def test_a_subscriber_receives_the_event_of_a_revoked_lock(shared_url: str) -> None:
    queue, locks = TaskQueue(shared_url), Locks.connect(shared_url)
    seen: asyncio.Queue[Event] = asyncio.Queue()
    queue.on_event(seen.put_nowait)
    await queue.open()
    async with locks, asyncio.timeout(20):
        await locks.acquire("r")
        await locks.revoke("r", by="operator")
        assert (await seen.get()).kind == "lock.revoked"
    await queue.stop()


async def test_a_resume_that_changes_nothing_has_no_event(shared_url: str) -> None:
    queue = TaskQueue(shared_url)
    await queue.pause_queue("default", actor="ann", reason="a deploy")
    await queue.resume_queue("default", actor="bob")
    await queue.resume_queue("default", actor="bob")
    assert [(e.kind, e.actor) for e in await events_of(queue, "queue")] == [
        ("queue.paused", "ann"),
        ("queue.resumed", "bob"),
    ]
    await queue.stop()
