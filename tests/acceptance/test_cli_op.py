"""`holdfast op run` and `op resume` on a store: an interrupt stops the operation, and says how to go on."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast import TaskQueue
from tests.acceptance.cli_support import HOLDFAST, Cli
from tests.backends import SHARED, url_of

TASKS = 3


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def cli(url: str, tmp_path: Path) -> Cli:
    queue = TaskQueue(url)
    queue.register_handler("mail", lambda _: None)
    await queue.open()
    for _ in range(TASKS):
        await queue.enqueue("mail")
    await queue.stop()
    return Cli(tmp_path, url)


def interrupted(cli: Cli, *args: str) -> tuple[str, str]:
    """The id of an operation and the last line of the command, which an interrupt ended."""
    command = subprocess.Popen(
        [*HOLDFAST, "op", *args],
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with command:
        try:
            assert command.stderr is not None
            first = command.stderr.readline()
            command.send_signal(signal.SIGINT)
            out, said = command.communicate(timeout=30)
        finally:
            command.kill()
    assert (command.returncode, out) == (130, ""), first + said
    assert first.startswith("operation op_")
    # A log may have lines of progress before it.
    *_, line = said.splitlines()
    return first.split()[1], line


def test_an_interrupt_stops_the_operation_and_says_how_to_go_on(cli: Cli) -> None:
    run = ("run", "pause", "-q", "type:mail", "--rate", "0.01")
    op, line = interrupted(cli, *run)
    assert line.startswith(f"operation {op} is stopped after ")
    assert f"holdfast op resume {op} goes on" in line
    shown = cli.see("op", "show", op)
    assert (shown["state"], shown["detail"]) == ("stopped", "the command was interrupted")
    again, line = interrupted(cli, "resume", op)
    assert again == op
    assert cli.see("op", "show", op)["state"] == "stopped"


def test_an_operation_may_be_left_to_a_gateway(cli: Cli) -> None:
    op, line = interrupted(cli, "run", "pause", "-q", "type:mail", "--rate", "0.01", "--leave")
    assert f"operation {op} goes on at a gateway" in line
    assert f"holdfast op stop {op}" in line
    assert cli.see("op", "show", op)["state"] == "running"


def test_a_command_on_the_store_waits_for_the_end(cli: Cli) -> None:
    item = cli.json("op", "run", "pause", "-q", "type:mail")
    assert (item["state"], item["done"]) == ("done", TASKS)


def test_progress_is_shown_as_it_is_asked_for(cli: Cli) -> None:
    run = ("op", "run", "pause", "-q", "type:mail", "--rate", "50")
    quiet = cli.run(*run, "--progress", "quiet")
    assert (quiet.returncode, quiet.stdout) == (0, "")
    resume = ("op", "run", "resume", "-q", "type:mail", "--rate", "50", "--progress", "json")
    said = [json.loads(line) for line in cli.run(*resume).stdout.splitlines()]
    assert {one["state"] for one in said[:-1]} <= {"running"}
    assert (said[-1]["state"], said[-1]["done"]) == ("done", TASKS)


def test_an_undo_resumes_what_an_operation_has_paused(cli: Cli) -> None:
    cli.ok("op", "run", "pause", "-q", "type:mail", "--reason", "wrong query")
    [paused] = cli.see("op", "list")
    assert cli.see("op", "undo", "@last", "--dry-run")["eligible"] == TASKS
    assert cli.see("op", "list")[0]["id"] == paused["id"]
    undone = cli.see("op", "undo", paused["id"], "--reason", "it was")
    assert (undone["action"], undone["done"], undone["state"]) == ("resume", TASKS, "done")
    assert all(task["held_by"] is None for task in cli.see("task", "list"))
    assert "may have started: pause them" in cli.fails(6, "op", "undo", "@last")
