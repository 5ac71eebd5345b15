"""Plain and async functions in calls that expect the other kind: no effect is repeated because of it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import BlockingContext, Context, Task, TaskQueue
from holdfast.errors import InvalidInput
from holdfast.idempotency import BlockingLedger, EntryLease, Ledger
from holdfast.retry import aretry, aretry_with_log, retry, retry_with_log, retrying
from holdfast.testing import harness


@pytest.fixture
def queue() -> TaskQueue:
    return TaskQueue("sqlite://")


class Effect:
    """Counts its calls, as a plain function or as an async one."""

    def __init__(self) -> None:
        self.calls = 0

    def plain(self, lease: EntryLease | None = None) -> Any:
        self.calls += 1
        return self.calls

    async def awaited(self, lease: EntryLease | None = None) -> Any:
        return self.plain()

    async def __call__(self) -> Any:
        return self.plain()


async def test_a_plain_effect_of_a_step_runs_once(queue: TaskQueue) -> None:
    effect = Effect()

    async def pay(task: Task, ctx: Context) -> Any:
        answer = await ctx.once("charge", effect.plain)
        if ctx.attempt < 3:
            raise ConnectionError("later")
        return [answer, await ctx.once("lambda", lambda lease: effect.awaited(lease))]

    queue.register_handler("pay", pay)
    async with harness(queue) as h:
        handle = await queue.enqueue("pay")
        await h.advance(100)
        assert (await handle.get()).result == [1, 2]
    assert effect.calls == 2


async def test_a_plain_effect_of_a_ledger_runs_once() -> None:
    effect = Effect()
    async with Ledger.connect("sqlite://") as ledger:
        for _ in range(3):
            assert await ledger.run("tests", "charge", "1", None, effect.plain) == 1
    assert effect.calls == 1


def test_a_blocking_ledger_refuses_an_async_effect(tmp_path: Path) -> None:
    effect = Effect()
    with BlockingLedger.connect(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        for wrong in (effect.awaited, lambda lease: effect.awaited(lease)):
            with pytest.raises(InvalidInput, match="Ledger"):
                ledger.run("tests", "charge", "1", None, wrong)
        assert ledger.run("tests", "charge", "1", None, effect.plain) == 1


async def test_a_step_of_a_plain_handler_refuses_an_async_effect(queue: TaskQueue) -> None:
    effect = Effect()

    def pay(task: Task, ctx: BlockingContext) -> Any:
        for wrong in (effect.awaited, lambda lease: effect.awaited(lease)):
            with pytest.raises(InvalidInput, match="plain function"):
                ctx.once("charge", wrong)
        return ctx.once("charge", effect.plain)

    queue.register_handler("pay", pay)
    async with queue:
        assert await (await queue.enqueue("pay")).result(10) == 1


@pytest.mark.parametrize("form", [retry, retry_with_log])
def test_retry_refuses_an_async_function(form: Callable[..., Any]) -> None:
    effect = Effect()
    wrong: list[Callable[..., Any]] = [
        effect.awaited,
        functools.partial(effect.awaited, None),
        effect,
        lambda: effect.awaited(),
    ]
    for call in wrong:
        with pytest.raises(InvalidInput, match="aretry"):
            form(call)
    assert effect.calls == 0


@pytest.mark.parametrize("form", [aretry, aretry_with_log])
async def test_aretry_refuses_a_plain_function(form: Callable[..., Awaitable[Any]]) -> None:
    effect = Effect()
    with pytest.raises(InvalidInput, match=r"use `retry`"):
        await form(effect.plain)
    assert effect.calls == 1
    assert await form(lambda: effect.awaited()) == 2


async def test_retrying_recognises_async_callables() -> None:
    effect = Effect()
    assert await retrying()(effect)() == 1
    assert await retrying()(functools.partial(effect.awaited, None))() == 2
