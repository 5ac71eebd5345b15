"""A Redlock caller that is cancelled or interrupted releases what it acquired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.clock import VirtualClock
from holdfast.primitives.locks import AsyncRedlock, Redlock
from holdfast.primitives.locks.nodes import MemoryNode
from holdfast.primitives.locks.quorum import QuorumRequest, Timing, Verb
from holdfast.store.backends import secret_ids
from tests.cancelling import CancelAt, cancelled_everywhere


class SlowNode:
    """Acts at once and answers some event loop iterations later."""

    def __init__(self, clock: Callable[[], float], iterations: int) -> None:
        self._node = MemoryNode(clock)
        self._iterations = iterations

    async def ask(self, order: QuorumRequest) -> bool | None:
        for _ in range(self._iterations):
            await asyncio.sleep(0)
        answer = self._node.ask(order)
        for _ in range(self._iterations):
            await asyncio.sleep(0)
        return answer

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_call_cancelled_at_any_await_holds_nothing(nodes: int, times: int) -> None:
    clock = VirtualClock()
    slow_nodes = [SlowNode(clock.monotonic, delay) for delay in range(1, nodes + 1)]
    redlock = AsyncRedlock(slow_nodes, Timing(clock.monotonic), secret_ids())

    async def scene(at: CancelAt) -> None:
        resource = f"r-{at._suspension}"
        try:
            token = await at.run(redlock.acquire(resource, 60_000))
            assert not at.has_struck
        except asyncio.CancelledError:
            while redlock._writes.tasks:
                await asyncio.wait(list(redlock._writes.tasks))
            token = await redlock.acquire(resource, 60_000)
        assert token is not None

    assert await cancelled_everywhere(scene, times=times) >= 1


def test_an_interrupted_call_releases_what_it_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    redlock = Redlock(clock=VirtualClock().monotonic)
    ask = MemoryNode.ask

    def interrupted(self: MemoryNode, order: QuorumRequest) -> bool:
        answer = ask(self, order)
        if order.verb is Verb.TAKE:
            raise KeyboardInterrupt
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(MemoryNode, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            redlock.acquire("r", 60_000)
    assert redlock.acquire("r", 60_000) is not None
