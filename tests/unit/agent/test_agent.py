"""The loop of the agent against a server in memory, in virtual time."""

from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdfast.agent.agent import Agent
from holdfast.agent.executor import CannotStart
from holdfast.agent.memory import MemoryJournal
from holdfast.agent.ports import ExitRecord, StreamEnd, Work
from holdfast.core.errors import NodeFenced
from holdfast.core.fleet.agents.journal import Record, StartedRecord
from holdfast.core.fleet.agents.wire import AgentBlock, AgentStart, AgentStarted, AgentSync
from holdfast.errors import DiskFull, InvalidInput
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.loop import NODE, SimLoop
from tests.unit.agent.agent_world import Host, Network, Server, agent_of, states


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


@in_world
async def test_a_command_goes_from_offer_to_ack(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["echo", "hello", "world"])
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["exited"]
    assert task.results[0].exit_code == 0
    assert task.output == {"stdout": b"hello world"}
    await world.until(lambda: not world.agent.runs.by_token)
    assert world.host.begun == {"e1": 1}
    # An accept, and a result with its output: two syncs beside the held ones.
    spoken = [message for message in world.server.messages if message.accepts or message.results]
    assert [(len(m.accepts), len(m.results), len(m.chunks)) for m in spoken] == [
        (1, 0, 0),
        (0, 1, 1),
    ]
    assert world.host.exits == {}


@in_world
async def test_a_command_with_an_early_go_needs_one_sync(world: World) -> None:
    world.begin()
    world.server.submit("e1", go=True)
    await world.until(lambda: world.server.is_done)
    assert all(not message.accepts for message in world.server.messages)
    assert world.host.begun == {"e1": 1}


@in_world
async def test_offers_reach_an_idle_agent_at_once_and_idle_costs_little(world: World) -> None:
    world.begin()
    await world.clock.sleep(1_000.0)
    assert world.network.calls <= 1_000 / 25 + 2
    began_at = world.clock.monotonic()
    world.server.submit("e1")
    await world.until(lambda: world.server.is_done)
    assert world.clock.monotonic() - began_at < 0.1


@in_world
async def test_a_server_that_does_not_hold_is_asked_rarely(world: World) -> None:
    world.server.holds = False
    world.begin()
    await world.clock.sleep(1_000.0)
    assert world.network.calls < 80


@in_world
async def test_commands_run_one_after_another(world: World) -> None:
    world.begin()
    tasks = [world.server.submit(f"e{n}", argv=["sleep", "3"]) for n in range(5)]
    await world.until(lambda: world.server.is_done)
    assert world.host.most_at_once == 1
    assert [states(task.results) for task in tasks] == [["exited"]] * 5


@in_world
async def test_a_long_command_is_reported_as_started_and_its_end_at_once(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"])
    await world.until(lambda: task.state == "started")
    await world.until(lambda: world.server.is_done)
    assert 100 <= world.clock.monotonic() < 101
    # Beside the first syncs, one for each third of the lease.
    assert world.network.calls < 12


@in_world
async def test_an_abort_reaches_a_running_command(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "1000"])
    await world.until(lambda: task.state == "started")
    world.server.abort("e1")
    await world.until(lambda: world.server.is_done)
    await world.until(lambda: not world.server.commands)
    assert (task.results[0].killed, task.results[0].signal) == (True, 15)
    assert world.server.acks == {"ivn_e1": "done"}
    assert world.clock.monotonic() < 5


@in_world
async def test_an_abort_of_what_does_not_run_is_refused(world: World) -> None:
    world.begin()
    world.server.submit("e1")
    await world.until(lambda: world.server.is_done)
    world.server.abort("e1")
    await world.until(lambda: not world.server.commands)
    assert world.server.acks == {"ivn_e1": "refused"}


@in_world
async def test_results_wait_for_a_gateway_that_is_away(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "10"])
    await world.until(lambda: task.state == "started")
    world.network.is_down = True
    await world.clock.sleep(600.0)
    assert task.results == []
    world.network.is_down = False
    await world.until(lambda: world.server.is_done, 60.0)
    assert states(task.results) == ["exited"]


