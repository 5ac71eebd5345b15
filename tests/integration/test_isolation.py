"""Async, thread and process handlers: what each may do, and what stops it."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.core.output import StreamName
from holdfast.core.task import FailureKind
from holdfast.engine import process
from holdfast.errors import BadConfig, InvalidInput, TaskFailed
from holdfast.sync.worker.reads import output_page
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Worker
from tests.acceptance.apps.jobs import make_queue

QUICK: dict[str, Any] = {
    "base_retry_delay": 0.01,
    "max_retry_delay": 0.02,
    "lease_seconds": 0.6,
    "shutdown_timeout": 2.0,
}


@pytest.mark.parametrize("kind", ["async_life", "thread_life", "process_life"])
async def test_the_context_is_the_same_in_all_three(url: str, kind: str) -> None:
    """Progress, checkpoints that outlive an attempt, parents' results, the fence."""
    settings = {
        **QUICK,
        "lease_seconds": 9.0,
    }  # An expired lease would add a fence.
    async with make_queue(url, kind, "work", **settings) as queue:
        parent = await queue.enqueue("work", {"value": {"from": "parent"}})
        task = await queue.enqueue(kind, {}, depends_on=[parent], max_attempts=2)
        found = await task.result(20)
        assert isinstance(found, dict)
        assert found["before"] == {"attempt": 1}
        assert found["parents"] == [{"from": "parent"}]
        assert found["fence"] == 2
        assert found["saved"] == {"attempt": 2}
        done = await task.get()
        progress = {"done": 0.5, "note": "half", "phase": "test", "iteration": 1}
        assert (done.checkpoint, done.progress) == ({"attempt": 2}, progress)
        kinds = [event.kind for event in await queue.history(task)]
        assert kinds.count("task.progress") == 4
        assert kinds.count("task.output") == 8
        assert kinds.count("task.checkpoint") == kinds.count("task.metrics") == 2
        store = (await queue.open()).store
        page = await output_page(store, done, StreamName.STDOUT, start=0, size=1_000)
        assert (page.fence, page.data) == (2, b"line 0\nline 1\nline 2\n")
        page = await output_page(store, done, StreamName.STDERR, start=0, size=1_000)
        assert page.data == b"\xff\0"
        totals = {"tokens_used": 2400.0, "cost": 1.0, "pages": 0.0}
        assert await store.reads.metrics(done.id) == totals
        assert kinds.count("checkpoint.created") == 2


async def test_a_timeout_really_kills_a_process_handler(url: str) -> None:
    async with Gate() as gate, make_queue(url, "process_spin", "process_pid", **QUICK) as queue:
        up = await (await queue.enqueue("process_pid")).result(20)  # its start may take long
        task = await queue.enqueue(
            "process_spin", {"gate": gate.address}, timeout=0.5, max_attempts=1
        )
        pid = int((await gate.arrived(1))[0])
        assert pid == up
        gate.open()
        ended = await task.wait(20)
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (Status.FAILED, FailureKind.TIMEOUT)
        assert "timeout of 0.5 s" in (ended.error or "")
        assert not psutil.pid_exists(pid)


async def test_a_thread_that_outlives_its_timeout_is_reported_and_its_outcome_dropped(
    url: str,
) -> None:
    async with Gate() as gate, make_queue(url, "thread_work", "work", **QUICK) as queue:
        task = await queue.enqueue(
            "thread_work", {"gate": gate.address, "name": "t"}, timeout=0.2, max_attempts=1
        )
        ended = await task.wait(10)
        assert ended.failure is not None
        assert ended.failure.kind is FailureKind.TIMEOUT
        assert gate.present["t"], "the thread still runs: it cannot be killed"
        other = await queue.enqueue("work", {"value": 1})
        assert await other.result(5) == 1  # its worker is free again
        gate.open()
        await gate.left("t")
        assert (await task.get()).status is Status.FAILED


async def test_an_async_handler_is_cancelled_by_its_timeout_and_retried(url: str) -> None:
    async with Gate() as gate, make_queue(url, "work", **QUICK) as queue:
        task = await queue.enqueue(
            "work", {"gate": gate.address, "name": "a"}, timeout=0.2, max_attempts=2
        )
        await gate.arrived(2, "a")
        gate.open()
        assert (await task.wait(10)).status is Status.COMPLETED
        kinds = [event.kind for event in await queue.history(task)]
        assert kinds.count("task.failed") == 1


@pytest.mark.parametrize(
    ("how", "evidence"), [("exit", "3"), ("os._exit", "4"), ("kill", "-9"), ("segfault", "-11")]
)
async def test_a_process_handler_that_dies_fails_with_evidence(
    url: str, how: str, evidence: str
) -> None:
    async with make_queue(url, "process_leave", "process_pid", **QUICK) as queue:
        task = await queue.enqueue("process_leave", {"how": how}, max_attempts=1)
        ended = await task.wait(20)
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (Status.FAILED, FailureKind.LOST)
        assert f"exit code {evidence} " in (ended.error or "")
        assert (ended.attempts, ended.deaths) == (1, 0)
        assert await (await queue.enqueue("process_pid", {})).result(20) != os.getpid()


