"""`holdfast worker`: several processes, signals, and refused targets."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.cli.worker.signals import ECHO_SECONDS, Stops
from tests.acceptance.cli_support import APP, Cli
from tests.backends import SHARED, url_of

HELD = "hold"


@pytest.fixture(params=SHARED)
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Cli:
    return Cli(tmp_path, url_of(request.param, request, tmp_path))


@pytest.fixture
def local(tmp_path: Path) -> Cli:
    return Cli(tmp_path, f"sqlite:///{tmp_path / 'holdfast.db'}")


async def results(url: str, count: int) -> list[int]:
    """Enqueues tasks that return the pid of their process, and waits for all of them."""
    queue = TaskQueue(url)
    handles = await queue.enqueue_many({"type": "where", "payload": {"n": n}} for n in range(count))
    pids = [await handle.result(60) for handle in handles]
    await queue.stop()
    return pids


async def until_running(url: str, type: str = HELD) -> str:
    """Enqueues a task that never ends, and waits until it runs."""
    queue = TaskQueue(url)
    start = await queue.position()
    handle = await queue.enqueue(type)
    async for event in queue.events(start):
        if event.kind == "task.started" and event.task_id == handle.id:
            break
    await queue.stop()
    return handle.id


def test_two_processes_share_the_work_and_stop_cleanly(cli: Cli) -> None:
    with cli.worker("--processes", "2", "--max-workers", "4") as worker:
        pids = worker.ready(2)
        assert worker.pid not in pids
        assert set(asyncio.run(results(cli.env["HOLDFAST_URL"], 60))) == pids
        assert cli.see("stats")["nodes"] == 2
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
    assert cli.see("stats")["nodes"] == 0


def test_a_killed_process_is_started_again(local: Cli) -> None:
    with local.worker("--processes", "2") as worker:
        first, second = worker.ready(2)
        os.kill(first, signal.SIGKILL)
        worker.until("killed by SIGKILL", "starting it again")
        [third] = worker.ready()
        assert third not in (first, second)
        worker.send(signal.SIGINT)
        assert worker.ends() == 0


def test_a_second_signal_releases_running_tasks(local: Cli) -> None:
    with local.worker("--processes", "2") as worker:
        worker.ready(2)
        task = asyncio.run(until_running(local.env["HOLDFAST_URL"]))
        worker.send(signal.SIGTERM)
        worker.until("waiting for running ones")
        worker.send(signal.SIGINT)  # another signal: it cannot be an echo of the first
        assert worker.ends() == 130
    row = local.see("task", "show", task)
    assert (row["status"], row["attempts"], row["deaths"]) == ("queued", 0, 0)
    assert local.see("task", "history", task)[-1]["kind"] == "task.released"


def test_children_end_when_their_parent_is_killed(local: Cli) -> None:
    with local.worker("--processes", "2") as worker:
        worker.ready(2)
        worker.send(signal.SIGKILL)
        worker.until("the end of its parent process")
        worker.ends()  # the pipe to the children ends with the last of them
    assert local.see("stats")["nodes"] == 0


IGNORES_CANCEL = (
    APP
    + """
@queue.task(queue="slow")
async def stubborn() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""
)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_handler_that_ignores_cancellation_does_not_keep_the_process_alive(
    local: Cli, processes: str
) -> None:
    with local.worker("-p", processes, "--shutdown-timeout", "0.1s", app=IGNORES_CANCEL) as worker:
        worker.ready(int(processes))
        task = asyncio.run(until_running(local.env["HOLDFAST_URL"], "stubborn"))
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
    name = f"the handler of task {task} (stubborn)"
    assert any("ignores its cancellation" in line and name in line for line in worker.said)
    assert local.see("stats")["nodes"] == 0


def test_a_handler_that_ignores_cancellation_ends_with_the_parent(local: Cli) -> None:
    with local.worker("-p", "2", "--shutdown-timeout", "0.1s", app=IGNORES_CANCEL) as worker:
        worker.ready(2)
        asyncio.run(until_running(local.env["HOLDFAST_URL"], "stubborn"))
        worker.send(signal.SIGKILL)
        worker.ends()  # the pipe to the children ends with the last of them


async def test_an_echo_of_a_signal_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda *_: None)
    stops, now = Stops(), [10.0]
    monkeypatch.setattr(stops, "_now", lambda: now[0])
    stops.receive("SIGTERM")
    now[0] += ECHO_SECONDS / 2
    stops.receive("SIGTERM")
    assert (stops.graceful.is_set(), stops.fast.is_set()) == (True, False)
    now[0] += ECHO_SECONDS
    stops.receive("SIGTERM")
    assert stops.fast.is_set()


async def test_another_signal_is_no_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda *_: None)
    stops = Stops()
    monkeypatch.setattr(stops, "_now", lambda: 10.0)
    stops.receive("SIGTERM")
    stops.receive("SIGINT")
    assert stops.fast.is_set()


def test_only_the_given_queues_are_served(local: Cli) -> None:
    with local.worker("--queues", "slow,other") as worker:
        worker.ready()
        worker.until("queue 'other' does not exist")
        task = local.ok("enqueue", "add", "a=1", "b=2")
        reasons = local.see("task", "why", task)["reasons"]
        assert [reason["code"] for reason in reasons] == ["queue-unserved"]
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0


