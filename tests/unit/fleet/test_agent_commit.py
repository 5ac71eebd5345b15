"""Group commit of agents: who shares a transaction, and who fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.clock import SystemClock, VirtualClock
from holdfast.core.fleet.agents.wire import AgentSync, AgentSyncAnswer
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.fleet.agents.group_commit import BATCH_MAX, AgentCommit
from holdfast.fleet.agents.parts import AgentMessage, SyncAnswer
from holdfast.store.port import ROW_WAIT_SECONDS, RowHeld


def message(host: str, seq: int = 1) -> AgentMessage:
    return AgentMessage(host, AgentSync(boot_id="b", incarnation=1, seq=seq))


class Store:
    """Applies batches, except those with a host that it cannot apply."""

    def __init__(self, *bad: str) -> None:
        self.bad = set(bad)
        self.batches: list[list[tuple[str, int]]] = []
        self.error: Exception = HoldfastError("it cannot be applied")

    async def apply(self, messages: Sequence[AgentMessage]) -> list[SyncAnswer]:
        self.batches.append([(one.host_id, one.sync.seq) for one in messages])
        if self.bad & {one.host_id for one in messages}:
            raise self.error
        return [
            AgentSyncAnswer(
                seq=one.sync.seq, heartbeat_seconds=25.0, lease_seconds=60.0, server_epoch="e"
            )
            for one in messages
        ]


async def test_syncs_of_many_agents_share_a_transaction() -> None:
    store = Store()
    commit = AgentCommit(store.apply, SystemClock())
    answers = await asyncio.gather(*(commit.put(message(f"h{n}")) for n in range(50)))
    assert len(store.batches) == 1
    assert [one.seq for one in answers if isinstance(one, AgentSyncAnswer)] == [1] * 50


async def test_two_syncs_of_an_agent_are_two_transactions_in_order() -> None:
    store = Store()
    commit = AgentCommit(store.apply, SystemClock())
    await asyncio.gather(*(commit.put(message("h", seq)) for seq in (1, 2, 3)))
    assert store.batches == [[("h", 1)], [("h", 2)], [("h", 3)]]


async def test_a_batch_is_bounded() -> None:
    store = Store()
    commit = AgentCommit(store.apply, SystemClock())
    await asyncio.gather(*(commit.put(message(f"h{n}")) for n in range(BATCH_MAX + 1)))
    assert [len(batch) for batch in store.batches] == [BATCH_MAX, 1]


async def test_a_sync_that_cannot_be_applied_fails_alone() -> None:
    store = Store("h7")
    commit = AgentCommit(store.apply, SystemClock())
    futures = [commit.put(message(f"h{n}")) for n in range(100)]
    await asyncio.wait(futures)
    failed = [n for n, future in enumerate(futures) if future.exception() is not None]
    assert failed == [7]
    assert len(store.batches) < 20, "the batch was halved"


async def test_a_store_that_is_away_fails_all_and_is_asked_once() -> None:
    store = Store("h1")
    store.error = StoreUnavailable("away")
    commit = AgentCommit(store.apply, SystemClock())
    futures = [commit.put(message(f"h{n}")) for n in range(3)]
    await asyncio.wait(futures)
    assert len(store.batches) == 1
    for future in futures:
        with pytest.raises(StoreUnavailable):
            future.result()


async def test_a_sync_whose_caller_has_gone_is_left_out() -> None:
    store = Store()
    commit = AgentCommit(store.apply, SystemClock())
    gone, there = commit.put(message("h1")), commit.put(message("h2"))
    gone.cancel()
    await there
    assert store.batches == [[("h2", 1)]]


class HeldStore(Store):
    """Answers syncs of hosts whose rows are held with an error, or ends their whole transaction with it."""

    def __init__(self, *held: str, is_found_early: bool) -> None:
        super().__init__(*(() if is_found_early else held))
        self.held = set(held)
        self.row_held = RowHeld("a row is held")
        self.error = self.row_held

    async def apply(self, messages: Sequence[AgentMessage]) -> list[SyncAnswer]:
        answers = await super().apply(messages)
        return [
            self.row_held if message.host_id in self.held else answer
            for message, answer in zip(messages, answers, strict=True)
        ]

    def free(self) -> None:
        self.held.clear()
        self.bad.clear()


async def moving(clock: VirtualClock, future: asyncio.Future[SyncAnswer]) -> None:
    """Moves the clock until the future has ended."""
    async with asyncio.timeout(30.0):
        while not future.done():
            if (due_at := clock.next_wake()) is not None:
                clock.set(due_at)
            await asyncio.sleep(0)


@pytest.mark.parametrize("is_found_early", [True, False])
async def test_a_sync_with_a_held_row_waits_alone_and_keeps_its_order(is_found_early: bool) -> None:
    store, clock = HeldStore("h7", is_found_early=is_found_early), VirtualClock()
    commit = AgentCommit(store.apply, clock, gather_seconds=0.0)
    futures = [commit.put(message(f"h{n}")) for n in range(100)]
    held = futures.pop(7)
    await asyncio.gather(*futures)
    behind, beside = commit.put(message("h7", 2)), commit.put(message("h8", 2))
    await beside
    assert not held.done()
    assert not behind.done()
    store.free()
    store.batches.clear()
    await moving(clock, behind)
    assert held.done()
    assert store.batches == [[("h7", 1)], [("h7", 2)]]


async def test_a_sync_waits_for_a_held_row_for_a_bounded_time() -> None:
    store, clock = HeldStore("h1", is_found_early=True), VirtualClock()
    commit = AgentCommit(store.apply, clock, gather_seconds=0.0)
    held, behind = commit.put(message("h1")), commit.put(message("h1", 2))
    before = clock.monotonic()
    for future in (held, behind):
        await moving(clock, future)
        with pytest.raises(RowHeld):
            future.result()
    assert clock.monotonic() - before < 3 * ROW_WAIT_SECONDS


async def test_what_waits_for_held_rows_fails_when_the_commit_closes() -> None:
    store = HeldStore("h1", "h2", is_found_early=True)
    commit = AgentCommit(store.apply, VirtualClock(), gather_seconds=0.0)
    futures = [commit.put(message(host, seq)) for host in ("h1", "h2") for seq in (1, 2)]
    await commit.close()
    for future in futures:
        with pytest.raises(RowHeld):
            future.result()
