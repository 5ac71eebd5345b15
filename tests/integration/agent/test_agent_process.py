"""Real agents as processes: enrolment, commands, kills at every step, signals, locks."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.core.fleet.agents.wire import AgentStart, AgentStarted
from tests.integration.agent.agent_gateway import CREDENTIAL, JOIN, Gateway, gateway
from tests.unit.agent.agent_world import states

ROOT = Path(__file__).parents[3]
NEVER = 1_000_000


async def spawn(*argv: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )


async def agent(made: Gateway, state: Path, *options: str) -> asyncio.subprocess.Process:
    argv = [
        "--gateway",
        made.url,
        "--token",
        made.join,
        "--state",
        str(state),
        "--name",
        "h1",
        *options,
    ]
    return await spawn("-m", "holdfast", "agent", *argv)


async def crashing(made: Gateway, state: Path, left: int) -> asyncio.subprocess.Process:
    return await spawn("-m", "tests.integration.agent.crashing", made.url, str(state), str(left))


@asynccontextmanager
async def running(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Stops the process at the end."""
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_an_agent_enrols_runs_and_stops(tmp_path: Path) -> None:
    async with gateway() as made:
        process = await agent(made, tmp_path / "state", "--labels", "role=web,env=test")
        async with running(process):
            task = made.server.submit("e1", argv=["sh", "-c", "echo $HOLDFAST_EXECUTION; exit 4"])
            await made.until(lambda: made.server.is_done)
        assert process.returncode == 0
    assert states(task.results) == ["exited"]
    assert task.results[0].exit_code == 4
    assert task.output == {"stdout": b"e1\n"}
    [enrolled] = made.enrolled
    assert (enrolled.host, enrolled.labels) == ("h1", {"role": "web", "env": "test"})
    assert enrolled.facts["kernel"] == os.uname().release
    assert enrolled.boot_id
    identity = tmp_path / "state" / "identity.json"
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600
    assert msgspec.json.decode(identity.read_bytes())["credential"] == CREDENTIAL


async def test_a_second_start_uses_the_credential(tmp_path: Path) -> None:
    async with gateway() as made:
        for n in range(2):
            # A join token that counts no more does no harm to an enrolled host.
            made.join = f"token-{n}"
            process = await agent(made, tmp_path)
            async with running(process):
                made.server.submit(f"e{n}")
                await made.until(lambda: made.server.is_done)
        assert len(made.enrolled) == 1
        assert made.server.incarnation == 2


async def test_a_kill_at_any_step_loses_nothing_and_starts_nothing_twice(tmp_path: Path) -> None:
    """A crash before each access to the disk, until a run has none left."""
    at_once = asyncio.Semaphore(3)

    async def crash(left: int) -> str:
        async with at_once, gateway() as made:
            state, mark = tmp_path / f"s{left}", tmp_path / f"mark{left}"
            task = made.server.submit(
                "e1", argv=["sh", "-c", f"echo x >> {mark}; echo out; sleep 0.3"]
            )
            first = await crashing(made, state, left)
            done = asyncio.create_task(made.until(lambda: made.server.is_done))
            ended = asyncio.create_task(first.wait())
            await asyncio.wait({done, ended}, return_when=asyncio.FIRST_COMPLETED)
            said = "nothing"
            if not ended.done():
                async with running(first):
                    pass
            else:
                out, _ = await first.communicate()
                said = out.decode()
                async with running(await crashing(made, state, NEVER)):
                    await done
            await asyncio.gather(done, ended)
            *before, last = task.results
            assert set(states(before)) <= {"never_started"}, said
            assert (last.state, last.exit_code) == ("exited", 0), said
            assert task.output == {"stdout": b"out\n"}, said
            assert mark.read_text() == "x\n", said
            return said

    said = await asyncio.gather(*(crash(left) for left in range(22)))
    steps = [text.removeprefix("crash before ").strip() for text in said]
    # The whole life of a token, from the journal's own id to the result.
    assert steps[-1] == "nothing", steps
    assert {"rename identity", "create journal", "write journal", "sync journal"} <= set(steps)


async def test_a_command_outlives_a_killed_agent(tmp_path: Path) -> None:
    async with gateway() as made:
        process = await agent(made, tmp_path / "state")
        go = tmp_path / "go"
        os.mkfifo(go)
        task = made.server.submit("e1", argv=["sh", "-c", f"echo begun; read x < {go}; echo $x"])
        await made.until(lambda: task.state == "started")
        process.kill()
        await process.communicate()
        process = await agent(made, tmp_path / "state")
        async with running(process):
            await made.until(lambda: made.server.incarnation == 2)
            await asyncio.to_thread(go.write_text, "hello\n")
            await made.until(lambda: made.server.is_done)
    assert states(task.results) == ["exited"]
    assert task.output == {"stdout": b"begun\nhello\n"}


