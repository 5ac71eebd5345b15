"""When a node is live, and what is said about the node of a running task."""

from __future__ import annotations

from holdfast import TaskQueue
from holdfast.core import node as rules
from holdfast.core.claiming import ClaimRequest
from holdfast.core.codec import dumps
from holdfast.queue.checks import nodes as check_nodes
from holdfast.store.scripts import nodes
from holdfast.testing import harness

LEASE_SECONDS = 9.0
REPORT = dumps({"lease_seconds": LEASE_SECONDS, "types": ["work"], "queues": ["default"]})


async def test_a_node_is_live_for_its_lease_after_a_heartbeat(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        store = (await queue.open()).store
        await store.heartbeat("killed", REPORT, [], LEASE_SECONDS)
        h.clock.set(h.now() + LEASE_SECONDS - 1)
        assert "killed" in {node.id for node in await queue.get_nodes()}
        h.clock.set(h.now() + 2)
        assert "killed" not in {node.id for node in await queue.get_nodes()}
        [node] = [node for node in await queue.get_nodes(live=False) if node.id == "killed"]
        assert not node.is_live
        await store.heartbeat("other", REPORT, [], LEASE_SECONDS)
        text = (await check_nodes(queue, 0.0)).text
        assert "killed (last heard of 10s ago)" in text


def test_a_silent_node_is_lost_after_three_leases() -> None:
    assert not rules.is_live(0.0, LEASE_SECONDS, LEASE_SECONDS)
    assert not rules.is_lost(0.0, LEASE_SECONDS, 3 * LEASE_SECONDS - 1)
    assert rules.is_lost(0.0, LEASE_SECONDS, 3 * LEASE_SECONDS)


def test_a_node_is_late_when_it_has_missed_two_heartbeats() -> None:
    """A process sends three within a lease; a node of a gateway names its interval."""
    assert rules.late_at(10.0, {"lease_seconds": 9.0}) == 16.0
    assert rules.late_at(10.0, {"lease_seconds": 20.0, "heartbeat_seconds": 20.0}) == 50.0
    assert rules.late_at(10.0, {}) == 30.0


async def test_why_says_when_the_node_of_a_running_task_was_heard_of(queue: TaskQueue) -> None:
    queue.register_handler("work", lambda task: None)
    async with harness(queue) as h:
        task_id = await queue.enqueue("work")
        store = (await queue.open()).store
        await store.heartbeat("killed", REPORT, [], LEASE_SECONDS)
        claim = ClaimRequest(
            node="killed",
            queues=("default",),
            types=("work",),
            limit=1,
            lease_seconds=LEASE_SECONDS,
        )
        await store.claim(claim)
        h.clock.set(h.now() + 4)
        [reason] = (await queue.why(task_id)).reasons
        assert reason.text == "it runs on killed, last heard of 4 s ago, attempt 1 of 3"
        assert reason.data["heard_seconds_ago"] == 4.0
        h.clock.set(h.now() + 8)
        [reason] = (await queue.why(task_id)).reasons
        assert "last heard of 12 s ago" in reason.text
        assert "returns to the queue" in reason.text
        await store.run(lambda dialect, ids, now: nodes.leave(dialect, ids, now, node="killed"))
        [reason] = (await queue.why(task_id)).reasons
        assert "which no longer reports" in reason.text
