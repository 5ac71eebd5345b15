"""Group commit: who shares a transaction, and whom a failure affects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.clock import SystemClock
from holdfast.core.worker.protocol import Reception
from holdfast.core.worker.wire import Changes, SyncAck, TaskChange
from holdfast.errors import StoreUnavailable
from holdfast.sync.worker.group_commit import BATCH_MAX, GATHER_CHANGES, GroupCommit
from holdfast.sync.worker.messages import Inbound, MessageAnswer


class Recorded:
    """Stands for the store: records the batches, and fails where it is asked to."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, int]]] = []
        self.bad: set[str] = set()
        self.is_away = False

    async def __call__(self, messages: Sequence[Inbound]) -> list[MessageAnswer]:
        await asyncio.sleep(0)
        self.batches.append([(m.node, m.sequence) for m in messages])
        if self.is_away:
            raise StoreUnavailable("away")
        if any(message.node in self.bad for message in messages):
            raise RuntimeError("a fault")
        return [
            MessageAnswer(Reception.APPLY, SyncAck(accepted=True, sequence=m.sequence))
            for m in messages
        ]


def message(node: str, sequence: int) -> Inbound:
    return Inbound(node, 1, sequence, Changes())


async def test_messages_that_wait_together_share_a_batch() -> None:
    store = Recorded()
    commits = GroupCommit(store, SystemClock(), gather_seconds=0.0)
    futures = [commits.put(message(node, n)) for n in (1, 2) for node in ("a", "b")]
    answers = await asyncio.gather(*futures)
    assert [answer.ack.sequence for answer in answers] == [1, 1, 2, 2]
    assert store.batches == [[("a", 1), ("b", 1), ("a", 2), ("b", 2)]]
    await commits.close()


async def test_a_batch_is_bounded() -> None:
    store = Recorded()
    commits = GroupCommit(store, SystemClock(), gather_seconds=0.0)
    await asyncio.gather(*[commits.put(message("a", n)) for n in range(BATCH_MAX * 2 + 1)])
    assert [len(batch) for batch in store.batches] == [BATCH_MAX, BATCH_MAX, 1]


async def test_a_full_batch_does_not_wait_for_others() -> None:
    store = Recorded()
    commits = GroupCommit(store, SystemClock(), gather_seconds=3600.0)
    await asyncio.gather(*[commits.put(message("a", n)) for n in range(BATCH_MAX)])
    assert len(store.batches) == 1


async def test_a_message_with_many_changes_does_not_wait_for_others() -> None:
    store = Recorded()
    commits = GroupCommit(store, SystemClock(), gather_seconds=3600.0)
    ends = tuple(TaskChange(task_id=f"t{n}", status="completed") for n in range(GATHER_CHANGES))
    future = commits.put(Inbound("a", 1, 1, Changes(task=ends)))
    assert (await future).ack.accepted
    small = commits.put(message("a", 2))
    done, _ = await asyncio.wait({small}, timeout=0.0)
    assert not done
    small.cancel()


async def test_a_fault_affects_only_its_worker() -> None:
    store = Recorded()
    store.bad = {"b"}
    commits = GroupCommit(store, SystemClock(), gather_seconds=0.0)
    futures = {node: commits.put(message(node, 1)) for node in "abc"}
    for node in "ac":
        assert (await futures[node]).ack.accepted
    with pytest.raises(RuntimeError):
        await futures["b"]
    assert (await commits.put(message("a", 2))).ack.accepted


async def test_without_the_store_every_message_stays_unanswered() -> None:
    store = Recorded()
    store.is_away = True
    commits = GroupCommit(store, SystemClock(), gather_seconds=0.0)
    futures = [commits.put(message(node, 1)) for node in "ab"]
    for future in futures:
        with pytest.raises(StoreUnavailable):
            await future
    assert len(store.batches) == 1


async def test_a_cancelled_waiter_does_not_stop_the_batch() -> None:
    store = Recorded()
    commits = GroupCommit(store, SystemClock(), gather_seconds=0.0)
    first, second = commits.put(message("a", 1)), commits.put(message("b", 1))
    first.cancel()
    assert (await second).ack.accepted
