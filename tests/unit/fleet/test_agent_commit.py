"""Group commit of agents: who shares a transaction, and who fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.clock import SystemClock
from holdfast.core.fleet.agents.wire import AgentSync, AgentSyncAnswer
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.fleet.agents.group_commit import BATCH_MAX, AgentCommit
from holdfast.fleet.agents.parts import AgentMessage, SyncAnswer
from holdfast.store.port import RowHeld


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


@pytest.mark.parametrize("error", [HoldfastError("it cannot be applied"), RowHeld("a row is held")])
async def test_a_sync_that_cannot_be_applied_fails_alone(error: Exception) -> None:
    store = Store("h7")
    store.error = error
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
