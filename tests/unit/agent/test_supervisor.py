"""Commands under the keeper, as real processes."""

import asyncio
import errno
import json
import os
import select
import shutil
import signal
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.agent import supervisor
from holdfast.agent.executor import BASE_ENV, PATH, CannotStart, HostExecutor
from holdfast.agent.keeper import REQUESTS_MAX
from holdfast.agent.link import LocalHost
from holdfast.agent.ports import ExitRecord, StreamEnd, Work
from holdfast.agent.processes import start_of
from holdfast.agent.supervisor import FULL_SECONDS, Command, Output, find_program
from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark
from tests.unit.agent.agent_support import Watch, executor_in, output, run

EMPTY = StreamEnd(0, sha256(b"").hexdigest())


async def test_a_command_ends_with_its_code_and_output(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        ended = await run(executor, "sh", "-c", "printf out; printf err >&2; exit 3")
        assert (ended.state, ended.exit_code, ended.signal) == ("exited", 3, None)
        assert not ended.timed_out
        assert not ended.killed
        assert ended.streams == {
            "stdout": StreamEnd(3, sha256(b"out").hexdigest()),
            "stderr": StreamEnd(3, sha256(b"err").hexdigest()),
        }
        assert await output(executor, "stdout") == b"out"
        assert await output(executor, "stderr") == b"err"


async def test_output_is_bytes(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        await run(executor, "printf", "\\000\\377\\n")
        assert await output(executor, "stdout") == b"\0\xff\n"


async def test_a_command_has_no_shell_and_nothing_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "secret")
    async with executor_in(tmp_path) as executor:
        await run(executor, "printf", "%s", "$(id) `id` ; *", name="a")
        assert await output(executor, "stdout", "a") == b"$(id) `id` ; *"
        await run(executor, "env", name="b", env={"COLOUR": "red"})
        lines = (await output(executor, "stdout", "b")).decode().splitlines()
        names = dict(line.split("=", 1) for line in lines)
        assert names.keys() == {*BASE_ENV, "COLOUR", "HOME", "USER", "LOGNAME"}
        await run(executor, "sh", "-c", "pwd; umask; cat; ls /proc/self/fd | wc -l", name="c")
        # The three streams, and the one that `ls` opens.
        assert (await output(executor, "stdout", "c")).split() == [b"/", b"0022", b"4"]


async def test_signals_have_their_defaults(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        await run(executor, "grep", "SigIgn", "/proc/self/status")
        ignored = int((await output(executor, "stdout")).split()[1], 16)
        ours = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD]
        assert [number for number in ours if ignored >> (number - 1) & 1] == []


BUILTINS = "(builtins of a shell need a command type of kind shell)"


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (
            ["no-such-program"],
            127,
            f"there is no program 'no-such-program' in {PATH} {BUILTINS}",
        ),
        (["/no/such/program"], 127, "/no/such/program: No such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
    ],
)
async def test_a_command_that_cannot_be_run(
    tmp_path: Path, argv: list[str], code: int, reason: str
) -> None:
    async with executor_in(tmp_path) as executor:
        ended = await run(executor, *argv)
        assert (ended.state, ended.exit_code, ended.reason) == ("exited", code, reason)


