"""An agent that is killed, a host that boots, and an agent that is stopped."""

import pytest

from holdfast.agent.executor import CannotStart
from holdfast.agent.memory import MemoryJournal
from holdfast.agent.ports import Work
from holdfast.core.fleet.agents.journal import Record, StartedRecord
from tests.unit.agent.agent_world import Host, states
from tests.unit.agent.one_host import World, in_world


@in_world
async def test_a_restarted_agent_goes_on_with_what_runs(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"])
    await world.until(lambda: task.state == "started")
    world.kill()
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["exited"]
    assert world.host.begun == {"e1": 1}
    assert world.clock.monotonic() < 103


@in_world
async def test_a_boot_makes_a_running_command_unknown(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"])
    await world.until(lambda: task.state == "started")
    world.reboot()
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["unknown"]
    assert world.host.begun == {"e1": 1}


@pytest.mark.parametrize(("argv", "code"), [(["true"], 0), (["false"], 1)])
def test_a_probe_decides_after_a_boot(argv: list[str], code: int) -> None:
    @in_world
    async def test(world: World) -> None:
        world.begin()
        task = world.server.submit("e1", argv=["sleep", "100"], on_restart="probe", probe_argv=argv)
        await world.until(lambda: task.state == "started")
        world.reboot()
        world.begin()
        await world.until(lambda: world.server.is_done)
        assert states(task.results) == ["exited"]
        assert task.results[0].exit_code == code
        assert task.results[0].reason == "decided by the probe"
        assert world.host.begun == {"e1": 1}

    test()


@in_world
async def test_a_probe_that_cannot_be_started_leaves_it_unknown(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"], on_restart="probe", probe_argv=["true"])
    await world.until(lambda: task.state == "started")
    world.reboot()

    def refuse(work: Work) -> None:
        raise CannotStart("no processes left")

    world.host.on_prepare = refuse
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["unknown"]


PROBED: dict[str, object] = {
    "argv": ["sleep", "100"],
    "on_restart": "probe",
    "probe_argv": ["false"],
}


class DyingJournal(MemoryJournal):
    """Its agent dies when it is about to note its first probe."""

    def __init__(self, world: World) -> None:
        super().__init__("j-1")
        self._world, self._has_died = world, False

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        is_probe = any(isinstance(one, StartedRecord) and one.probe for one in records)
        if is_probe and not self._has_died:
            self._has_died = True
            self._world.kill()
            raise GeneratorExit
        await super().append(token, *records, sync=sync)


class ProbelessHost(Host):
    """No probe begins, e.g. because an abort comes before."""

    async def release(self, run: str) -> None:
        await (self.drop(run) if run.endswith("probe") else super().release(run))


@in_world
async def test_an_agent_that_dies_before_its_probe_is_noted_probes_again(world: World) -> None:
    world.journal = DyingJournal(world)
    world.begin()
    task = world.server.submit("e1", **PROBED)
    await world.until(lambda: task.state == "started")
    world.reboot()
    world.begin()
    await world.clock.sleep(1.0)
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert [(one.state, one.exit_code) for one in task.results] == [("exited", 1)]
    assert world.host.begun == {"e1": 1}


@in_world
async def test_a_probe_that_was_not_run_does_not_say_that_nothing_has_started(world: World) -> None:
    world.host = ProbelessHost(world.clock)
    world.begin()
    task = world.server.submit("e1", **PROBED)
    await world.until(lambda: task.state == "started")
    world.reboot()
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["unknown"]
    assert "its probe was not run" in task.results[0].reason


@in_world
async def test_what_had_not_started_before_a_restart_is_given_back(world: World) -> None:
    def die(work: Work) -> None:
        world.kill()
        raise GeneratorExit

    world.host.on_prepare = die
    world.begin()
    task = world.server.submit("e1")
    await world.until(lambda: task.state == "go")
    await world.clock.sleep(1.0)
    world.host.on_prepare = lambda _: None
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["never_started", "exited"]
    assert world.host.begun == {"e1": 1}


@in_world
async def test_a_stop_leaves_commands_running(world: World) -> None:
    agent = world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"])
    await world.until(lambda: task.state == "started")
    agent.stop()
    await world.until(world.task.done, 5.0)
    assert world.host.ends_at.keys() == {"1"}
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["exited"]


@in_world
async def test_a_stop_may_wait_for_commands(world: World) -> None:
    from holdfast.agent.settings import OnStop

    world.settings = {"on_stop": OnStop.WAIT}
    agent = world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"])
    world.server.submit("e2")
    await world.until(lambda: task.state == "started")
    agent.stop()
    await world.until(world.task.done)
    assert task.state == "done"
    assert world.server.tasks["e2"].state == "queued"
    assert 100 <= world.clock.monotonic() < 105


@in_world
async def test_an_idle_agent_stops_at_once_also_without_a_gateway(world: World) -> None:
    agent = world.begin()
    await world.clock.sleep(1.0)
    world.network.is_down = True
    agent.stop()
    await world.until(world.task.done, 6.0)


@in_world
async def test_a_lost_journal_proves_nothing(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "50"])
    await world.until(lambda: task.state == "started")
    world.reboot()
    world.journal = MemoryJournal("j-2")
    world.begin()
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["unknown"]
