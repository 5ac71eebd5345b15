"""Decisions and interventions on the command line, over processes that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import TaskQueue
from tests.acceptance.cli_support import Cli
from tests.backends import SHARED, url_of

APP = """
import asyncio, os, sys
from holdfast import TaskQueue

queue = TaskQueue(os.environ["HOLDFAST_URL"], lease_seconds=2)

@queue.task
async def deploy(ctx) -> str:
    count = await ctx.once("plan", plan)
    answer = await ctx.decide(f"Deploy {count}?", options=["yes", "no"], data={"hosts": count})
    return f"{answer.choice} to {count} by {answer.by}"

async def plan(lease) -> int:
    return 14

async def main(verb: str) -> None:
    async with queue:
        if verb == "ask":
            queue.on_event(tell)
            handle = await deploy.enqueue()
            print(handle.id, flush=True)
            await asyncio.Event().wait()
        print((await queue.wait_task(verb, 30)).result, flush=True)

def tell(event) -> None:
    if event.kind == "checkpoint.hitl_required":
        print(event.decision_id, flush=True)

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(params=SHARED)
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Cli:
    (tmp_path / "app.py").write_text(APP)
    return Cli(tmp_path, url_of(request.param, request, tmp_path))


def test_an_answer_reaches_a_task_whose_process_was_killed(cli: Cli) -> None:
    asking = subprocess.Popen(
        [sys.executable, "app.py", "ask"],
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asking.stdout is not None
    task_id = asking.stdout.readline().strip()
    decision_id = asking.stdout.readline().strip()
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    asking.stdout.close()

    listed = cli.run("decision", "list")
    assert "Deploy 14?" in listed.stdout, listed.stderr
    assert '{"hosts":14}' in cli.run("decision", "show", decision_id).stdout
    assert cli.run("decision", "answer", decision_id, "perhaps").returncode == 2
    assert cli.run("task", "resume", task_id).returncode == 8
    answered = cli.run("decision", "answer", decision_id, "yes", "--reason", "green")
    assert answered.returncode == 0, answered.stderr
    assert cli.run("decision", "answer", decision_id, "no").returncode == 6

    again = subprocess.run(
        [sys.executable, "app.py", task_id],
        cwd=cli.folder,
        env=cli.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert again.stdout.startswith("yes to 14 by "), again.stderr


async def test_interventions_by_hand(cli: Cli) -> None:
    queue = TaskQueue(cli.env["HOLDFAST_URL"])
    queue.register_handler("work", lambda task: None)
    await queue.open()
    task_id = (await queue.enqueue("work", delay=1_000)).id
    await queue.stop()

    def run(verb: str, *more: str) -> int:
        return cli.run("task", verb, task_id, "--reason", "a good reason", *more).returncode

    assert run("release") == 6
    assert run("reassign", "--to", "nowhere") == 2
    assert run("retry") == 0
    assert run("force", "--status", "running") == 6
    assert run("abort") == 0
    assert run("abort") == 6
    verified = cli.run("audit", "verify")
    assert verified.returncode == 0, verified.stderr
