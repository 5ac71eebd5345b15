"""The agent under loss, duplicates, delays, kills and boots: one start, one true outcome, no lost result."""

from hypothesis import given, settings, strategies as st

from holdfast.agent.memory import MemoryJournal
from holdfast.agent.ports import Work
from holdfast.core.fleet.agents.journal import ProcessMark, Record
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from tests.unit.agent.agent_world import Host, Task, states
from tests.unit.agent.one_host import World

COMMANDS = (["echo", "hello"], ["true"], ["false"], ["sleep", "0.02"], ["sleep", "7"])


class SlowJournal(MemoryJournal):
    """A disk that takes its time before and after it has written, so that a fault can come between."""

    def __init__(self, clock: NodeClock, draw: Draw) -> None:
        super().__init__("j-1")
        self.clock, self.draw = clock, draw

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        await self.clock.sleep(self.draw.unit() * 0.2)
        await super().append(token, *records, sync=sync)
        await self.clock.sleep(self.draw.unit() * 0.2)


class SlowHost(Host):
    """A host on which starting takes its time."""

    async def prepare(self, work: Work) -> ProcessMark:
        mark = await super().prepare(work)
        await self.clock.sleep(0.1)
        return mark

    async def release(self, run: str) -> None:
        await self.clock.sleep(0.05)
        await super().release(run)
        await self.clock.sleep(0.05)


async def disturb(world: World, faults: Draw) -> set[str]:
    """Faults until they stop. Returns the executions that ran when the host was booted."""
    booted: set[str] = set()
    for _ in range(faults.whole(1, 6)):
        await world.clock.sleep(faults.between(0.0, faults.pick([0.05, 1.0, 12.0])))
        match faults.below(4):
            case 0:
                world.network.is_down = True
                await world.clock.sleep(faults.between(0.0, 40.0))
                world.network.is_down = False
            case 1:
                world.kill()
                await world.clock.sleep(faults.between(0.0, 3.0))
                world.begin()
            case 2:
                booted |= {
                    world.host.works[run].env["HOLDFAST_EXECUTION"] for run in running(world)
                }
                world.reboot()
                await world.clock.sleep(faults.between(0.0, 3.0))
                world.begin()
            case _:
                world.network.delay_seconds = faults.between(0.0, 0.5)
    return booted


def running(world: World) -> list[str]:
    return [*world.host.ends_at]


async def scenario(world: World, seed: int) -> None:
    faults = Draw(seed, "faults")
    world.journal = SlowJournal(world.clock, faults.stream("disk"))
    world.host = SlowHost(world.clock)
    world.network.loss = faults.pick([0.0, 0.1, 0.4])
    world.network.duplicates = faults.pick([0.0, 0.05, 0.3])
    world.begin()
    tasks = [
        world.server.submit(f"e{n}", argv=list(faults.pick(COMMANDS)), go=faults.chance(0.3))
        for n in range(faults.whole(1, 5))
    ]
    booted = await disturb(world, faults)
    world.network.loss = world.network.duplicates = world.network.delay_seconds = 0.0
    await world.until(lambda: world.server.is_done, 4_000.0)
    assert world.host.most_at_once <= 1
    for task in tasks:
        check(task, world, booted)


def check(task: Task, world: World, booted: set[str]) -> None:
    *before, last = task.results
    assert world.host.begun[task.id] == 1
    assert set(states(before)) <= {"never_started"}
    if last.state == "unknown":
        assert task.id in booted
        return
    assert last.state == "exited"
    assert last.exit_code == (1 if task.offer.argv == ["false"] else 0)
    if task.offer.argv[0] == "echo":
        assert task.output == {"stdout": b"hello"}


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_every_command_starts_once_and_has_one_true_outcome(seed: int) -> None:
    world = World(seed)
    try:
        world.loop.run_until_complete(scenario(world, seed))
        assert world.loop.failures == []
    finally:
        world.loop.close()
