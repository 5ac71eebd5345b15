"""One host with its agent and its server, in virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.agent.agent import Agent
from holdfast.agent.memory import MemoryJournal
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.loop import NODE, SimLoop
from tests.unit.agent.agent_world import Host, Network, Server, agent_of


class World:
    """One host with its server, in virtual time."""

    def __init__(self, seed: int = 1) -> None:
        self.draw = Draw(seed, "agent")
        self.loop = SimLoop(self.draw.stream("loop"))  # type: ignore[abstract]
        self.clock = NodeClock(self.loop, offset=-9e8)
        self.server = Server(NodeClock(self.loop))
        self.host = Host(self.clock)
        self.network = Network(self.server, self.clock, self.draw.stream("network"))
        self.journal = MemoryJournal("j-1")
        self.settings: dict[str, Any] = {}
        self.lives = 0
        self.agent: Agent
        self.task: Any = None

    def begin(self) -> Agent:
        """A start of the agent."""
        self.lives += 1
        self.agent = agent_of(self.host, self.journal, self.network, self.clock, **self.settings)
        token = NODE.set(f"agent-{self.lives}")
        try:
            self.task = self.loop.create_task(self.agent.run())
        finally:
            NODE.reset(token)
        return self.agent

    def kill(self) -> None:
        """kill -9 of the agent."""
        self.loop.forget(f"agent-{self.lives}")
        self.host.agent_died()

    def reboot(self) -> None:
        self.kill()
        self.journal.lose_power()
        self.host.boot()

    async def until(self, is_true: Callable[[], object], seconds: float = 3_600.0) -> None:
        ends_at = self.clock.monotonic() + seconds
        while not is_true():
            assert self.clock.monotonic() < ends_at, "it did not happen"
            if self.task is not None and self.task.done():
                self.task.result()
            await self.clock.sleep(0.01)


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test in virtual time."""

    def run() -> None:
        world = World()
        try:
            world.loop.run_until_complete(test(world))
            assert world.loop.failures == []
        finally:
            world.loop.close()

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run