def test_only_the_given_projects_are_served(local: Cli) -> None:
    with local.worker("--project", "web") as worker:
        worker.ready()
        local.ok("project", "create", "web")
        assert local.ok("enqueue", "add", "a=1", "b=2", "--project", "web", "--wait") == "3"
        task = local.ok("enqueue", "add", "a=1", "b=2")
        reasons = local.see("task", "why", task)["reasons"]
        assert [reason["code"] for reason in reasons] == ["project-unserved"]
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
    refused = local.fails(
        2, "worker", "shop:queue", "--project", "web", "--gateway", "holdfast://x"
    )
    assert "the token says the project" in refused


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("shop", "write MODULE:QUEUE"),
        ("nowhere:queue", "there is no module 'nowhere'"),
        ("shop.py:queue", "write shop:queue"),
        ("./app/shop.py:queue", "write app.shop:queue"),
        ("shop:quue", "did you mean shop:queue?"),
        ("shop:add", "not a queue"),
        ("broken:queue", "cannot be imported: ZeroDivisionError"),
        ("empty:queue", "has no tasks"),
    ],
)
def test_a_wrong_target_is_refused(local: Cli, target: str, word: str) -> None:
    (local.folder / "shop.py").write_text(APP)
    (local.folder / "broken.py").write_text("1 / 0")
    (local.folder / "empty.py").write_text("from holdfast import TaskQueue\nqueue = TaskQueue()")
    assert word in local.fails(2, "worker", target)


@pytest.mark.parametrize("command", [("worker",), ("simulate", "--app")])
@pytest.mark.parametrize(
    ("source", "error", "at"),
    [
        ("def f():\n    return {}['region']\nx = f()", "KeyError: 'region'", ("helpers.py", 2)),
        ("x = 1\ny = (2", "SyntaxError: '(' was never closed", ("helpers.py", 2)),
        ("\nimport nosuch", "ModuleNotFoundError: No module named 'nosuch'", ("helpers.py", 2)),
        ("import sys\n\nsys.exit(3)", "SystemExit: 3", ("helpers.py", 3)),
        ("x = 1", "BadConfig: timeout is '30s'", ("app.py", 5)),
    ],
)
def test_an_import_error_names_file_and_line(
    local: Cli, command: tuple[str, ...], source: str, error: str, at: tuple[str, int]
) -> None:
    """Frames of the application only, also when the error is raised within Holdfast."""
    (local.folder / "app.py").write_text(
        "from holdfast import TaskQueue\nimport helpers\n\nqueue = TaskQueue()\n"
        "@queue.task(timeout='30s')\nasync def f() -> None: ...\n"
    )
    (local.folder / "helpers.py").write_text(source)
    stderr = local.fails(2, *command, "app:queue").splitlines()
    path, line = local.folder / at[0], at[1]
    assert stderr[0].startswith(f"error[bad-config]: module 'app' cannot be imported: {error}")
    assert stderr[0].endswith(f" ({path}, line {line})")
    frames = [text for text in stderr if text.startswith("  File ")]
    assert f'"{path}", line {line}' in frames[-1]
    assert all(str(local.folder) in frame for frame in frames)
    assert error in stderr[-1]


def test_a_wrong_target_ends_all_processes(local: Cli) -> None:
    assert "it cannot start" in local.fails(2, "worker", "nowhere:queue", "--processes", "2")


def test_many_processes_cannot_share_a_store_in_memory(local: Cli) -> None:
    (local.folder / "shop.py").write_text(APP)
    stderr = local.fails(2, "worker", "shop:queue", "--processes", "2", HOLDFAST_URL="sqlite://")
    assert "is in memory, where only one process sees it" in stderr
    assert "it cannot start" in stderr


def test_an_engine_failure_ends_the_process(local: Cli) -> None:
    app = APP + (
        "\nfrom holdfast.errors import EngineFailed\n"
        "async def engine_failed():\n    return EngineFailed('the dispatcher died 11 times')\n"
        "queue.wait_failed = engine_failed\n"
    )
    (local.folder / "shop.py").write_text(app)
    assert "error[engine-failed]" in local.fails(1, "worker", "shop:queue")


def test_an_unreachable_database_is_reported(tmp_path: Path) -> None:
    cli = Cli(tmp_path, "postgresql://localhost:1/nothing")
    (tmp_path / "shop.py").write_text(APP)
    assert "error[store-unavailable]" in cli.fails(10, "worker", "shop:queue")


def test_the_log_as_json_names_the_task_and_what_happens_next(local: Cli) -> None:
    with local.worker("--processes", "2", "--log-format", "json") as worker:
        worker.until("ready: pid")
        task_id = local.ok("enqueue", "boom", "n=7", "-o", "name").removeprefix("task/")
        line = json.loads(worker.until('"outcome": "dead"'))
        assert (line["task_id"], line["task_type"], line["attempt"]) == (task_id, "boom", 1)
        assert (line["error_type"], line["error"]) == ("ValueError", "boom 7")
        assert "Traceback" in line["message"]
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
    for said in worker.said:
        assert json.loads(said)["level"]