@in_world
async def test_no_message_has_a_part_of_a_secret_while_output_grows(world: World) -> None:
    """Nor after a restart: the journal has the offer."""
    secret = "hunter2-hunter3"
    fields = {"env": {"PW": secret}, "secret_env": ["PW"]}
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"], **fields)
    await world.until(lambda: task.state == "started")
    run = str(task.token)
    for part in (b"pw=hunter2", b"-hunter"):
        world.host.output[run] += part
        before = len(world.server.messages)
        await world.clock.sleep(5.0)
        assert task.output == {"stdout": b"pw="}
        assert len(world.server.messages) - before < 20, (
            "bytes that wait are not tried again and again"
        )
    world.kill()
    world.begin()
    world.host.output[run] += b"3 and more hunter"
    await world.until(lambda: len(task.output["stdout"]) > 20)
    assert task.output["stdout"] == b"pw=*************** and more "
    await world.until(lambda: world.server.is_done)
    assert task.output["stdout"] == b"pw=*************** and more hunter"
    sent = b"".join(b64decode(c.data_base64) for m in world.server.messages for c in m.chunks)
    assert b"hunter2" not in sent


@in_world
async def test_no_message_has_a_part_of_a_secret_that_the_limit_of_the_output_cut(
    world: World,
) -> None:
    secret = "TOPSECRET-0123456789"
    fields = {"env": {"PW": secret}, "secret_env": ["PW"]}
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "100"], **fields)
    await world.until(lambda: task.state == "started")
    run = str(task.token)
    head, tail = b"head " + secret[:12].encode(), secret[4:].encode() + b" tail"
    world.host.output[run] += head + tail
    streams = {"stdout": StreamEnd(len(head + tail) + 50, "", (len(head), 50))}
    world.host.exits[run] = ExitRecord(state="exited", exit_code=0, streams=streams)
    world.host.changed()
    await world.until(lambda: world.server.is_done)
    assert task.output["stdout"] == b"head " + b"*" * 28 + b" tail"
    assert task.gaps == {"stdout": 50}


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


class FullJournal(MemoryJournal):
    """A disk that has no room for some time."""

    full = False

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        if self.full:
            raise DiskFull("no space left")
        await super().append(token, *records, sync=sync)


@in_world
async def test_a_full_disk_refuses_offers_for_now(world: World) -> None:
    journal = world.journal = FullJournal("j-1")
    journal.full = True
    world.begin()
    task = world.server.submit("e1")
    await world.until(lambda: task.results)
    assert states(task.results)[0] == "never_started"
    assert world.host.begun == {}
    journal.full = False
    await world.until(lambda: world.server.is_done)
    assert world.host.begun == {"e1": 1}


@in_world
async def test_a_disk_that_fills_before_the_start_starts_nothing(world: World) -> None:
    journal = world.journal = FullJournal("j-1")

    def fill(work: Work) -> None:
        journal.full = True

    world.host.on_prepare = fill
    world.begin()
    task = world.server.submit("e1")
    await world.until(lambda: task.results)
    assert states(task.results)[0] == "never_started"
    assert world.host.begun == {}
    journal.full = False
    world.host.on_prepare = lambda _: None
    await world.until(lambda: world.server.is_done)
    assert world.host.begun == {"e1": 1}


@pytest.mark.parametrize(
    ("allow", "fields", "reason"),
    [
        (("ping", "fac*"), {}, "does not allow command type 'exec'"),
        (("*",), {"command_type": "shell", "kind": "shell"}, "does not allow"),
        (("*",), {"kind": "builtin", "argv": ["dance"]}, "does not know the builtin"),
        (("*",), {"kind": "builtin", "argv": ["update"]}, "no command for updates"),
        (("*",), {"kind": "levitate"}, "cannot run kind"),
        (("*",), {"argv": []}, "cannot run kind"),
    ],
)
def test_what_is_not_allowed_is_refused(
    allow: tuple[str, ...], fields: dict[str, object], reason: str
) -> None:
    @in_world
    async def test(world: World) -> None:
        world.settings = {"allow": allow}
        world.begin()
        task = world.server.submit("e1", **fields)
        await world.until(lambda: world.server.is_done)
        assert states(task.results) == ["refused"]
        assert reason in task.results[0].reason
        assert world.host.begun == {}

    test()


