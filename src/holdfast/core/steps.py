"""A flow as a generator of steps: what to do next, told to whoever can do it.

A flow yields a step and gets its answer back, or the error that the step raised. So one text of it serves
callers that block and callers that await. Never: does a step by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")
Flow: TypeAlias = Generator[S, Any, T]


def drive(flow: Flow[S, T], perform: Callable[[S], object]) -> T:
    """Runs a flow to its end with steps that block."""
    try:
        step = next(flow)
        while True:
            try:
                answer = perform(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def adrive(flow: Flow[S, T], perform: Callable[[S], Awaitable[object]]) -> T:
    """Runs a flow to its end with steps that are awaited."""
    try:
        step = next(flow)
        while True:
            try:
                answer = await perform(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value
