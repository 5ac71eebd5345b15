"""Commands that an agent does not start, and why."""

from typing import Any

import pytest

from holdfast.agent.memory import MemoryJournal
from holdfast.agent.ports import Work
from holdfast.core.fleet.agents.journal import Record
from holdfast.core.fleet.agents.wire import AgentBlock, AgentSync
from holdfast.errors import DiskFull
from tests.unit.agent.agent_world import states
from tests.unit.agent.one_host import World, in_world


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