async def test_a_time_limit_ends_the_group(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        ended = await run(executor, "sh", "-c", "sleep 60 & wait", timeout_seconds=0.2)
        assert (ended.exit_code, ended.signal, ended.timed_out) == (None, signal.SIGTERM, True)


async def stopped(executor: HostExecutor, script: str, grace_seconds: float) -> ExitRecord:
    """Stops a script when it has printed its first line: a time limit could pass before its trap is set."""
    watch = Watch(executor)
    work = Work(run="1", argv=("sh", "-c", script), grace_seconds=grace_seconds)
    process = await executor.prepare(work)
    await executor.release("1")
    while b"\n" not in await output(executor, "stdout"):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await executor.stop("1", process)
    sight = await watch.end("1", process)
    assert sight.exit is not None
    return sight.exit


async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        script = "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"
        ended = await stopped(executor, script, 0.2)
        assert (ended.signal, ended.killed) == (signal.SIGKILL, True)
        assert start_of(int(await output(executor, "stdout"))) is None


async def test_a_child_that_outlives_its_parent_gets_the_grace_and_then_sigkill(
    tmp_path: Path,
) -> None:
    async with executor_in(tmp_path) as executor:
        script = "(trap '' TERM; echo ready; while :; do sleep 60; done) & wait"
        ended = await stopped(executor, script, 0.2)
        assert (ended.signal, ended.killed) == (signal.SIGTERM, True)
        assert await output(executor, "stdout") == b"ready\n"
        assert ended.seconds >= 0.2


async def test_an_agent_stops_a_command(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        watch = Watch(executor)
        process = await executor.prepare(Work(run="1", argv=("sleep", "60")))
        await executor.release("1")
        await executor.stop("1", process)
        sight = await watch.end("1", process)
        assert sight.exit is not None
        if sight.exit.state == "exited":  # Else the stop overtook the release.
            assert (sight.exit.killed, sight.exit.signal) == (True, signal.SIGTERM)


async def test_what_is_not_released_never_starts(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        watch = Watch(executor)
        mark = tmp_path / "mark"
        process = await executor.prepare(Work(run="1", argv=("touch", str(mark))))
        assert (await executor.look("1", process)).evidence is ProcessEvidence.ALIVE
        await executor.drop("1")
        sight = await watch.end("1", process)
        assert sight.exit is not None
        assert sight.exit.state == "never_started"
        await executor.release("1")
        await run(executor, "true", name="2")
        assert not mark.exists()


async def test_a_keeper_without_its_agent_drops_what_was_not_released(tmp_path: Path) -> None:
    first = LocalHost()
    executor = HostExecutor(first, tmp_path)
    waiting = await executor.prepare(Work(run="waiting", argv=("touch", str(tmp_path / "mark"))))
    running = await executor.prepare(Work(run="running", argv=("cat", "/proc/self/stat")))
    await executor.release("running")
    await first.close()
    second = LocalHost()
    after = HostExecutor(second, tmp_path)
    for name, process, state in (
        ("waiting", waiting, "never_started"),
        ("running", running, "exited"),
    ):
        sight = await until_gone(after, name, process)
        assert sight is not None
        assert sight == state
    assert not (tmp_path / "mark").exists()
    await second.close()


async def test_all_that_was_released_before_the_agent_went_begins(tmp_path: Path) -> None:
    first = LocalHost()
    executor = HostExecutor(first, tmp_path)
    names = [str(n) for n in range(3 * REQUESTS_MAX)]
    marks = [await executor.prepare(Work(run=name, argv=("true",))) for name in names]
    for name in names:
        await executor.release(name)
    await first.close()
    second = LocalHost()
    after = HostExecutor(second, tmp_path)
    for name, mark in zip(names, marks, strict=True):
        assert await until_gone(after, name, mark) == "exited"
    await second.close()


async def until_gone(executor: HostExecutor, name: str, process: ProcessMark) -> str | None:
    """The state of the exit record once the keeper has ended: this process is not its parent's heir."""
    file = os.pidfd_open(process.pid)
    try:
        await readable(file)
    finally:
        os.close(file)
    sight = await executor.look(name, process)
    return None if sight.exit is None else sight.exit.state


async def readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)


async def test_a_command_goes_on_without_its_agent_and_is_stopped_by_the_next_one(
    tmp_path: Path,
) -> None:
    first = LocalHost()
    executor = HostExecutor(first, tmp_path)
    process = await executor.prepare(Work(run="1", argv=("sh", "-c", "echo begun; sleep 60")))
    await executor.release("1")
    await first.close()
    second = LocalHost()
    after = HostExecutor(second, tmp_path)
    assert (await after.look("1", process)).evidence is ProcessEvidence.ALIVE
    await after.stop("1", process)
    assert await until_gone(after, "1", process) in {"exited", "never_started"}
    await second.close()


async def test_a_killed_keeper_leaves_a_command_that_still_counts_as_alive(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        watch = Watch(executor)
        process = await executor.prepare(Work(run="1", argv=("sh", "-c", "echo ready; sleep 60")))
        await executor.release("1")
        while not (await executor.look("1", process)).sizes:
            await asyncio.to_thread(os.sched_yield)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(wait_gone, process.pid, process.start)
        sight = await executor.look("1", process)
        assert sight.evidence is ProcessEvidence.ALIVE
        await executor.stop("1", process)
        while (sight := await executor.look("1", process)).evidence is ProcessEvidence.ALIVE:
            await asyncio.to_thread(os.sched_yield)
        assert sight.evidence is ProcessEvidence.GONE
        # The next command gets another keeper.
        assert (await run(executor, "true", name="2")).exit_code == 0
        del watch


def wait_gone(pid: int, start: int) -> None:
    while start_of(pid) == start:
        os.sched_yield()


async def test_another_boot_or_start_time_is_another_process(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        process = await executor.prepare(Work(run="1", argv=("true",)))
        other_boot = ProcessMark(process.pid, process.start, "another boot")
        assert (await executor.look("1", other_boot)).evidence is ProcessEvidence.GONE
        reused = ProcessMark(process.pid, process.start + 1, process.boot_id)
        assert (await executor.look("1", reused)).evidence is ProcessEvidence.GONE


async def test_a_flood_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        script = "i=0; while [ $i -lt 3000 ]; do echo line$i; i=$((i+1)); done"
        whole = b"".join(b"line%d\n" % i for i in range(3000))
        ended = await run(executor, "sh", "-c", script, output_bytes=1000)
        assert ended.streams["stdout"] == StreamEnd(
            len(whole), sha256(whole).hexdigest(), (250, len(whole) - 1000)
        )
        assert await output(executor, "stdout") == whole[:250] + whole[-750:]


async def test_ten_megabytes_of_output(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        ended = await run(executor, "head", "-c", "10000000", "/dev/zero", output_bytes=20_000_000)
        assert ended.streams["stdout"] == StreamEnd(
            10_000_000, sha256(bytes(10_000_000)).hexdigest()
        )
        assert await output(executor, "stdout") == bytes(10_000_000)


async def test_a_command_that_daemonizes_ends_and_its_daemon_lives(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        ended = await run(executor, "sh", "-c", "setsid sleep 60 & echo $!; echo done")
        assert ended.exit_code == 0
        first, rest = (await output(executor, "stdout")).split(b"\n", 1)
        assert rest == b"done\n"
        assert start_of(int(first)) is not None
        os.kill(int(first), signal.SIGKILL)


async def test_no_zombie_is_left(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        # An orphan that ends after its parent: the keeper is its parent then.
        go_on = tmp_path / "go-on"
        os.mkfifo(go_on)
        script = f"(read line < {go_on}; exit 1) & echo $!"
        await run(executor, "sh", "-c", script, name="1")
        orphan = int(await output(executor, "stdout", "1"))
        end = os.pidfd_open(orphan)
        await asyncio.to_thread(go_on.write_text, "now\n")
        await asyncio.to_thread(select.select, [end], [], [])
        os.close(end)
        await run(executor, "true", name="2")
        while os.path.exists(f"/proc/{orphan}"):  # noqa: ASYNC110, ASYNC240, PTH110
            await asyncio.sleep(0)


async def test_a_command_of_root_runs_as_another_user(tmp_path: Path) -> None:
    async with executor_in(tmp_path) as executor:
        if os.geteuid() != 0:
            with pytest.raises(CannotStart):
                await executor.prepare(Work(run="1", argv=("true",), run_as="nobody"))
            return
        await run(executor, "sh", "-c", "id -un; id -Gn; echo $HOME", run_as="nobody")
        name, _, home = (await output(executor, "stdout")).split(b"\n")[:3]
        assert name == b"nobody"
        assert home != b"/root"
        ended = await run(executor, "true", name="2", run_as="no-such-user")
        assert ended.exit_code == 126
        assert "no-such-user" in ended.reason


async def test_another_user_needs_root(tmp_path: Path) -> None:
    executor = HostExecutor(LocalHost(), tmp_path, is_root=False)
    with pytest.raises(CannotStart, match="needs an agent that runs as root"):
        await executor.prepare(Work(run="1", argv=("true",), run_as="nobody"))


async def test_files_are_of_their_owner_only(tmp_path: Path) -> None:
    async with executor_in(tmp_path / "runs") as executor:
        await run(executor, "echo", "secret")
        paths = [tmp_path / "runs" / "1", *(tmp_path / "runs" / "1").iterdir()]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}
        assert modes.pop("1") == 0o700
        assert set(modes.values()) == {0o600}
        await executor.remove("1")
        assert not (tmp_path / "runs" / "1").exists()


def test_programs_are_found_by_the_path_of_the_command(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.touch(0o700)
    assert find_program("tool", f"/nowhere:{tmp_path}") == str(program)
    assert find_program("./tool", "") == "./tool"
    with pytest.raises(FileNotFoundError):
        find_program("tool", "/nowhere")


def test_a_full_disk_costs_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Output(str(tmp_path / "stdout"), 1000, 500)
    made.take(b"x" * 300)
    room = 100

    def write_some(file: int, data: bytes) -> None:
        os.write(file, data[:room])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(supervisor, "write_all", write_some)
    made.take(b"y" * 900)
    monkeypatch.undo()
    made.take(b"z" * 100)
    made.finish()
    # A part that was written is cut off again, so that what is kept has one gap.
    assert (tmp_path / "stdout").read_bytes() == b"x" * 300 + b"y" * 400 + b"z" * 100
    assert (made.size, made.kept, made.gap) == (1300, 800, (300, 500))


def test_output_makes_room_for_the_exit_record(tmp_path: Path) -> None:
    spec = {
        "folder": str(tmp_path),
        "limit": 1000,
        "tail": 750,
        "argv": ["echo", "hello"],
        "run_as": None,
    }
    command = Command({**spec, "env": dict(BASE_ENV), "timeout": 9.0, "grace": 1.0})
    command.begin()
    _, status = os.waitpid(command.pid, 0)
    command.reaped(status)
    assert command.exit_record(10.0) is not None
    assert (tmp_path / "stdout").read_bytes() == b"hello\n"
    command.make_room(10.0)
    assert command.wants(10.0) == FULL_SECONDS
    assert not (tmp_path / "stdout").exists()
    assert command.exit_record(10.5) is None
    written = command.exit_record(11.0)
    assert written is not None
    assert written[0] == str(tmp_path / "exit")
    record = json.loads(written[1])
    assert record["exit_code"] == 0
    assert record["streams"]["stdout"]["gap"] == [0, 6]


async def test_a_keeper_ends_although_the_folder_of_a_run_is_gone(tmp_path: Path) -> None:
    host = LocalHost()
    executor = HostExecutor(host, tmp_path / "runs")
    process = await executor.prepare(Work(run="1", argv=("true",)))
    shutil.rmtree(tmp_path / "runs" / "1")
    file = os.pidfd_open(process.pid)
    await host.close()
    try:
        await readable(file)
    finally:
        os.close(file)
