"""The loop of the agent against a server in memory, in virtual time: offers, starts, output, results."""

from base64 import b64decode

from holdfast.agent.ports import ExitRecord, StreamEnd
from tests.unit.agent.agent_world import states
from tests.unit.agent.one_host import World, in_world


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
async def test_long_output_comes_whole_and_before_its_result(world: World) -> None:
    world.begin()
    text = "x" * 5_000_000
    task = world.server.submit("e1", argv=["echo", text])
    await world.until(lambda: world.server.is_done)
    assert task.output["stdout"] == text.encode()
    assert len([m for m in world.server.messages if m.chunks]) == 3
