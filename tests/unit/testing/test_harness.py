"""`holdfast.testing`: the harness and the pytest plugin."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Task, TaskQueue
from holdfast.testing import NeverIdle, _drive as drive, harness

USERS_TEST = """
from holdfast import TaskQueue

queue = TaskQueue("sqlite:////nowhere/at/all.db")

@queue.task(max_attempts=2)
async def greet(name: str) -> str:
    return f"hello {name}"

async def test_greeting(holdfast_harness):
    async with holdfast_harness(queue) as h:
        handle = await greet.enqueue("ann")
        await h.assert_enqueued(greet, {"name": "ann"}, count=1)
        await h.run_until_idle()
        assert await handle.result() == "hello ann"

async def test_again(holdfast_harness):
    async with holdfast_harness(queue) as h:
        await h.refute_enqueued(greet)
"""


async def echo(task: Task) -> object:
    return task.payload


@pytest.fixture
def queue() -> TaskQueue:
    queue = TaskQueue("sqlite:////nowhere/at/all.db", max_workers=3)
    queue.register_handler("echo", echo)
    return queue


async def test_assertions_about_enqueued_tasks(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        await queue.enqueue("echo", {"to": "ann", "n": 1})
        await queue.enqueue("echo", {"to": "bob", "n": 2}, delay=60)
        tasks = await h.assert_enqueued("echo")
        assert [task.payload["to"] for task in tasks] == ["ann", "bob"]
        await h.assert_enqueued("echo", {"to": "bob"}, count=1)
        await h.assert_enqueued("echo", count=2, status="queued")
        await h.refute_enqueued("echo", {"to": "eve"})
        with pytest.raises(AssertionError, match=r"3 tasks of type 'echo'.*found 2"):
            await h.assert_enqueued("echo", count=3)
        with pytest.raises(AssertionError, match="there is:\n  echo"):
            await h.assert_enqueued("other")
        with pytest.raises(AssertionError, match="expected no task"):
            await h.refute_enqueued("echo", {"n": 2})


async def test_time_moves_only_when_advanced(queue: TaskQueue) -> None:
    async with harness(queue, start=1000.0) as h:
        handle = await queue.enqueue("echo", 1, delay=60)
        await h.run_until_idle()
        assert (h.now(), (await handle.get()).status) == (1000.0, "queued")
        await h.advance(59.5)
        assert (await handle.get()).status == "queued"
        await h.advance(0.5)
        task = await handle.get()
        assert (task.status, task.started_at) == ("completed", 1060.0)
        with pytest.raises(ValueError, match="go back"):
            await h.advance(-1)


async def test_the_queue_is_restored_afterwards(queue: TaskQueue) -> None:
    before = dict(vars(queue))
    settings = queue.settings
    for _ in range(2):
        async with harness(queue, max_workers=1) as h:
            assert queue.settings.max_workers == 1
            await queue.enqueue("echo")
            await h.run_until_idle()
            assert len(await h.tasks()) == 1
    assert vars(queue) == before
    assert queue.settings is settings
    assert not queue.is_running()


async def test_the_seed_determines_the_ids(queue: TaskQueue) -> None:
    async def ids(seed: int) -> list[str]:
        async with harness(queue, seed=seed):
            return [await queue.enqueue("echo") for _ in range(3)]

    assert await ids(1) == await ids(1)
    assert await ids(1) != await ids(2)


async def test_endless_work_raises(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def again(task: Task) -> None:
        await queue.enqueue("again")

    monkeypatch.setattr(drive, "ROUNDS_MAX", 50)
    queue.register_handler("again", again)
    async with harness(queue) as h:
        await queue.enqueue("again")
        with pytest.raises(NeverIdle, match="enqueue itself"):
            await h.run_until_idle()


async def test_a_running_queue_is_refused() -> None:
    running = TaskQueue("sqlite://")
    async with running:
        with pytest.raises(RuntimeError, match="is running"):
            async with harness(running):
                pass


def test_the_plugin_provides_the_harness(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q"),
            *("-o", "asyncio_mode=auto", "-o", "addopts=", "--rootdir", str(tmp_path)),
            *("-p", "no:valkey", "-p", "no:platformdirs", "-p", "no:cacheprovider", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_plugin_imports_nothing_heavy() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import holdfast.testing.plugin; "
        "print(sorted(m for m in set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(eval(ran.stdout))
    assert loaded <= {"holdfast", "holdfast._lazy", "holdfast.testing", "holdfast.testing.plugin"}


def test_harness_is_a_function_in_any_import_order() -> None:
    """A module with the name of the function would replace it once imported."""
    code = "from holdfast.testing import Harness, harness; assert callable(harness), harness"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_a_wait_that_cannot_end_says_so(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        handle = await queue.enqueue("echo", 1)
        with pytest.raises(RuntimeError, match=r"await h\.run_until_idle"):
            await handle.result()
        await h.run_until_idle()
        assert await handle.result() == 1


async def test_a_wait_in_the_background_ends_with_the_task(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        handle = await queue.enqueue("echo", 1, delay=3_600)
        waiting = asyncio.create_task(handle.result())
        await h.advance(1_800)
        await h.advance(1_800)
        assert await waiting == 1


async def test_a_handler_that_waits_in_real_time_is_finished_later(queue: TaskQueue) -> None:
    """`run_until_idle` leaves such a handler running. A later call finds its end."""
    go_on = asyncio.Event()

    async def slow(task: Task) -> str:
        await go_on.wait()
        return "done"

    queue.register_handler("slow", slow)
    async with harness(queue) as h:
        handle = await queue.enqueue("slow")
        await h.run_until_idle()
        assert (await handle.get()).status == "running"
        go_on.set()
        await h.run_until_idle()
        assert await handle.result() == "done"
