"""The simulated machine: what commands do, what outlives the agent, what a loss of power takes."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64decode

import pytest
from hypothesis import given, strategies as st

from holdfast.agent.ports import ExitRecord, Sight, Work
from holdfast.clock import VirtualClock
from holdfast.core.fleet.agents.journal import (
    AcceptedRecord,
    AckedRecord,
    OfferedRecord,
    ProcessEvidence,
    Step,
)
from holdfast.core.fleet.agents.wire import AgentOffer
from holdfast.fleet.simulated.commands import Behaviour, behaviour
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.disk import MemoryJournal
from holdfast.fleet.simulated.machine import SimulatedMachine

OFFER = AgentOffer(execution="e1", fence=1, token=1, job="j", command_type="exec", kind="argv")


def machine_on(clock: VirtualClock) -> SimulatedMachine:
    return SimulatedMachine("box", clock, Dice(1), keeps_history=True)


async def run(machine: SimulatedMachine, *argv: str, token: int = 1, limit: int = 1000) -> Sight:
    """Starts a command. Returns what is seen of it at once."""
    work = Work(
        run=str(token),
        argv=argv,
        env={"HOLDFAST_EXECUTION": f"e{token}"},
        timeout_seconds=60.0,
        output_bytes=limit,
    )
    mark = await machine.prepare(work)
    await machine.release(work.run)
    return await machine.look(work.run, mark)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (("noop",), 0),
        (("/bin/true",), 0),
        (("false",), 1),
        (("exit", "3"), 3),
        (("exit", "many"), 2),
        (("nonsense",), 127),
        (("/bin/sh", "-c", "exit 4"), 4),
        (("/bin/sh", "-c", "'"), 2),
    ],
)
async def test_a_command_ends_at_once_with_its_code(
    clock: VirtualClock, command: tuple[str, ...], code: int
) -> None:
    sight = await run(machine_on(clock), *command)
    assert sight.exit is not None
    assert sight.exit.exit_code == code


def test_a_rehearsal_says_what_unknown_commands_do() -> None:
    succeeds = Behaviour(seconds=(1.0, 2.0))
    assert behaviour(("deploy.sh", "now"), succeeds) == succeeds
    assert behaviour(("false",), succeeds).exit_code == 1
    fails = Behaviour(exit_code=1, seconds=(1.0, 2.0))
    for words in (
        ("systemctl", "restart", "nginx"),
        ("true",),
        ("echo", "x"),
        ("sh", "-c", "true"),
    ):
        found = behaviour(words, fails)
        assert (found.exit_code, found.seconds) == (1, (1.0, 2.0)), words
    assert behaviour(("sleep", "9"), fails).seconds == (9.0, 9.0)
    assert behaviour(("exit", "3"), fails).exit_code == 3


async def test_a_command_takes_its_time_and_is_announced(clock: VirtualClock) -> None:
    machine, ended = machine_on(clock), asyncio.Event()
    machine.watch(ended.set)
    assert (await run(machine, "sleep", "5")).evidence is ProcessEvidence.ALIVE
    assert machine.running == 1
    await asyncio.sleep(0)
    clock.set(clock.now() + 5.0)
    await ended.wait()
    assert machine.history[0].exit_code == 0
    assert machine.running == 0


async def test_a_command_that_is_too_slow_is_ended(clock: VirtualClock) -> None:
    machine, ended = machine_on(clock), asyncio.Event()
    machine.watch(ended.set)
    await run(machine, "sleep", "600")
    await asyncio.sleep(0)
    clock.set(clock.now() + 60.0)
    await ended.wait()
    assert machine.history[0].timed_out


async def test_a_stopped_command_is_killed_once(clock: VirtualClock) -> None:
    machine = machine_on(clock)
    work = Work(run="1", argv=("sleep", "9"))
    mark = await machine.prepare(work)
    await machine.release("1")
    await machine.stop("1", mark)
    await machine.stop("1", mark)
    sight = await machine.look("1", mark)
    assert sight.exit is not None
    assert (sight.exit.killed, sight.exit.signal) == (True, 15)


@given(size=st.integers(0, 400), limit=st.integers(2, 300), start=st.integers(0, 400))
async def test_output_beyond_the_limit_keeps_its_beginning_and_its_end(
    size: int, limit: int, start: int
) -> None:
    machine = machine_on(VirtualClock())
    sight = await run(machine, "flood", str(size), limit=limit)
    assert sight.exit is not None
    if not size:
        assert sight.exit.streams == {}
        return
    end = sight.exit.streams["stdout"]
    kept = b64decode(await machine.read("1", "stdout", 0, size))
    whole = (b"simulated output\n" * (size // 17 + 1))[:size]
    gap_at, gap = end.gap
    assert end.sha256 == hashlib.sha256(whole).hexdigest()
    assert len(kept) == min(size, limit) == size - gap
    assert kept == (whole if not gap else whole[:gap_at] + whole[gap_at + gap :])
    part = b64decode(await machine.read("1", "stdout", start, 7))
    assert part == kept[start : start + 7]


async def test_a_process_that_was_not_released_never_started(clock: VirtualClock) -> None:
    machine = machine_on(clock)
    mark = await machine.prepare(Work(run="1", argv=("true",)))
    assert (await machine.look("1", mark)).exit == ExitRecord(state="never_started")


async def test_a_loss_of_power_ends_what_runs_and_leaves_what_has_ended(
    clock: VirtualClock,
) -> None:
    machine = machine_on(clock)
    boot = machine.boot_id
    ended = await machine.prepare(Work(run="1", argv=("true",)))
    await machine.release("1")
    running = await machine.prepare(Work(run="2", argv=("sleep", "9")))
    await machine.release("2")
    machine.lose_power()
    assert machine.boot_id != boot
    assert (await machine.look("1", ended)).evidence is ProcessEvidence.EXITED
    assert (await machine.look("2", running)).evidence is ProcessEvidence.GONE
    assert [each.is_cut_off for each in machine.history] == [False, True]


async def test_a_journal_loses_what_was_not_synced_with_the_power() -> None:
    journal = MemoryJournal("j")
    await journal.append(1, OfferedRecord(OFFER), AcceptedRecord())
    await journal.append(1, AckedRecord(), sync=False)
    await journal.append(2, AckedRecord(), sync=False)
    journal.lose_power()
    [log] = await journal.load()
    assert (log.token, log.step) == (1, Step.ACCEPTED)


async def test_a_journal_never_forgets_its_newest_token() -> None:
    journal = MemoryJournal("j")
    for token in (1, 2):
        await journal.append(token, OfferedRecord(OFFER))
    await journal.forget([1, 2])
    assert [log.token for log in await journal.load()] == [2]
