"""Simulated hosts in the simulator: each agent is a separate process, which can be killed."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.fleet.model import Host
from holdfast.fleet.simulated.commands import Behaviour
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.faults import NO_FAULTS, SimulatedFaults
from holdfast.fleet.simulated.host import Process, SimulatedHost
from holdfast.fleet.simulated.link import Desk, LossyLink
from holdfast.sim.clock import NodeClock
from holdfast.sim.loop import NODE, SimLoop


class SimProcess:
    """A process of the event loop: nothing of it runs after a kill, no `finally` either."""

    def __init__(self, loop: SimLoop, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        self._loop = loop
        self._name = f"agent {name}"
        context = contextvars.Context()
        context.run(NODE.set, self._name)
        self._task = loop.create_task(coroutine, context=context)

    def kill(self) -> None:
        self._loop.forget(self._name)


def spawner(loop: SimLoop) -> Callable[[str, Coroutine[Any, Any, None]], Process]:
    return lambda name, coroutine: SimProcess(loop, name, coroutine)


def clock_of(loop: SimLoop, faults: SimulatedFaults, dice: Dice) -> NodeClock:
    """The clock of a host: off by up to the skew, and a little fast or slow."""
    if not faults.skew:
        return NodeClock(loop)
    offset = dice.between(-faults.skew, faults.skew)
    return NodeClock(loop, rate=dice.between(0.995, 1.005), offset=offset)


class HostInSim:
    """A host with its link. Its faults can be ended."""

    def __init__(
        self,
        loop: SimLoop,
        host: Host,
        desk: Desk,
        faults: SimulatedFaults,
        dice: Dice,
        *,
        assumed: Behaviour | None = None,
    ) -> None:
        clock = clock_of(loop, faults, dice.stream("clock"))
        self.link = LossyLink(host.id, desk, faults, dice.stream("link"), clock)
        self.host = SimulatedHost(
            host.name,
            host.id,
            self.link,
            clock,
            dice,
            boot=host.name,
            crash=faults.crash,
            assumed=assumed,
            spawn=spawner(loop),
            keeps_history=True,
            true_time=loop.time,
        )

    def calm(self) -> None:
        """No fault happens any more."""
        self.link.faults = NO_FAULTS
        self.host.crash = 0.0