async def test_sigterm_leaves_commands_to_the_next_start(tmp_path: Path) -> None:
    async with gateway() as made:
        process = await agent(made, tmp_path / "state")
        go = tmp_path / "go"
        os.mkfifo(go)
        task = made.server.submit("e1", argv=["sh", "-c", f"read x < {go}; exit $x"])
        await made.until(lambda: task.state == "started")
        process.terminate()
        await process.communicate()
        assert process.returncode == 0
        await asyncio.to_thread(go.write_text, "7\n")
        async with running(await agent(made, tmp_path / "state")):
            await made.until(lambda: made.server.is_done)
    assert task.results[0].exit_code == 7


async def test_an_abort_ends_the_process_group(tmp_path: Path) -> None:
    async with gateway() as made:
        async with running(await agent(made, tmp_path)):
            task = made.server.submit("e1", argv=["sh", "-c", "echo $$; sleep 600 & wait"])
            await made.until(lambda: task.state == "started")
            made.server.abort("e1")
            await made.until(lambda: made.server.is_done)
        assert (task.results[0].killed, task.results[0].signal) == (True, signal.SIGTERM)


async def test_ten_megabytes_and_binary_output(tmp_path: Path) -> None:
    async with gateway() as made:
        script = "head -c 10000000 /dev/zero; printf '\\377\\000end'"
        async with running(await agent(made, tmp_path)):
            task = made.server.submit("e1", argv=["sh", "-c", script], output_bytes=20_000_000)
            await made.until(lambda: made.server.is_done)
        assert task.output["stdout"] == bytes(10_000_000) + b"\xff\x00end"


async def test_two_agents_never_share_a_folder(tmp_path: Path) -> None:
    async with gateway() as made:
        first = await agent(made, tmp_path)
        async with running(first):
            await made.until(lambda: made.server.incarnation == 1)
            second = await agent(made, tmp_path)
            _, errors = await second.communicate()
            assert second.returncode == 6
            assert f"another agent uses {tmp_path} (process {first.pid})" in errors.decode()


async def test_a_cloned_identity_ends_the_agent_with_a_reason(tmp_path: Path) -> None:
    async with gateway() as made:
        begin = made.server.start

        async def and_the_other(start: AgentStart) -> AgentStarted:
            """The other process starts right after each start of the agent."""
            started = await begin(start)
            made.server.incarnation += 1
            return started

        made.server.start = and_the_other  # type: ignore[method-assign]
        process = await agent(made, tmp_path)
        _, errors = await process.communicate()
        assert process.returncode == 6
        assert "another agent uses this identity" in errors.decode()


async def test_a_revoked_credential_ends_the_agent(tmp_path: Path) -> None:
    async with gateway() as made:
        (tmp_path / "identity.json").write_bytes(
            msgspec.json.encode({"host": "h1", "host_id": "hst_1", "credential": "old"})
        )
        process = await agent(made, tmp_path)
        _, errors = await process.communicate()
        assert process.returncode == 4
        assert "the token does not count" in errors.decode()
        assert "old" not in errors.decode()


@pytest.mark.parametrize(
    ("prepare", "code", "text"),
    [
        (lambda path: path.write_text("a file"), 2, "cannot be used"),
        (lambda path: (path / "identity.json").mkdir(parents=True), 2, "cannot be read"),
        (
            lambda path: (path.mkdir(), (path / "identity.json").write_text("{")),
            2,
            "is not an identity",
        ),
    ],
)
async def test_a_state_folder_that_cannot_be_used(
    tmp_path: Path, prepare: object, code: int, text: str
) -> None:
    prepare(tmp_path / "state")  # type: ignore[operator]
    async with gateway() as made:
        process = await agent(made, tmp_path / "state")
        _, errors = await process.communicate()
        assert process.returncode == code
        assert text in errors.decode()


async def test_an_agent_waits_for_its_gateway(tmp_path: Path) -> None:
    async with gateway() as made:
        argv = ["--gateway", f"http://127.0.0.1:1,{made.url}", "--state", str(tmp_path)]
        process = await spawn("-m", "holdfast", "agent", *argv, "--token", JOIN, "--name", "h1")
        async with running(process):
            made.server.submit("e1")
            await made.until(lambda: made.server.is_done)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "the gateway is missing"),
        (["--gateway", "http://127.0.0.1:1"], "this host is not enrolled"),
        (["--gateway", "http://127.0.0.1:1", "--labels", "web"], "write KEY=VALUE"),
        (["--gateway", "ftp://x"], "is not the address of a gateway"),
    ],
)
async def test_wrong_options(tmp_path: Path, options: list[str], text: str) -> None:
    process = await spawn("-m", "holdfast", "agent", *options, "--state", str(tmp_path))
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert text in errors.decode()
