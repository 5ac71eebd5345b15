"""An agent in and out of service: builtins, drain, update, and copies that the server fences."""

import msgspec

from holdfast.core.errors import NodeFenced
from holdfast.core.fleet.agents.wire import AgentStart, AgentStarted
from holdfast.errors import InvalidInput
from tests.unit.agent.one_host import World, in_world


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
