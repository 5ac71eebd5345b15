"""Middleware around handlers of every kind, and hooks at the start and the stop of workers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import Context, Reject, Retry, Status, TaskQueue, WorkerState
from holdfast.engine import worker_hooks
from holdfast.errors import BadConfig, NotFound
from holdfast.testing import harness
from tests.integration import around_app as app

Next = Callable[[], Awaitable[Any]]


async def test_middleware_is_around_handlers_of_every_kind(url: str) -> None:
    async with app.wrapped(TaskQueue(url)) as queue:
        assert await app.results(queue, ("loop", "thread", "process")) == app.SEEN


async def test_the_outcome_of_middleware_is_that_of_the_task() -> None:
    queue = TaskQueue("sqlite:////nowhere/at/all.db")
    calls = []

    @queue.task(max_attempts=2, retry_delay=0.01)
    async def work(how: str) -> str:
        calls.append(how)
        if how == "raises":
            raise ValueError("the handler's")
        return how

    @queue.middleware
    async def judge(ctx: Context, call_next: Next) -> object:
        match ctx.task.payload["how"]:
            case "skips":
                return "not called"
            case "rejects":
                raise Reject("not here")
            case "again" if ctx.attempt == 1:
                return Retry("once more", after=0)
            case "raises":
                try:
                    return await call_next()
                except ValueError as error:
                    return f"caught {error}"
        return await call_next()

    async with harness(queue) as bench:
        hows = ("plain", "skips", "rejects", "again", "raises")
        handles = {how: await work.enqueue(how) for how in hows}
        await bench.run_until_idle()
        ended = {how: await handle.get() for how, handle in handles.items()}
    assert calls == ["plain", "raises", "again"]
    assert {how: task.result for how, task in ended.items() if task.result is not None} == {
        "plain": "plain",
        "skips": "not called",
        "again": "again",
        "raises": "caught the handler's",
    }
    assert (ended["rejects"].status, ended["again"].attempts) == (Status.FAILED, 2)


async def test_a_timeout_covers_middleware(url: str) -> None:
    queue = TaskQueue(url)
    never = asyncio.Event()

    @queue.task(max_attempts=1, timeout=0.05)
    async def work() -> None: ...

    @queue.middleware
    async def hang(ctx: Context, call_next: Next) -> object:
        await never.wait()
        return await call_next()

    async with queue:
        task = await (await work.enqueue()).wait(60)
    assert task.failure is not None
    assert (task.status, task.failure.kind.value) == (Status.FAILED, "timeout")


def test_what_cannot_be_middleware_is_refused() -> None:
    queue = TaskQueue()
    add: Any = queue.middleware
    for wrong in (7, None, lambda ctx: None):
        with pytest.raises(BadConfig, match="middleware"):
            add(wrong)
    queue.task(name="process", isolation="process")(app.in_process)
    with pytest.raises(BadConfig, match="top level of a module"):
        add(lambda ctx, call_next: call_next())
    other = TaskQueue()
    add = other.middleware
    add(lambda ctx, call_next: call_next())
    with pytest.raises(BadConfig, match="top level of a module"):
        other.task(name="process", isolation="process")(app.in_process)


async def test_hooks_open_and_close_what_handlers_use(url: str) -> None:
    said: list[str] = []
    queue = app.hooked(TaskQueue(url, default_max_attempts=1), said)
    queue.task(name="process", isolation="process")(app.opens_in_process)
    for _ in range(2):
        async with queue:
            assert await app.results(queue, ("loop", "thread")) == {"loop": True, "thread": True}
            refused = await (await queue.enqueue("process", {})).wait(60)
            assert refused.failure is not None
            assert "ctx.state is in the worker's process" in refused.failure.message
            assert said == ["opened", "plain start"]
        assert said == ["opened", "plain start", "stop with 7, open True", "closed"]
        said.clear()
    async with queue.producer():
        await queue.enqueue("loop", {})
    assert said == []


async def test_a_start_hook_that_fails_ends_the_start(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    queue = app.hooked(TaskQueue(url), said)

    @queue.on_start
    async def refuses() -> None:
        raise ConnectionError("no database")

    with pytest.raises(ConnectionError, match="no database"):
        await queue.start()
    assert said == ["opened", "plain start", "stop with 7, open True", "closed"]
    assert not queue.is_running()
    await queue.stop()
    assert caplog.text == ""


async def test_a_stop_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    queue = app.hooked(TaskQueue("sqlite:////nowhere/at/all.db"), said)

    @queue.on_stop
    def fails(state: WorkerState) -> None:
        raise ValueError("at the end")

    async with harness(queue):
        assert "opened" in said
    assert said[-1] == "closed"
    assert "at the end" in caplog.text


async def test_no_stop_hook_keeps_the_others_from_running(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it never returns, is cancelled by what it awaits, or ends its program."""
    monkeypatch.setattr(worker_hooks, "STOP_SECONDS", 0.05)
    said: list[str] = []
    queue = app.hooked(TaskQueue("sqlite://"), said)
    returns = threading.Event()

    @queue.on_stop
    def waits_in_thread(state: WorkerState) -> None:
        returns.wait()

    @queue.on_stop
    async def waits(state: WorkerState) -> None:
        await asyncio.Event().wait()

    @queue.on_stop
    async def is_cancelled(state: WorkerState) -> None:
        raise asyncio.CancelledError

    @queue.on_stop
    async def ends(state: WorkerState) -> None:
        raise SystemExit(3)

    async with queue:
        assert "opened" in said
    returns.set()
    assert said[-1] == "closed"
    assert caplog.text.count("has failed: <function") == 2
    assert caplog.text.count("has not ended within 0.05 s: <function") == 2


async def test_hooks_that_give_nothing_to_tell_apart_are_refused() -> None:
    class Special(app.Database): ...

    queue = TaskQueue("sqlite:////nowhere/at/all.db")
    queue.on_start(app.Database)
    queue.on_start(Special)
    found: list[object] = []

    @queue.task(max_attempts=1)
    async def look(ctx: Context) -> None:
        found.append(ctx.state[Special])
        found.append(ctx.state.get(str))
        with pytest.raises(NotFound, match=r"gives a str \(they give Database, "):
            ctx.state[str]
        with pytest.raises(BadConfig, match="several objects are a object"):
            ctx.state[object]

    async with harness(queue) as bench:
        handle = await look.enqueue()
        await bench.run_until_idle()
        assert (await handle.get()).status is Status.COMPLETED
    assert isinstance(found[0], Special)
    assert found[1] is None
    queue.on_start(app.Database)
    with pytest.raises(BadConfig, match="two start hooks give a Database"):
        async with harness(queue):
            pass


async def test_a_generator_yields_once() -> None:
    queue = TaskQueue("sqlite:////nowhere/at/all.db")

    @queue.on_start
    def never() -> Iterator[str]:
        yield from ()

    with pytest.raises(BadConfig, match="does not yield"):
        async with harness(queue):
            pass
