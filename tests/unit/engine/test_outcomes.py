"""Outcomes that the store cannot write, slow batches of outcomes, and their log lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest
from msgspec.structs import replace

from holdfast import Context, Reject, Status, Task, TaskQueue
from holdfast.core.command import Abort, Complete, Instruction
from holdfast.core.decide import Ruling
from holdfast.core.task import RunId
from holdfast.engine.completer import BATCH_MAX, HELD_LOGGED, HELD_TRIES, TRIES_MAX
from holdfast.engine.outcome_log import MESSAGE_CHARS_MAX
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.testing import Harness, harness

Ended = Sequence[tuple[Task, Instruction]]


async def echo(task: Task) -> object:
    return task.payload


async def refusing(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, *, deaf: bool = False
) -> list[int]:
    """Makes the store fail to write a result 'bad'; with `deaf`, any outcome of that task. Returns the
    sizes of the batches."""
    store = (await queue.open()).store
    finish, sizes = store.finish, list[int]()

    async def broken(ended: Ended, **_: bool) -> list[Ruling]:
        sizes.append(len(ended))
        for task, instruction in ended:
            is_result = isinstance(instruction.command, Complete)
            if task.payload == "bad" and (deaf or is_result):
                raise ValueError("the store cannot write this")
        return await finish(ended)

    monkeypatch.setattr(store, "finish", broken)
    return sizes


async def enqueued(queue: TaskQueue, *payloads: object) -> list[str]:
    requests = [{"type": "echo", "payload": payload} for payload in payloads]
    return [str(handle) for handle in await queue.enqueue_many(requests)]


async def statuses(queue: TaskQueue, ids: Sequence[str]) -> list[Status | None]:
    return [task.status if (task := await queue.get_task(i)) else None for i in ids]


async def test_an_outcome_that_cannot_be_written_does_not_block_others(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue, max_workers=30) as h:
        queue.register_handler("echo", echo)
        sizes = await refusing(queue, monkeypatch)
        ids = await enqueued(queue, *[n if n != 7 else "bad" for n in range(20)])
        await h.run_until_idle()
        results = await statuses(queue, ids)
        assert results.pop(7) is Status.RUNNING, "it is tried again"
        assert set(results) == {Status.COMPLETED}, "the others did not wait for it"
        await h.advance(20)
        results = await statuses(queue, ids)
        assert results.pop(7) is Status.FAILED
        assert set(results) == {Status.COMPLETED}
        dead = await queue.get_task(ids[7])
        assert dead is not None
        assert "could not be written: ValueError" in str(dead.error)
        assert len(sizes) < 25, "halves, not one by one"
    assert f"outcome of task {ids[7]} (echo) attempt 1 cannot be written" in caplog.text


async def test_a_task_whose_outcome_and_failure_cannot_be_written_is_left_to_its_lease(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness(queue, max_workers=30) as h:
        queue.register_handler("echo", echo)
        await refusing(queue, monkeypatch, deaf=True)
        ids = await enqueued(queue, "bad", *range(5))
        await h.run_until_idle()
        assert await statuses(queue, ids) == [Status.RUNNING, *[Status.COMPLETED] * 5]
        for _ in range(TRIES_MAX):
            await h.engine.completer.step()
        assert h.engine.completer.given_up == 1
        assert dict(h.engine.runs.by_id) == {}


@pytest.mark.parametrize(
    "error", [StoreUnavailable("an outage"), RowHeld("another transaction")], ids=["outage", "held"]
)
async def test_outages_and_held_rows_use_up_no_try_of_a_failed_write(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, error: StoreUnavailable
) -> None:
    """The write fails, meets the error more often than it may fail, fails again, and is written."""
    async with harness(queue) as h:
        queue.register_handler("echo", echo)
        store = (await queue.open()).store
        finish, finish_held = store.finish, store.finish_held
        answers: list[Exception] = [
            ValueError("a bug"),
            *[error] * TRIES_MAX,
            ValueError("a bug"),
        ]

        def broken(verb: Callable[..., Awaitable[list[Ruling]]]) -> object:
            async def call(ended: Ended, **_: bool) -> list[Ruling]:
                if answers:
                    raise answers.pop(0)
                return await verb(ended)

            return call

        monkeypatch.setattr(store, "finish", broken(finish))
        monkeypatch.setattr(store, "finish_held", broken(finish_held))
        ids = await enqueued(queue, 1)
        await h.run_until_idle()
        while answers:
            with suppress(StoreUnavailable):
                await h.engine.completer.step()
        await h.advance(5)
        assert await statuses(queue, ids) == [Status.COMPLETED]


async def test_a_batch_that_is_too_slow_for_the_store_gets_smaller(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that is cancelled by its time limit looks like an outage."""
    async with harness(queue, max_workers=40) as h:
        queue.register_handler("echo", echo)
        store = (await queue.open()).store
        finish = store.finish

        async def slow(ended: Ended, **_: bool) -> list[Ruling]:
            if len(ended) > 4:
                raise StoreUnavailable("the statement took too long")
            return await finish(ended)

        monkeypatch.setattr(store, "finish", slow)
        ids = await enqueued(queue, *range(32))
        await h.run_until_idle()
        await h.advance(60)
        assert set(await statuses(queue, ids)) == {Status.COMPLETED}
        monkeypatch.undo()
        for _ in range(10):
            await enqueued(queue, *range(8))
            await h.run_until_idle()
        assert h.engine.completer._size == BATCH_MAX


