"""Commands that follow a task: `watch`, `wait`, `logs`, `task output`."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Context, TaskQueue
from tests.acceptance.cli_support import HOLDFAST, Cli, run_inside
from tests.backends import SHARED, url_of


class Live:
    """A queue with a task that goes on when the test says so."""

    def __init__(self, cli: Cli, queue: TaskQueue) -> None:
        self.cli = cli
        self.queue = queue
        self.go_on = asyncio.Event()

    async def started(self, type: str) -> str:
        task = await self.queue.enqueue(type)
        async for event in self.queue.events():
            if event.task_id == task.id and event.kind == "task.output":
                return task.id
        raise AssertionError("the feed ended")

    def run(self, *args: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*HOLDFAST, *args],
            cwd=self.cli.folder,
            env=self.cli.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def live(url: str, tmp_path: Path) -> AsyncIterator[Live]:
    queue = TaskQueue(url)
    made = Live(Cli(tmp_path, url), queue)

    @queue.task(max_attempts=2, retry_delay=0.01)
    async def speak(ctx: Context) -> str:
        await ctx.output(f"attempt {ctx.task.attempts} begins\n")
        await made.go_on.wait()
        await ctx.output(b"\xff ends\n")
        if ctx.task.attempts == 1:
            raise ValueError("again")
        return "said"

    @queue.task(max_attempts=1)
    async def fail(ctx: Context) -> None:
        await ctx.output("so far\n")
        await made.go_on.wait()
        raise ValueError("boom")

    async with queue:
        yield made


async def line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return await asyncio.to_thread(process.stdout.readline)


async def finished(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, said = await asyncio.to_thread(process.communicate)
    return process.returncode, out, said.decode()


@pytest.mark.parametrize("verb", [("logs",), ("task", "output")])
async def test_output_is_followed_over_attempts(live: Live, verb: tuple[str, ...]) -> None:
    task = await live.started("speak")
    process = live.run(*verb, task, "--follow")
    assert await line(process) == b"attempt 1 begins\n"
    live.go_on.set()
    code, rest, said = await finished(process)
    assert (code, said) == (0, "")
    assert rest == b"\xff ends\nattempt 2 begins\n\xff ends\n"


async def test_a_task_is_watched_until_it_has_ended(live: Live) -> None:
    task = await live.started("fail")
    process = live.run("watch", task)
    assert process.stderr is not None
    assert b"is running" in await asyncio.to_thread(process.stderr.readline)
    live.go_on.set()
    code, out, said = await finished(process)
    assert code == 1
    assert "task-failed" in said
    kinds = [row.split()[2] for row in out.decode().splitlines()]
    assert kinds[-1] == "task.dead", kinds


async def test_a_watched_task_is_shown_as_it_is_asked_for(live: Live) -> None:
    task = await live.started("fail")
    said = live.run("watch", task, "--progress", "json")
    quiet = live.run("watch", task, "--progress", "quiet", "-n", "1")
    live.go_on.set()
    _, out, _ = await finished(said)
    assert all(json.loads(line)["task_id"] == task for line in out.splitlines())
    _, out, _ = await finished(quiet)
    assert out == b""


async def test_a_wait_ends_with_the_status(live: Live) -> None:
    task = await live.started("fail")
    running = await asyncio.to_thread(
        live.cli.run, "wait", task, "--for", "status=running", "-o", "name"
    )
    assert (running.returncode, running.stdout.strip()) == (0, task)
    late = await asyncio.to_thread(live.cli.run, "wait", task, "--timeout", "50ms")
    assert (late.returncode, f"`holdfast task why {task}`" in late.stderr) == (7, True)
    process = live.run("wait", task, "--for", "status=completed")
    live.go_on.set()
    code, _, said = await finished(process)
    assert code == 6
    assert "has ended as failed" in said


async def test_the_tasks_of_a_query_are_watched(live: Live) -> None:
    process = live.run("watch", "-q", "type:fail", "-n", "2", "-o", "jsonl", "--timeout", "60s")
    live.go_on.set()
    tasks: list[str] = []
    while process.poll() is None:
        # The command may not have started to listen yet.
        tasks.append((await live.queue.enqueue("fail")).id)
        await live.queue.enqueue("speak")
        await live.queue.wait_task(tasks[-1], 30)
    code, out, _ = await finished(process)
    assert code == 0
    assert out.count(b"\n") == 2
    assert out.count(b'"type":"fail"') == 2


def test_output_cannot_control_a_terminal(tmp_path: Path) -> None:
    """Into a pipe it goes as it is."""
    url = f"sqlite:///{tmp_path}/h.db"

    async def fill() -> None:
        queue = TaskQueue(url)

        @queue.task
        async def paint(ctx: Context) -> None:
            await ctx.output("\x1b[31mred\x1b[0m\tend\n")

        async with queue:
            await (await queue.enqueue("paint", id="t")).wait(30)

    asyncio.run(fill())
    done = run_inside(tmp_path, "task", "output", "t", "--url", url)
    assert (done.code, done.out) == (0, "?[31mred?[0m    end\n")
    piped = Cli(tmp_path, url).run("logs", "t")
    assert piped.stdout == "\x1b[31mred\x1b[0m\tend\n"
