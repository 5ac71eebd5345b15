"""The way from a simulated host to a gateway: messages are late, lost, doubled, overtaken, or cut off.

Promises: without faults a call is a plain call. A lost message costs its connection: the sender notices after
a while. A request that its sender has given up may still arrive. Never: changes a message.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from holdfast.clock import Clock
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.fleet.agents.wire import AgentStart, AgentStarted, AgentSync, AgentSyncAnswer
from holdfast.errors import HoldfastError
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.faults import SimulatedFaults

T = TypeVar("T")
NOTICE_SECONDS: Final = (0.2, 5.0)
"""When the sender of a lost message notices."""
LATE_SECONDS: Final = (1.0, 30.0)
"""How late a message is that later ones overtake."""
CUT_SECONDS: Final = 20.0
"""How long a host is cut off, on average."""


class Desk(Protocol):
    """The side of the server: what an agent calls, for the host that it speaks for."""

    async def start(self, host_id: str, start: AgentStart) -> AgentStarted: ...

    async def sync(self, host_id: str, sync: AgentSync) -> AgentSyncAnswer: ...


class PerfectLink:
    """See `holdfast.agent.ports.Transport`."""

    def __init__(self, host_id: str, desk: Desk) -> None:
        self._host_id = host_id
        self._desk = desk

    async def start(self, start: AgentStart) -> AgentStarted:
        return await self._desk.start(self._host_id, start)

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        return await self._desk.sync(self._host_id, sync)


class Cuts:
    """When a host is cut off. The times are drawn as they are reached."""

    def __init__(self, share: float, dice: Dice) -> None:
        self._share = share
        self._dice = dice
        self._is_cut = dice.chance(share)
        self._until: float | None = None

    def is_cut(self, now: float) -> bool:
        """Calls come in the order of their times."""
        if not self._share:
            return False
        if self._until is None:
            self._until = now + self._rest()
        while now >= self._until:
            self._is_cut = not self._is_cut
            self._until += self._rest()
        return self._is_cut

    def _rest(self) -> float:
        """How long the present state lasts."""
        share = self._share
        mean = CUT_SECONDS if self._is_cut else CUT_SECONDS * (1.0 - share) / share
        return self._dice.wait(mean)


class LossyLink:
    """See `holdfast.agent.ports.Transport`."""

    def __init__(
        self, host_id: str, desk: Desk, faults: SimulatedFaults, dice: Dice, clock: Clock
    ) -> None:
        self._host_id = host_id
        self._desk = desk
        self.faults = faults
        """They may change while the link is used."""
        self._dice = dice
        self._clock = clock
        self._cuts = Cuts(faults.partition, dice.stream("cuts"))
        self._strays: set[asyncio.Task[None]] = set()
        self._context = contextvars.copy_context()

    async def start(self, start: AgentStart) -> AgentStarted:
        return await self._exchange(lambda: self._desk.start(self._host_id, start))

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        return await self._exchange(lambda: self._desk.sync(self._host_id, sync))

    async def _exchange(self, call: Callable[[], Awaitable[T]]) -> T:
        dice, faults = self._dice, self.faults
        if dice.chance(faults.reorder):
            self._stray(call, dice.between(*LATE_SECONDS))
            await self._give_up()
        if self._is_lost():
            await self._give_up()
        if dice.chance(faults.duplicate):
            self._stray(call, self._delay() + dice.between(0.0, LATE_SECONDS[0]))
        await self._travel()
        answer = await call()
        if self._is_lost():
            await self._give_up()
        await self._travel()
        return answer

    def _is_lost(self) -> bool:
        is_cut = self.faults.partition > 0.0 and self._cuts.is_cut(self._clock.monotonic())
        return is_cut or self._dice.chance(self.faults.loss)

    def _delay(self) -> float:
        low, high = self.faults.delay
        return self._dice.between(low, high)

    async def _travel(self) -> None:
        if (seconds := self._delay()) > 0.0:
            await self._clock.sleep(seconds)

    async def _give_up(self) -> None:
        await self._clock.sleep(self._dice.between(*NOTICE_SECONDS))
        raise GatewayUnavailable("the connection was lost (simulated)")

    # -- messages without a waiting sender -------------------------------------------------------------

    def _stray(self, call: Callable[[], Awaitable[object]], seconds: float) -> None:
        # The message is on its way: it does not end with its sender.
        task = asyncio.get_running_loop().create_task(
            self._arrive(call, seconds), context=self._context
        )
        self._strays.add(task)
        task.add_done_callback(self._strays.discard)

    async def _arrive(self, call: Callable[[], Awaitable[object]], seconds: float) -> None:
        await self._clock.sleep(seconds)
        try:
            await call()
        except HoldfastError:
            return  # Its sender does not listen any more.

    def close(self) -> None:
        """The simulation ends: nothing arrives any more."""
        for task in self._strays:
            task.cancel()