async def test_held_outcomes_do_not_block_others(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A held row fails the whole batch. The held outcomes are tried separately until the row is free."""
    async with harness(queue, max_workers=60) as h:
        queue.register_handler("echo", echo)
        store = (await queue.open()).store
        finish, finish_held, briefly = store.finish, store.finish_held, list[bool]()

        def check(ended: Ended) -> None:
            if any(task.payload == "held" for task, _ in ended):
                raise RowHeld("another transaction holds a limit")

        async def guarded(ended: Ended, *, brief: bool = False) -> list[Ruling]:
            briefly.append(brief)
            check(ended)
            return await finish(ended)

        async def guarded_held(ended: Ended) -> list[Ruling]:
            check(ended)
            return await finish_held(ended)

        monkeypatch.setattr(store, "finish", guarded)
        monkeypatch.setattr(store, "finish_held", guarded_held)
        held = await enqueued(queue, *["held"] * (HELD_TRIES + 1))
        others = await enqueued(queue, *range(20))
        await h.run_until_idle()
        for _ in range(HELD_LOGGED):
            await h.engine.completer.step()
        later = await enqueued(queue, *range(20))
        await h.run_until_idle()
        assert set(await statuses(queue, others + later)) == {Status.COMPLETED}
        assert set(await statuses(queue, held)) == {Status.RUNNING}
        assert (briefly[0], briefly[-1]) == (False, True)
        assert h.engine.completer.outages == h.engine.completer.troubles == 0
        logged = [i for i in held if f"task {i} (echo) attempt 1: its outcome waits" in caplog.text]
        assert logged == held
        monkeypatch.undo()
        await h.engine.completer.step()
        assert set(await statuses(queue, held)) == {Status.COMPLETED}
        assert h.engine.completer._held == []


async def test_a_wide_failure_leaves_the_completer_alive(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        h.engine.basis.store._dialect.cascade_batch = 5

        async def fail(task: Task) -> None:
            raise Reject("no")

        queue.register_handler("fail", fail)
        queue.register_handler("echo", echo)
        parent = await queue.enqueue("fail", delay=1.0)
        requests = [{"type": "echo", "depends_on": [parent]} for _ in range(42)]
        children = [str(handle) for handle in await queue.enqueue_many(requests)]
        beside = await queue.enqueue("echo", 1, delay=1.0)
        await h.advance(1)
        assert set(await statuses(queue, children)) == {Status.FAILED}
        assert await statuses(queue, [str(beside)]) == [Status.COMPLETED]


async def test_a_lease_that_cannot_be_taken_back_does_not_block_others(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue) as h:
        queue.register_handler("echo", echo)
        await queue.pause_queue()
        ids = await enqueued(queue, *range(6))
        store = (await queue.open()).store
        await queue.resume_queue()
        await take_all(h)
        await h.engine.sweeper.step()
        h.clock.set(h.now() + 20)
        expire = store.runs.expire

        async def broken(runs: Sequence[RunId], *, brief: bool = False) -> list[Ruling]:
            if any(run.task_id == ids[2] for run in runs):
                raise ValueError("a row that cannot be read")
            return await expire(runs, brief=brief)

        monkeypatch.setattr(store.runs, "expire", broken)
        await h.engine.sweeper.step()
        assert h.engine.sweeper.expired == 5
        troubles = h.engine.sweeper.troubles
        assert troubles > 0
        await h.engine.sweeper.step()
        assert h.engine.sweeper.troubles == troubles, "it is skipped until the next pruning"
        assert f"taking back task {ids[2]} failed" in caplog.text
        assert caplog.text.count("stopped answering") == 5


async def take_all(h: Harness) -> None:
    """Claims for a node that dies at once."""
    resources = await h.queue.open()
    await resources.store.claim(replace(h.engine.dispatcher.request(100), node="dead"))


# -- what the log says --------------------------------------------------------------------------------


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(r.levelno, r.getMessage()) for r in caplog.records if r.name == "holdfast.tasks"]


async def test_each_failure_is_logged_and_the_last_has_a_traceback(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue) as h:

        async def boom(task: Task) -> None:
            raise ValueError("no such\x1b[31m customer\n" + "x" * 1_000)

        queue.register_handler("boom", boom, max_attempts=2)
        handle = await queue.enqueue("boom", {"secret": "payload"})
        await h.advance(120)
    (first_level, first), (last_level, last) = lines(caplog)
    assert (first_level, last_level) == (logging.WARNING, logging.ERROR)
    assert first.startswith(f"task {handle} (boom) attempt 1 of 2 failed: ValueError: no such?[31m")
    assert "; next attempt in " in first
    assert len(first) < MESSAGE_CHARS_MAX + 200
    assert "\n" not in first
    assert "attempt 2 of 2 failed: ValueError" in last
    assert "it is a dead letter now\nTraceback" in last
    assert "\x1b" not in last
    assert "payload" not in first + last


async def test_the_facts_of_a_failure_are_fields_of_its_record(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue) as h:

        async def boom(task: Task) -> None:
            raise ValueError("no such customer")

        queue.register_handler("boom", boom, max_attempts=2, queue="mail")
        handle = await queue.enqueue("boom")
        await h.advance(120)
    first, last = [vars(r) for r in caplog.records if r.name == "holdfast.tasks"]
    common = {"task_id": handle.id, "task_type": "boom", "queue": "mail", "max_attempts": 2}
    error = {"failure": "error", "error_type": "ValueError", "error": "no such customer"}
    assert first.items() >= (common | error | {"attempt": 1, "outcome": "retry"}).items()
    assert first["next_in_seconds"] > 0
    assert last.items() >= (common | error | {"attempt": 2, "outcome": "dead"}).items()


async def test_a_timeout_is_logged_as_a_failure(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue) as h:

        async def hang(task: Task) -> None:
            await asyncio.Event().wait()

        queue.register_handler("hang", hang, timeout=3.0, max_attempts=1)
        await queue.enqueue("hang")
        await h.advance(10)
    [(level, line)] = lines(caplog)
    assert level == logging.ERROR
    assert "(hang) attempt 1 of 1 failed: timeout: it ran longer than its timeout of 3 s" in line


async def test_a_refused_report_is_logged_like_a_refused_outcome(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()

    async def late(task: Task, ctx: Context) -> None:
        await gate.wait()
        for _ in range(2):
            with suppress(LeaseLost):
                await ctx.progress(0.5)

    async with harness(queue) as h:
        queue.register_handler("late", late)
        handle = await queue.enqueue("late")
        await h.advance(1)
        resources = await queue.open()
        await resources.store.apply([Instruction(handle.id, Abort("ann"))])
        gate.set()
        await h.advance(0.1)
    refused = [vars(r) for r in caplog.records if getattr(r, "outcome", "") == "refused"]
    assert [(r["task_id"], r["write"]) for r in refused] == [
        *((handle.id, "report"), (handle.id, "complete"))
    ]


async def test_a_run_without_progress_is_logged(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue) as h:

        async def hang(task: Task) -> None:
            await asyncio.Event().wait()

        queue.register_handler("hang", hang, progress_timeout=5.0, timeout=None)
        await queue.enqueue("hang")
        await h.advance(30)
    assert "(hang) attempt 1 is stuck: no progress for 5 s; its runner" in caplog.text


async def test_the_line_of_a_cause_says_that_others_fail_with_it(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue) as h:

        async def boom(task: Task) -> None:
            raise ValueError("no")

        queue.register_handler("boom", boom, max_attempts=1)
        first = await queue.enqueue("boom", delay=1.0)
        await queue.enqueue("boom", depends_on=[first])
        await h.advance(30)
    [(_, line)] = lines(caplog)
    assert "it is a dead letter now, and so are the tasks that need its result\nTraceback" in line


@pytest.mark.parametrize("verb", ["cancel", "pause_task"])
async def test_an_operators_abort_is_not_a_warning(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    caplog.set_level(logging.INFO)
    async with harness(queue) as h:

        async def hang(task: Task) -> None:
            await asyncio.Event().wait()

        queue.register_handler("hang", hang)
        handle = await queue.enqueue("hang")
        await h.run_until_idle()
        await getattr(queue, verb)(handle)
        await h.run_until_idle()
    [(level, line)] = lines(caplog)
    assert level == logging.INFO
    assert f"task {handle} (hang) is {'aborted' if verb == 'cancel' else 'paused'}" in line
    assert not [r for r in caplog.records if r.levelno > logging.INFO]


async def test_a_lost_lease_and_a_late_write_are_logged(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()
    async with harness(queue, lease_seconds=9.0) as h:

        async def stubborn(task: Task) -> None:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue
            raise RuntimeError("at last")

        queue.register_handler("stubborn", stubborn, timeout=10_000.0)
        await queue.enqueue("stubborn")
        await h.run_until_idle()
        owned = next(iter(h.engine.runs.by_id.values()))
        h.clock.set(h.now() + 20)
        store = (await queue.open()).store
        await store.sweep()
        h.engine.completer.deliver(
            owned.task, Instruction(owned.task.id, Complete("1"), fence=owned.task.fence)
        )
        await h.engine.completer.step()
        await h.engine.heartbeat.step()
        go.set()
        await h.run_until_idle()
    text = "\n".join(line for _, line in lines(caplog))
    assert "its 'complete' came too late and was refused" in text