@pytest.mark.parametrize(("how", "error"), [("mute", "Mute"), ("cancelled", "CancelledError")])
@pytest.mark.parametrize("kind", ["leave", "thread_leave", "process_leave"])
async def test_an_odd_error_is_one_of_the_handler_and_not_of_its_worker(
    url: str, kind: str, how: str, error: str
) -> None:
    async with make_queue(url, kind, **QUICK) as queue:
        ended = await (await queue.enqueue(kind, {"how": how}, max_attempts=1)).wait(20)
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (Status.FAILED, FailureKind.ERROR)
        assert ended.failure.error_type == error


async def test_a_process_handler_that_leaves_a_process_behind_is_noticed(url: str) -> None:
    """A child of its process has the socket open too, so its end closes nothing."""
    async with Gate() as gate, make_queue(url, "process_leave", **QUICK) as queue:
        payload = {"how": "fork", "gate": gate.address}
        task = await queue.enqueue("process_leave", payload, max_attempts=1)
        await gate.arrived(1, "grandchild")
        ended = await task.wait(20)
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (Status.FAILED, FailureKind.LOST)
        assert "exit code 5 " in (ended.error or "")
        gate.open()


async def test_a_process_handler_that_hangs_up_does_not_block_the_event_loop(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is awaited; it comes only after the event loop, which has the gate, has run."""
    monkeypatch.setattr(process, "EXIT_SECONDS", 20.0)
    async with Gate() as gate, make_queue(url, "process_leave", **QUICK) as queue:
        gate.open()
        payload = {"how": "hang up", "gate": gate.address}
        ended = await (await queue.enqueue("process_leave", payload, max_attempts=1)).wait(20)
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (Status.FAILED, FailureKind.LOST)
        assert "exit code 6 " in (ended.error or "")


async def test_a_process_handler_that_hangs_up_and_lives_is_killed(url: str) -> None:
    async with Gate() as gate, make_queue(url, "process_leave", "process_pid", **QUICK) as queue:
        pid = await (await queue.enqueue("process_pid")).result(20)
        payload = {"how": "hang up", "gate": gate.address}
        ended = await (await queue.enqueue("process_leave", payload, max_attempts=1)).wait(20)
        assert "closed its connection" in (ended.error or "")
        assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("kind", ["overdo", "thread_overdo", "process_overdo"])
async def test_a_handler_may_catch_what_its_context_refuses(url: str, kind: str) -> None:
    async with make_queue(url, kind, **QUICK) as queue:
        task = await queue.enqueue(kind, {}, max_attempts=1)
        assert await task.result(20) == InvalidInput.code
        assert (await task.get()).progress == {"done": 0.5, "note": "less"}


@pytest.mark.parametrize("kind", ["thread_chatter", "process_chatter"])
async def test_threads_of_a_handler_get_the_answers_to_their_own_questions(
    url: str, kind: str
) -> None:
    async with make_queue(url, kind, **{**QUICK, "lease_seconds": 9.0}) as queue:
        task = await queue.enqueue(kind, {}, max_attempts=1)
        assert await task.result(20) == 0


@pytest.mark.parametrize("kind", ["leave", "thread_leave"])
async def test_sys_exit_in_a_handler_fails_the_attempt_and_nothing_else(
    url: str, kind: str
) -> None:
    async with make_queue(url, kind, "work", **QUICK) as queue:
        task = await queue.enqueue(kind, {"how": "exit"}, max_attempts=1)
        ended = await task.wait(10)
        assert ended.failure is not None
        assert (ended.status, ended.failure.error_type) == (Status.FAILED, "SystemExit")
        assert await (await queue.enqueue("work", {"value": 1})).result(5) == 1
        assert queue.is_running()


@pytest.mark.parametrize("isolation", ["loop", "thread", "process"])
async def test_a_traceback_begins_with_the_handler(url: str, isolation: str) -> None:
    """The frames of the engine are the same for all handlers. Those below the handler are its own."""
    queue = TaskQueue(url)
    given: dict[str, Any] = {"isolation": isolation}
    queue.task(name="fail", **given)(fails_async if isolation == "loop" else fails)
    async with queue:
        ended = await (await queue.enqueue("fail", {}, max_attempts=1)).wait(30)
    assert ended.failure is not None
    head, first, *rest = ended.failure.traceback.splitlines()
    assert head == "Traceback (most recent call last):"
    assert __file__ in first
    assert rest[-1] == "LookupError: gone"
    assert ended.failure.traceback.count("Traceback") == 1


async def fails_async() -> None:
    fails()


def fails() -> None:
    raise LookupError("gone")


async def test_a_handler_whose_own_await_was_cancelled_fails_the_attempt(url: str) -> None:
    """A CancelledError without a cancellation of the worker is an error of the handler."""

    async def clumsy(task: Task) -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    queue = TaskQueue(url, max_workers=1, **QUICK)
    queue.register_handler("clumsy", clumsy)
    async with queue:
        for _ in range(3):
            task = await queue.enqueue("clumsy", {}, max_attempts=1)
            ended = await task.wait(5)
            assert ended.failure is not None
            assert (ended.status, ended.failure.error_type) == (Status.FAILED, "CancelledError")


@pytest.mark.parametrize("way", ["returns", "raises"])
async def test_a_handler_that_swallows_its_cancellation_has_timed_out_all_the_same(
    url: str, way: str
) -> None:
    async def stubborn(task: Task) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if way == "raises":
                raise RuntimeError("while cleaning up") from None
        return "never mind"

    async def quick(task: Task) -> str:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
            return "quick"

    queue = TaskQueue(url, max_workers=1, **QUICK)
    queue.register_handler("stubborn", stubborn)
    queue.register_handler("quick", quick)
    async with queue:
        task = await queue.enqueue("stubborn", {}, timeout=0.1, max_attempts=1)
        ended = await task.wait(5)
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (Status.FAILED, FailureKind.TIMEOUT)
        assert await (await queue.enqueue("quick", {})).result(5) == "quick"
        assert queue.parts.sessions.engine is not None
        assert queue.parts.sessions.engine.runs.by_id == {}


async def test_a_handlers_process_dies_with_its_worker(tmp_path: Path) -> None:
    """kill -9 of the worker in the middle of a handler: its process does not run beside the next run."""
    url = f"sqlite:///{tmp_path}/queue.db"
    watcher = TaskQueue(url)
    async with Gate() as gate, Worker(url, "process_work", **QUICK) as worker:
        await watcher.enqueue("process_work", {"gate": gate.address, "name": "work"})
        await gate.arrived(1)
        await worker.kill()
        await gate.left("work")
    await watcher.stop()


async def test_a_process_that_does_not_read_blocks_no_other_task(tmp_path: Path) -> None:
    """A payload that does not fit into the socket, and a stopped child."""
    url = f"sqlite:///{tmp_path}/queue.db"
    async with make_queue(url, "process_pid", "work", **QUICK) as queue:
        pid = await (await queue.enqueue("process_pid")).result(20)
        assert isinstance(pid, int)
        child = psutil.Process(pid)
        child.suspend()
        big = await queue.enqueue("process_pid", {"x": "x" * 250_000}, timeout=1.0, max_attempts=1)
        beside = await queue.enqueue("work", {"value": "went on"})
        assert await beside.result(20) == "went on"
        with pytest.raises(TaskFailed, match="timeout of 1 s"):
            await big.result(20)
        assert not child.is_running()


async def test_an_idle_process_that_died_is_replaced_silently(url: str) -> None:
    async with make_queue(url, "process_pid", **QUICK) as queue:
        pid = await (await queue.enqueue("process_pid", {})).result(20)
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        # A process counts as a zombie before its last thread has ended; only this waits for its end.
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        task = await queue.enqueue("process_pid", {}, max_attempts=1)
        assert await task.result(20) != pid


@pytest.mark.parametrize("kind", ["give_back", "process_give_back"])
async def test_a_result_that_cannot_be_stored_ends_the_task_at_once(
    url: str, kind: str, runs: str
) -> None:
    """The work is done; a retry would give the same result."""
    async with make_queue(url, kind, **QUICK) as queue:
        for how, wanted in [("object", "JSON"), ("huge", "the limit is 1048576")]:
            task = await queue.enqueue(kind, {"how": how, "journal": runs}, max_attempts=3)
            with pytest.raises(TaskFailed, match=wanted):
                await task.result(20)
            ended = await task.get()
            assert (ended.attempts, ended.failure and ended.failure.traceback) == (1, "")
        big = await queue.enqueue(kind, {"how": "big"})
        assert await big.result(20) == "x" * 900_000
        assert await (await queue.enqueue(kind, {"how": "none"})).result(20) is None
    assert len(journal.read(runs)) == 2


@pytest.mark.parametrize("kind", ["thread_outcome", "process_outcome"])
async def test_snooze_cancel_and_reject_mean_the_same_everywhere(url: str, kind: str) -> None:
    async with make_queue(url, kind, **QUICK) as queue:
        snoozed = await queue.enqueue(kind, {"how": "snooze"}, max_attempts=1)
        assert await snoozed.result(20) == "done"
        assert (await snoozed.get()).attempts == 1
        cancelled = await queue.enqueue(kind, {"how": "cancel"})
        assert (await cancelled.wait(20)).status is Status.ABORTED
        rejected = await queue.enqueue(kind, {"how": "reject"}, max_attempts=5)
        ended = await rejected.wait(20)
        assert ended.failure is not None
        assert (ended.status, ended.attempts) == (Status.FAILED, 1)
        assert ended.failure.kind is FailureKind.REJECTED


async def test_a_process_handler_must_be_found_by_name() -> None:
    queue = TaskQueue("sqlite://", **QUICK)

    def local(task: Task) -> None: ...

    with pytest.raises(BadConfig, match="isolation 'loop' needs an async function"):
        queue.register_handler("local", local, isolation="loop")
    for function in (local, lambda task: None, functools.partial(local), "text".join):
        with pytest.raises(BadConfig, match="top level of a module"):
            queue.register_handler("local", function, isolation="process")
    assert (await queue.get_stats()).registered_handlers == []
    await queue.stop()
