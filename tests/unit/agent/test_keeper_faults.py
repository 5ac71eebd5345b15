"""What fails around one command costs that command at most."""

import errno
import json
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.agent import host as host_calls, link
from holdfast.agent.boot import sources
from holdfast.agent.executor import BASE_ENV, HostExecutor
from holdfast.agent.files import Disk, boot_id
from holdfast.agent.keeper import REQUESTS_MAX, Keeper
from holdfast.agent.memory import MemoryJournal
from holdfast.agent.ports import Work
from holdfast.agent.processes import killable_runs, start_of
from holdfast.agent.runs import Runs
from holdfast.agent.settings import AgentSettings
from holdfast.agent.supervisor import NOT_STOPPED, Command, Output
from holdfast.clock import SystemClock
from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark
from holdfast.core.fleet.agents.wire import AgentOffer
from holdfast.core.output import head_and_tail
from tests.unit.agent.agent_support import Watch, executor_in


def command_in(folder: Path, *argv: str, timeout: float = 9.0) -> Command:
    folder.mkdir(exist_ok=True)
    spec = {"folder": str(folder), "limit": 1000, "tail": 750, "argv": list(argv), "run_as": None}
    return Command({**spec, "env": dict(BASE_ENV), "timeout": timeout, "grace": 1.0})


def fail_with(number: int) -> Any:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def reap(command: Command) -> None:
    _, status = os.waitpid(command.pid, 0)
    command.reaped(status)


def record_of(command: Command, now: float) -> dict[str, Any]:
    written = command.exit_record(now)
    assert written is not None
    return dict(json.loads(written[1]))


def test_a_command_that_may_not_be_signalled_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_in(tmp_path, "sleep", "60", timeout=0.0)
    command.begin()
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", fail_with(errno.EPERM))
        for now in (1e12, 2e12):
            command.limit(now, stop=False)
            assert command.exit_record(now) is None
        assert command.wants(3e12) is None
    os.kill(command.pid, signal.SIGKILL)
    reap(command)
    record = record_of(command, 3e12)
    assert (record["signal"], record["timed_out"]) == (9, True)
    assert record["reason"] == NOT_STOPPED