@in_world
async def test_a_shell_runs_where_it_is_allowed(world: World) -> None:
    world.settings = {"allow": ("*", "shell")}
    works: list[Work] = []
    world.host.on_prepare = works.append
    world.begin()
    world.server.submit("e1", command_type="shell", kind="shell", argv=["echo $HOME"])
    await world.until(lambda: world.server.is_done)
    assert works[0].argv == ("/bin/sh", "-c", "echo $HOME")
    assert works[0].env == {"HOLDFAST_JOB": "job_1", "HOLDFAST_EXECUTION": "e1"}


@in_world
async def test_a_block_keeps_commands_off_until_it_is_over(world: World) -> None:
    world.server.block(
        AgentBlock(id="blk_1", command_type="ex*", reason="frozen", expires_in_seconds=100.0)
    )
    world.begin()
    blocked = world.server.submit("e1")
    await world.until(lambda: len(blocked.results) > 2)
    assert set(states(blocked.results)) == {"never_started"}
    assert "blk_1: frozen" in blocked.results[0].reason
    await world.until(lambda: world.server.is_done)
    assert world.clock.monotonic() >= 100
    assert world.host.begun == {"e1": 1}


@in_world
async def test_a_window_is_judged_by_the_server(world: World) -> None:
    world.server.block(
        AgentBlock(id="blk_1", command_type="*", reason="nights", window={"rrule": "FREQ=DAILY"})
    )
    world.begin()
    world.server.submit("e1")
    await world.until(lambda: world.server.is_done)
    assert world.host.begun == {"e1": 1}


@pytest.mark.parametrize(("stale_blocks", "begun"), [("strict", 0), ("best_effort", 1)])
def test_a_stale_view_of_blocks(stale_blocks: str, begun: int) -> None:
    @in_world
    async def test(world: World) -> None:
        from holdfast.agent.settings import StaleBlocks

        world.settings = {"stale_blocks": StaleBlocks(stale_blocks)}
        agent = world.begin()
        await world.clock.sleep(1.0)
        # The server names a newer list and does not send it.
        judge = world.server.judge

        def without_blocks(sync: AgentSync) -> Any:
            from msgspec.structs import replace

            return replace(judge(sync), block_epoch=9, blocks=None)

        world.server.judge = without_blocks  # type: ignore[method-assign]
        await world.clock.sleep(400.0)
        assert agent.runs.blocks.is_stale(world.clock.monotonic())
        world.server.submit("e1")
        await world.clock.sleep(60.0)
        assert world.host.begun["e1"] == begun

    test()


@in_world
async def test_builtins_answer_without_a_process(world: World) -> None:
    world.begin()
    ping = world.server.submit("e1", command_type="ping", kind="builtin", argv=["ping"])
    facts = world.server.submit("e2", command_type="facts", kind="builtin", argv=["facts"])
    noop = world.server.submit("e3", command_type="noop", kind="noop", argv=[])
    await world.until(lambda: world.server.is_done)
    assert ping.output == {"stdout": b"pong\n"}
    assert b'"os": "test"' in facts.output["stdout"]
    assert noop.output == {}
    assert [task.results[0].exit_code for task in (ping, facts, noop)] == [0, 0, 0]
    assert world.host.begun == {}


@in_world
async def test_a_drained_agent_takes_nothing_until_it_is_restarted(world: World) -> None:
    world.begin()
    drain = world.server.submit("e1", command_type="drain", kind="builtin", argv=["drain"])
    await world.until(lambda: world.server.is_done)
    assert drain.results[0].exit_code == 0
    after = world.server.submit("e2")
    await world.clock.sleep(100.0)
    assert after.state == "queued"
    world.agent.stop()
    await world.until(world.task.done)
    world.begin()
    await world.until(lambda: world.server.is_done)


