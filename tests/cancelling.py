"""Cancels a call at its n-th suspension, for each n. The result does not depend on timing."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class CancelAt:
    """Runs a coroutine and cancels its task when it suspends for the n-th time."""

    def __init__(self, suspension: int, *, times: int = 1) -> None:
        self._suspension = suspension
        self._times = times
        self.suspensions = 0

    @property
    def has_struck(self) -> bool:
        return self.suspensions >= self._suspension

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._stepping(work)

    @types.coroutine
    def _stepping(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        proceed: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
        while True:
            try:
                awaited = proceed()
            except StopIteration as end:
                value: T = end.value
                return value
            self.suspensions += 1
            if self._suspension <= self.suspensions < self._suspension + self._times:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                answer = yield awaited
            except BaseException as error:
                proceed = _thrower(work, error)
            else:
                proceed = _sender(work, answer)


def _thrower(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)


def _sender(work: Coroutine[Any, Any, Any], answer: object) -> Callable[[], Any]:
    return lambda: work.send(answer)


async def cancelled_everywhere(
    scene: Callable[[CancelAt], Awaitable[None]], *, times: int = 1, limit: int = 200
) -> int:
    """Repeats the scene and cancels it one suspension later each time, until it ends before the cancellation.
    Returns how often it was cancelled."""
    for suspension in range(1, limit):
        at = CancelAt(suspension, times=times)
        await scene(at)
        if not at.has_struck:
            return suspension - 1
    raise AssertionError(f"the scene has not ended after {limit} suspensions")