def test_the_end_of_a_killed_command_waits_for_the_last_process_of_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process runs on for a moment. The record is the proof that nothing runs."""
    command = command_in(tmp_path, "sh", "-c", "sleep 60 & echo $!; wait", timeout=0.0)
    command.begin()
    out = next(iter(command.readers))
    select.select([out], [], [])
    member = int(os.read(out, 100))
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda pid, number: os.kill(pid, number))
        for now in (1e12, 2e12):
            command.limit(now, stop=False)
    reap(command)
    assert command.exit_record(2e12) is None
    assert command.wants(2e12 + 1) == pytest.approx(1e11, rel=0.1), "less and less often"
    end = os.pidfd_open(member)
    os.kill(member, signal.SIGKILL)
    select.select([end], [], [])
    os.close(end)
    assert record_of(command, 2e12)["timed_out"]


def test_a_time_limit_kills_what_ignores_sigterm_after_the_grace(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 60; done"
    command = command_in(tmp_path, "sh", "-c", script, timeout=5.0)
    command.begin()
    out = next(iter(command.readers))
    select.select([out], [], [])
    late = command._began_at + 5.0
    for now in (late - 0.001, late, late + 0.999):
        command.limit(now, stop=False)
        assert os.waitpid(command.pid, os.WNOHANG) == (0, 0)
        assert command.exit_record(now) is None
    command.limit(late + 1.0, stop=False)
    reap(command)
    until(lambda: not killable_runs(command.pid))
    record = record_of(command, late + 1.0)
    assert (record["signal"], record["timed_out"], record["killed"]) == (9, True, False)


def test_an_error_of_one_command_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper.__new__(Keeper)
    reader, writer = os.pipe()
    keeper._out, keeper._disk, keeper._poll, keeper._waiting = writer, Disk(), select.poll(), set()
    keeper._unsent, keeper._is_heard = b"", True
    keeper._commands = {
        name: command_in(tmp_path / name, "sh", "-c", f"exit {code}")
        for code, name in enumerate(("bad", "good"))
    }
    for command in keeper._commands.values():
        command.begin()
        for file in command.readers:
            keeper._poll.register(file, select.POLLIN)
        reap(command)
    bad = keeper._commands["bad"]
    monkeypatch.setattr(bad, "_end", fail_with(errno.EIO))
    keeper._look(False)
    keeper._look(False)
    assert not keeper._commands
    for name, code in (("bad", 0), ("good", 1)):
        assert json.loads((tmp_path / name / "exit").read_bytes())["exit_code"] == code
    for file in (reader, writer):
        os.close(file)


def test_requests_leave_room_for_the_ends_of_commands() -> None:
    """Else no command of many is reported before the last of them has begun."""
    keeper = Keeper.__new__(Keeper)
    reader, writer = os.pipe()
    keeper._out, keeper._unsent, keeper._is_heard, keeper._session = writer, b"", True, None
    keeper._is_open, keeper._waiting, keeper._commands = False, {"waiting"}, {}
    keeper._commands["waiting"] = Command({"folder": "", "limit": 0, "tail": 0})
    keeper._requests = deque(b'{"do": "none", "n": %d}' % n for n in range(REQUESTS_MAX + 1))
    for expected in (range(REQUESTS_MAX), range(REQUESTS_MAX, REQUESTS_MAX + 1)):
        assert keeper._waiting, "a release may be among the requests that were read"
        keeper._answer_some()
        answers = [json.loads(line) for line in os.read(reader, 65_536).splitlines()]
        assert [answer["n"] for answer in answers] == [*expected]
    assert not keeper._waiting
    for file in (reader, writer):
        os.close(file)


async def test_a_disk_without_room_for_the_note_of_a_process_starts_nothing(tmp_path: Path) -> None:
    """Else a keeper that is killed would leave a command that nothing tells of."""
    async with executor_in(tmp_path) as executor:
        watch = Watch(executor)
        process = await executor.prepare(Work(run="1", argv=("echo", "done"), timeout_seconds=60.0))
        (tmp_path / "1" / "child").unlink()
        (tmp_path / "1" / "child").symlink_to("/dev/full")
        await executor.release("1")
        ended = (await watch.end("1", process)).exit
        assert ended is not None
        assert ended.state == "never_started"


def test_a_full_disk_and_a_killed_keeper_leave_the_command_as_running(tmp_path: Path) -> None:
    """The id of the process is in the room that was taken before it began."""
    command = command_in(tmp_path, "sleep", "60")
    command.reserve()
    size = (tmp_path / "child").stat().st_size
    command.begin()
    assert (tmp_path / "child").stat().st_size == size, "written in place: no block is needed"
    try:
        seen = host_calls.look(Disk(), str(tmp_path), 0, 0, boot_id())
        assert seen["alive"]
        assert not host_calls.look(Disk(), str(tmp_path), 0, 0, "another boot")["alive"]
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        reap(command)
        assert record_of(command, 3e12)["signal"] == signal.SIGKILL
    assert not host_calls.look(Disk(), str(tmp_path), 0, 0, boot_id())["alive"]


def test_an_exit_record_needs_no_look_at_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exit").write_text('{"state": "exited"}')
    monkeypatch.setattr(host_calls, "is_alive", fail_with(errno.EIO))
    seen = host_calls.look(Disk(), str(tmp_path), 1, 1, boot_id())
    assert (seen["exit"], seen["alive"]) == ({"state": "exited"}, False)


@pytest.mark.parametrize("text", ['{"pid": 0, "start": 0}', '{"pid": 1'])
def test_a_process_whose_id_was_not_written_may_run_until_the_next_boot(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "child").write_text(text)
    assert host_calls.look(Disk(), str(tmp_path), 0, 0, boot_id())["alive"]
    assert not host_calls.look(Disk(), str(tmp_path), 0, 0, "another boot")["alive"]
    assert not host_calls.stop(Disk(), str(tmp_path), 0, 0)


@pytest.mark.parametrize("text", ["", " " * 64])
def test_a_command_that_has_not_begun_does_not_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "child").write_text(text)
    assert not host_calls.look(Disk(), str(tmp_path), 0, 0, boot_id())["alive"]


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
@pytest.mark.parametrize("writes", [[b"hello"], [b"h", b"", b"el", b"lo"]])
def test_the_smallest_limits_of_output_keep_that_much(
    tmp_path: Path, limit: int, writes: list[bytes]
) -> None:
    head, tail = head_and_tail(limit)
    output = Output(str(tmp_path / "stdout"), limit, tail)
    for data in writes:
        output.take(data)
    output.finish()
    kept = (tmp_path / "stdout").read_bytes() if limit else b""
    assert kept == b"hello"[:head] + b"hello"[5 - tail :]
    assert output.gap == (head, 5 - limit)


def test_an_error_in_the_output_of_one_command_leaves_the_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper.__new__(Keeper)
    keeper._poll = select.poll()
    command = command_in(tmp_path, "sh", "-c", "echo one; exit 3")
    command.begin()
    reap(command)
    [file, _] = command.readers
    keeper._poll.register(file, select.POLLIN)
    monkeypatch.setattr(Output, "take", fail_with(errno.EIO))
    keeper._read(command, file)
    monkeypatch.undo()
    record = record_of(command, 1e12)
    assert record["exit_code"] == 3
    assert record["reason"]


DAMAGED = [b"", b"{", bytes(80), b"[]", b'{"state": 5}', b'{"state": "other"}', b"\xff\xfe"]


@pytest.mark.parametrize("data", DAMAGED)
async def test_a_damaged_exit_record_is_an_unknown_end(tmp_path: Path, data: bytes) -> None:
    async with executor_in(tmp_path) as executor:
        watch = Watch(executor)
        process = await executor.prepare(Work(run="1", argv=("true",)))
        await executor.release("1")
        await watch.end("1", process)
        (tmp_path / "1" / "exit").write_bytes(data)
        seen = await executor.look("1", process)
        assert (seen.evidence, seen.exit) == (ProcessEvidence.GONE, None)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", bytes(36)])
def test_a_damaged_name_of_a_journal_is_replaced(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "journal-id"
    path.write_bytes(data)
    assert host_calls.keep_text(Disk(), str(path), "fresh") == "fresh"
    assert host_calls.keep_text(Disk(), str(path), "other") == "fresh"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_output_that_the_disk_does_not_sync_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    made = Output(str(tmp_path / "stdout"), 1000, 750)
    made.take(b"x" * 300)
    monkeypatch.setattr(os, "fsync", fail_with(number))
    made.finish()
    assert (made.size, made.kept, made.gap) == (300, 0, (0, 300))
    assert not (tmp_path / "stdout").exists()


@pytest.mark.parametrize("name", ["kill", "killpg"])
def test_a_stop_without_permission_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pid, start = os.getpid(), start_of(os.getpid())
    assert start is not None
    monkeypatch.setattr(os, name, fail_with(errno.EPERM))
    if name == "killpg":
        (tmp_path / "child").write_text(json.dumps({"pid": pid, "start": start}))
        pid = 0
    assert host_calls.stop(Disk(), str(tmp_path), pid, start)


async def test_a_failed_stop_does_not_end_the_round_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with executor_in(tmp_path) as executor:
        await failing_stop(executor, monkeypatch)


async def failing_stop(executor: HostExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(executor._host, "call", call)
    await executor.stop("1", ProcessMark(1, 1, "boot"))


class RawKeeper:
    """A keeper, and the bytes of its connection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket, self.pid = link._spawn()
        self.file = self.socket.makefile("rwb")
        self.file.write(sources())

    def ask(self, **request: Any) -> None:
        self.file.write(json.dumps(request).encode() + b"\n")
        self.file.flush()

    def start(self, *argv: str, timeout: float = 60.0) -> None:
        folder = str(self.folder / "1")
        spec = {
            "folder": folder,
            "limit": 1000,
            "tail": 750,
            "argv": list(argv),
            "run_as": None,
            "grace": 0.1,
        }
        spec |= {"env": dict(BASE_ENV), "timeout": timeout, "id": folder, "grace": 0.1}
        self.ask(**spec, do="prepare", n=1)
        assert "pid" in json.loads(self.file.readline())
        self.ask(do="release", id=folder)

    def cut(self) -> None:
        self.file.close()
        self.socket.close()

    def ended(self) -> int:
        """The exit code of the keeper, which ends after its last command."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_connection_that_ends_with_unread_answers_costs_no_exit_record(tmp_path: Path) -> None:
    """The reader of a socket gets ECONNRESET then, not an end."""
    keeper = RawKeeper(tmp_path)
    go_on = tmp_path / "go-on"
    os.mkfifo(go_on)
    keeper.start("sh", "-c", f"read line < {go_on}; exit 7")
    keeper.ask(do="about", args=[], n=2)
    select.select([keeper.socket], [], [])  # The answer is there, and is not read.
    keeper.cut()
    go_on.write_text("now\n")
    assert keeper.ended() == 0
    assert json.loads((tmp_path / "1" / "exit").read_bytes())["exit_code"] == 7


def test_unread_answers_keep_no_command_from_its_time_limit(tmp_path: Path) -> None:
    keeper = RawKeeper(tmp_path)
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "stdout").write_bytes(b"x" * 1_000_000)
    keeper.start("sleep", "60", timeout=0.2)
    for number in range(2, 9):
        keeper.ask(do="read", args=[str(tmp_path / "large"), "stdout", 0, 1_000_000], n=number)
    exit_file = tmp_path / "1" / "exit"
    until(exit_file.exists)
    assert json.loads(exit_file.read_bytes())["timed_out"]
    numbers = {json.loads(line).get("n") for line in (keeper.file.readline() for _ in range(8))}
    assert numbers == {None, *range(2, 9)}, "all answers, and the end"
    keeper.cut()
    assert keeper.ended() == 0


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        os.sched_yield()


async def test_a_killed_keeper_takes_no_time_limit_with_it(tmp_path: Path) -> None:
    async with executor_in(tmp_path / "runs") as executor:
        runs = Runs(MemoryJournal("j"), executor, SystemClock(), AgentSettings(allow=("*",)), {})
        runs.blocks.hear(0, [], SystemClock().monotonic())
        offer = AgentOffer(
            execution="e1",
            fence=1,
            token=1,
            job="j",
            command_type="exec",
            kind="argv",
            argv=["sleep", "60"],
            exec_timeout_seconds=60.0,
            go=True,
        )
        await runs.offer(offer)
        run = runs.by_token[1]
        until(lambda: bool(host_calls._age(str(tmp_path / "runs" / "1"))))
        assert run.process is not None
        os.kill(run.process.pid, signal.SIGKILL)
        # The limit passes now: before, the keeper itself could have kept it.
        run.offer = msgspec.structs.replace(offer, exec_timeout_seconds=0.0, grace_seconds=0.0)
        while run.result is None:
            await runs.look()
    assert (run.result.state, run.result.timed_out) == ("exited", True)
    assert "supervisor was killed" in run.result.reason


async def test_a_run_that_is_prepared_again_has_no_end_of_the_first_time(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as first:
        dropped = await first.prepare(Work(run="5-probe", argv=("true",)))
        await first.drop("5-probe")
        assert (await Watch(first).end("5-probe", dropped)).exit is not None
        await first.stop("5-probe", dropped)
    async with executor_in(tmp_path) as again:
        watch = Watch(again)
        process = await again.prepare(Work(run="5-probe", argv=("false",)))
        assert (await again.look("5-probe", process)).evidence is ProcessEvidence.ALIVE
        await again.release("5-probe")
        ended = (await watch.end("5-probe", process)).exit
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("exited", 1)
