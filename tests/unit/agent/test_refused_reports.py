"""A report that the server refuses as invalid: the agent goes on with the rest."""

from collections.abc import Callable

import pytest

from holdfast.agent.ports import ExitRecord
from holdfast.core.fleet.agents.check import check_sync
from holdfast.core.fleet.agents.wire import REASON_CHARS_MAX, AgentSync, AgentSyncAnswer
from holdfast.errors import InvalidInput
from tests.unit.agent.agent_world import states
from tests.unit.agent.one_host import World, in_world

Bad = Callable[[AgentSync], bool]

REFUSED: dict[str, Bad] = {
    "running": lambda sync: any(one.execution == "bad" for one in sync.running),
    "output": lambda sync: any(one.execution == "bad" and not one.gap for one in sync.chunks),
    "output, also as a gap": lambda sync: any(one.execution == "bad" for one in sync.chunks),
    "exit": lambda sync: any(
        one.execution == "bad" and one.state == "exited" for one in sync.results
    ),
    "result": lambda sync: any(one.execution == "bad" for one in sync.results),
    "refusal": lambda sync: any(one.execution == "bad" for one in sync.refuses),
    "acknowledgement": lambda sync: bool(sync.command_acks),
}


def refuse(world: World, is_bad: Bad) -> None:
    judge = world.server.judge

    def judged(sync: AgentSync) -> AgentSyncAnswer:
        if is_bad(sync):
            raise InvalidInput("it is bad")
        return judge(sync)

    world.server.judge = judged  # type: ignore[method-assign]


@pytest.mark.parametrize("is_bad", REFUSED.values(), ids=REFUSED)
def test_no_part_of_a_report_silences_a_host(is_bad: Bad) -> None:
    async def test(world: World) -> None:
        refuse(world, is_bad)
        world.begin()
        bad = world.server.submit("bad", argv=["echo", "x"])
        await world.until(lambda: world.host.begun or world.network.calls > 5)
        world.server.abort("bad")
        await world.clock.sleep(100.0)
        world.kill()
        world.begin()
        bad.state, world.server.slot = "done", None  # as an operator would
        good = world.server.submit("good")
        await world.until(lambda: good.state == "done", 300.0)
        assert states(good.results) == ["exited"]
        assert world.host.begun["bad"] <= 1

    in_world(test)()


@in_world
async def test_a_refused_result_becomes_unknown(world: World) -> None:
    refuse(world, REFUSED["exit"])
    world.begin()
    bad = world.server.submit("bad", argv=["echo", "kept"])
    await world.until(lambda: world.server.is_done)
    assert states(bad.results) == ["unknown"]
    assert bad.output == {"stdout": b"kept"}


@in_world
async def test_nothing_is_given_up_when_the_parts_are_not_the_cause(world: World) -> None:
    is_strict = True
    refuse(world, lambda sync: is_strict)
    world.begin()
    task = world.server.submit("bad")
    await world.clock.sleep(100.0)
    is_strict = False
    await world.until(lambda: world.server.is_done)
    assert states(task.results) == ["exited"]


@in_world
async def test_a_long_reason_is_cut_where_the_result_is_made(world: World) -> None:
    world.begin()
    task = world.server.submit("e1", argv=["sleep", "5"])
    await world.until(lambda: world.host.ends_at)
    [run] = world.host.ends_at
    del world.host.ends_at[run]
    reason = "\ud800\n" + "a" * 5_000
    world.host.exits[run] = ExitRecord(state="exited", exit_code=127, reason=reason)
    world.host.changed()
    await world.until(lambda: world.server.is_done)
    assert task.results[0].exit_code == 127
    assert task.results[0].reason == "? " + "a" * (REASON_CHARS_MAX - 2)
    for message in world.server.messages:
        assert check_sync(message) == message