@in_world
async def test_an_update_runs_as_a_command_and_ends_the_agent(world: World) -> None:
    world.settings = {"update_argv": ("sleep", "30")}
    world.begin()
    update = world.server.submit("e1", command_type="update", kind="builtin", argv=["update"])
    other = world.server.submit("e2")
    await world.until(world.task.done)
    assert update.results[0].exit_code == 0
    assert other.state == "queued"
    world.begin()
    await world.until(lambda: world.server.is_done)


@in_world
async def test_a_failed_update_leaves_the_agent_in_service(world: World) -> None:
    world.settings = {"update_argv": ("false",)}
    world.begin()
    update = world.server.submit("e1", command_type="update", kind="builtin", argv=["update"])
    world.server.submit("e2")
    await world.until(lambda: world.server.is_done)
    assert update.results[0].exit_code == 1
    assert not world.task.done()


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
async def test_a_cloned_identity_ends_the_agent(world: World) -> None:
    """Each of the two fences the other one, until one of them gives up."""
    world.begin()
    for _ in range(4):
        await world.clock.sleep(30.0)
        assert not world.task.done()
        world.server.incarnation += 1
    await world.clock.sleep(60.0)
    assert isinstance(world.task.exception(), NodeFenced)


@in_world
async def test_a_fenced_agent_names_its_process(world: World) -> None:
    """Its first start says nothing that an older gateway does not know."""
    world.begin()
    for _ in range(2):
        await world.clock.sleep(30.0)
        world.server.incarnation += 1
    await world.clock.sleep(60.0)
    assert [start.session for start in world.server.starts] == ["", "p1", "p1"]
    assert b"session" not in msgspec.json.encode(world.server.starts[0])


@in_world
async def test_a_fenced_agent_goes_on_at_a_gateway_that_takes_no_name(world: World) -> None:
    begin = world.server.start

    async def older(start: AgentStart) -> AgentStarted:
        if start.session:
            raise InvalidInput("Object contains unknown field `session`")
        return await begin(start)

    world.server.start = older  # type: ignore[method-assign]
    world.begin()
    await world.clock.sleep(30.0)
    world.server.incarnation += 1
    task = world.server.submit("e1")
    await world.until(lambda: world.server.is_done)
    assert [result.state for result in task.results] == ["exited"]


@in_world
async def test_a_start_that_takes_effect_late_does_not_end_the_agent(world: World) -> None:
    """Its answer was lost, and another start was sent since."""
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "40"])
    await world.until(lambda: task.state == "started")
    world.server.incarnation += 1
    await world.until(lambda: world.server.is_done)
    assert world.host.begun == {"e1": 1}
    assert [result.state for result in task.results] == ["exited"]


@in_world
async def test_an_old_token_is_ignored(world: World) -> None:
    world.begin()
    world.server.submit("e1")
    await world.until(lambda: world.server.is_done)
    world.server.token = 0
    late = world.server.submit("e2")
    await world.clock.sleep(5.0)
    assert late.results == []
    assert world.host.begun == {"e1": 1}
    assert world.server.messages[-1].last_token == 1, "the server hears why"


@in_world
async def test_the_journal_keeps_the_newest_token_only(world: World) -> None:
    world.begin()
    for n in range(20):
        world.server.submit(f"e{n}", go=True)
    await world.until(lambda: world.server.is_done)
    await world.clock.sleep(60.0)
    assert [log.token for log in await world.journal.load()] == [20]


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


@in_world
async def test_long_output_comes_whole_and_before_its_result(world: World) -> None:
    world.begin()
    text = "x" * 5_000_000
    task = world.server.submit("e1", argv=["echo", text])
    await world.until(lambda: world.server.is_done)
    assert task.output["stdout"] == text.encode()
    assert len([m for m in world.server.messages if m.chunks]) == 3
