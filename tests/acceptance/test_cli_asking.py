"""`holdfast watch` at a terminal: decisions and approvals are offered, and answered with a key."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Context, Task, TaskQueue
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.fleet.fleet import Fleet
from holdfast.queue.by import By
from tests.acceptance.cli_support import HOLDFAST, Cli, run_inside

SECONDS = 60.0


class Terminal:
    """`holdfast` whose three streams are a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, end: int) -> None:
        self.process = process
        self._end = end
        self.shown = ""

    @classmethod
    async def open(cls, cli: Cli, *args: str) -> Terminal:
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *HOLDFAST, *args, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cli.folder,
            env={**cli.env, "TERM": "dumb", "COLUMNS": "80"}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        return cls(process, ours)

    async def until(self, text: str) -> None:
        """Reads until the text is shown."""
        try:
            async with asyncio.timeout(SECONDS):
                while text not in self.shown:
                    self.shown += (await asyncio.to_thread(os.read, self._end, 4_096)).decode()
        except (OSError, TimeoutError):  # the other end is closed, or silent
            self.kill()
            raise AssertionError(f"it did not show {text!r}: {self.shown}") from None

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    async def ends(self) -> int:
        """The exit code."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self.process.wait()
        finally:
            self.kill()
            os.close(self._end)

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()


async def _ask(task: Task, ctx: Context) -> str:
    options = ["yes", "no"] if task.payload.get("options", True) else []
    decision = await ctx.decide("Deploy now?", options=options)
    return f"said {decision.choice}"


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[TaskQueue]:
    made = TaskQueue(f"sqlite:///{tmp_path}/holdfast.db")
    made.register_handler("ask", _ask)
    async with made:
        yield made


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


async def test_a_decision_is_answered_with_a_key(queue: TaskQueue, cli: Cli) -> None:
    handle = await queue.enqueue("ask", {})
    terminal = await Terminal.open(cli, "watch", handle.id)
    await terminal.until("s  leave it open")
    assert "Deploy now? (dec_" in terminal.shown
    assert "1  yes" in terminal.shown
    terminal.press("7")  # no option: ignored
    terminal.press("2")
    await terminal.until('answered with "no"')
    assert await terminal.ends() == 0
    assert await handle.result(SECONDS) == "said no"


async def test_a_decision_without_options_takes_a_line(queue: TaskQueue, cli: Cli) -> None:
    handle = await queue.enqueue("ask", {"options": False})
    terminal = await Terminal.open(cli, "watch", handle.id)
    await terminal.until("Enter leaves it open")
    terminal.press('{"n": 1}\n')
    await terminal.until('answered with {"n":1}')
    assert await terminal.ends() == 0


async def test_a_question_that_is_left_open_says_how_to_answer(queue: TaskQueue, cli: Cli) -> None:
    handle = await queue.enqueue("ask", {})
    terminal = await Terminal.open(cli, "watch", handle.id)
    await terminal.until("s  leave it open")
    terminal.press("s")
    await terminal.until("left open: holdfast decision answer dec_")
    [decision] = await queue.parts.decisions.list()
    await queue.parts.decisions.answer(decision.id, "yes", By("test"))
    assert await terminal.ends() == 0


async def test_a_question_that_another_has_answered_goes_away(queue: TaskQueue, cli: Cli) -> None:
    handle = await queue.enqueue("ask", {})
    terminal = await Terminal.open(cli, "watch", handle.id)
    await terminal.until("s  leave it open")
    [decision] = await queue.parts.decisions.list()
    await queue.parts.decisions.answer(decision.id, "yes", By("test"))
    assert await terminal.ends() == 0
    assert "answered with" not in terminal.shown


async def test_nothing_is_asked_without_a_terminal(queue: TaskQueue, cli: Cli) -> None:
    handle = await queue.enqueue("ask", {})
    await wait_for_question(queue)
    args = (cli.folder, "watch", handle.id, "--timeout", "10ms")
    done = await asyncio.to_thread(run_inside, *args)
    assert done.code == 7
    assert "leave it open" not in done.said


async def wait_for_question(queue: TaskQueue) -> None:
    async for event in queue.events():
        if event.kind == "checkpoint.hitl_required":
            return


async def make_job(queue: TaskQueue, creator: str) -> str:
    fleet = Fleet((await queue.open()).store)
    await fleet.hosts.add("default", HostEntry(name="web-1"), By("test"))
    request = JobRequest(command_type="shell", command="uptime", selector="web-1")
    return (await fleet.jobs.create(request, By(creator))).job.id


async def test_a_job_is_rejected_with_a_key(queue: TaskQueue, cli: Cli) -> None:
    job_id = await make_job(queue, "user:ann")
    terminal = await Terminal.open(cli, "watch", job_id, "--progress", "plain")
    await terminal.until("r  reject")
    assert "1 hosts, asked for by user:ann" in terminal.shown
    terminal.press("r")
    await terminal.until("why do you reject it?")
    terminal.press("not today\n")
    await terminal.until("you have voted: reject")
    terminal.process.send_signal(signal.SIGINT)  # no server plans the end of the job here
    assert await terminal.ends() == 130
    shown = json.loads(cli.ok("job", "show", job_id, "-o", "json"))
    assert shown["approval"]["votes"][0]["reason"] == "not today"
