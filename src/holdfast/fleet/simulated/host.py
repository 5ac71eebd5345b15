"""A simulated host: a machine with its disk, and an agent that is killed and started again.

Promises: a killed agent runs no more code and keeps what its journal has; a loss of power also ends its
commands and takes what was not synced. A supervisor starts the agent again after every end, as systemd does.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from holdfast.agent.agent import Agent
from holdfast.agent.ports import Transport
from holdfast.agent.settings import AgentSettings
from holdfast.clock import Clock
from holdfast.core.fleet.agents.journal import Record
from holdfast.core.fleet.model import Host
from holdfast.errors import HoldfastError
from holdfast.fleet.driving import Rig
from holdfast.fleet.simulated.commands import Behaviour
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.disk import MemoryJournal
from holdfast.fleet.simulated.machine import SimulatedMachine

SETTINGS: Final = AgentSettings(version="simulated", allow=("*", "?*"))
"""They allow every command type, the kind `shell` too: nothing is executed."""
DOWN_SECONDS: Final = (0.5, 10.0)
"""How long an agent is down after a crash."""
AGAIN_SECONDS: Final = (1.0, 60.0)
"""The first and the longest pause before an agent that ended by an error is started again."""
STEPS_MAX: Final = 12
WRITES: Final = 8
"""A crash comes before or after one of these writes of the journal, or else while the command may run."""
RUN_SECONDS: Final = 20.0
"""How long after the first write such a crash comes, at most."""
log: Final = logging.getLogger("holdfast.fleet.simulated")


class Process(Protocol):
    """A process of an agent."""

    def kill(self) -> None:
        """Ends it as SIGKILL does."""
        ...


class TaskProcess:
    """A process in real time: a task of the event loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(
            coroutine, context=contextvars.copy_context()
        )

    def kill(self) -> None:
        self._task.cancel()


Spawn = Callable[[str, Coroutine[Any, Any, None]], Process]


def spawn_task(_name: str, coroutine: Coroutine[Any, Any, None]) -> Process:
    return TaskProcess(coroutine)


class SimulatedHost:
    """One host. Killing and starting is done from outside its process."""

    def __init__(
        self,
        name: str,
        host_id: str,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        *,
        boot: str,
        crash: float = 0.0,
        settings: AgentSettings = SETTINGS,
        assumed: Behaviour | None = None,
        is_broken: bool = False,
        spawn: Spawn = spawn_task,
        keeps_history: bool = False,
        true_time: Callable[[], float] | None = None,
    ) -> None:
        """`boot`: names the first boot of the machine, and its journal. `crash`: the share of executions
        during which the agent is killed. `true_time`: see `SimulatedMachine`."""
        self.name, self.host_id = name, host_id
        self.crash = crash
        self.crashes = 0
        self.power_losses = 0
        self.journal = MemoryJournal(f"{boot}-journal")
        self.machine = SimulatedMachine(
            boot,
            clock,
            dice.stream("machine"),
            assumed=assumed,
            is_broken=is_broken,
            keeps_history=keeps_history,
            time=true_time,
        )
        self.agent: Agent | None = None
        self._transport, self._clock, self._settings, self._spawn = (
            transport,
            clock,
            settings,
            spawn,
        )
        self._dice = dice.stream("host")
        self._jitter = dice.stream("jitter")
        self._fate: dict[int, int] = {}
        """Writes of the journal until the crash of a run, by token."""
        self._process: Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._crashing: asyncio.Task[None] | None = None
        self._ends = 0
        self._lives = 0
        self.journal.before_append = self._write
        self.journal.after_append = self._write

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the agent."""
        if self._process is None:
            self._lives += 1
            self._process = self._spawn(f"{self.name}#{self._lives}", self._live(self._lives))

    def kill(self) -> None:
        """Ends the agent. Its commands go on."""
        if self._process is not None:
            process, self._process = self._process, None
            self.machine.watch(lambda: None)
            self.agent = None
            process.kill()

    def lose_power(self) -> None:
        """Ends the agent and its commands, and takes what was not synced."""
        self.kill()
        self.journal.lose_power()
        self.machine.lose_power()

    def stop(self) -> None:
        """The simulation ends."""
        self.kill()
        self.machine.stop_all()
        for task in (self._supervisor, self._crashing):
            if task is not None:
                task.cancel()

    async def _live(self, life: int) -> None:
        agent = self.agent = Agent(
            self._transport,
            self.journal,
            self.machine,
            self._clock,
            jitter=self._jitter.unit,
            settings=self._settings,
        )
        error: Exception | None = None
        try:
            await agent.run()
        except HoldfastError as fatal:
            error = fatal
        except Exception as unexpected:
            log.exception("the agent of %s died", self.name)
            error = unexpected
        if life == self._lives and self._process is not None:
            self._ended(agent, error)

    def _ended(self, agent: Agent, error: Exception | None) -> None:
        """The supervisor starts it again, ever later while it fails at once."""
        log.debug("the agent of %s ended: %s", self.name, error)
        first, longest = AGAIN_SECONDS
        self._ends = 0 if agent.incarnation is not None else self._ends + 1
        self._process = None
        self.agent = None
        self._start_in(min(longest, first * 2.0**self._ends) * (0.5 + 0.5 * self._jitter.unit()))

    def _start_in(self, seconds: float) -> None:
        async def again() -> None:
            await self._clock.sleep(seconds)
            self._supervisor = None
            self.start()

        self._supervisor = asyncio.get_running_loop().create_task(
            again(), context=contextvars.Context()
        )

    # -- crashes -----------------------------------------------------------------------------------

    async def _write(self, token: int, _records: tuple[Record, ...]) -> None:
        """Before and after each write of the journal. The crash of a run comes at one of them."""
        if not self.crash:
            return
        if token not in self._fate:
            self._fate[token] = self._drawn_step() if self._dice.chance(self.crash) else -1
            self._fate.pop(token - 100, None)
        left = self._fate[token]
        self._fate[token] = left - 1
        if left == 0:
            self.crash_now(loses_power=self._dice.chance(0.5))
            await asyncio.Event().wait()  # Nothing of this process goes on.

    def _drawn_step(self) -> int:
        step = self._dice.below(STEPS_MAX)
        if step < WRITES:
            return step
        seconds = self._dice.between(0.0, RUN_SECONDS)
        self._crashing = asyncio.get_running_loop().create_task(
            self._crash_in(seconds), context=contextvars.Context()
        )
        return -1

    async def _crash_in(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if self.crash and self._process is not None:
            self.crash_now(loses_power=self._dice.chance(0.5))

    def crash_now(self, *, loses_power: bool) -> None:
        """Kills the agent, and starts it again after a while."""
        self.crashes += 1
        self.power_losses += loses_power
        self._start_in(self._dice.between(*DOWN_SECONDS))
        if loses_power:
            self.lose_power()
        else:
            self.kill()


@asynccontextmanager
async def reach(host: Host, clock: Clock, seed: int, boot: str) -> AsyncIterator[Rig]:
    """A host for as long as a process of ours serves it (`holdfast.fleet.driving`). Its journal is in memory:
    `boot` names both, so what an earlier one ran is over, and its outcome is not known."""
    machine = SimulatedMachine(boot, clock, Dice(seed, host.name).stream("machine"))
    try:
        yield Rig(MemoryJournal(f"{boot}-journal"), machine, SETTINGS)
    finally:
        machine.stop_all()
