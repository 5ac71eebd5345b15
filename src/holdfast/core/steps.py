"""A flow as a generator of steps: what to do next, told to whoever can do it.

A flow yields a step and gets its answer back, or the error that the step raised. So one text of it serves
callers that block and callers that await. A step that must not be broken off is finished first: its answer
comes as `Interrupted`, and the flow hears of the interruption at its next step. Never: does a step by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")
Flow: TypeAlias = Generator[S, Any, T]


class Interrupted(NamedTuple):
    """The answer of a step that was finished although its caller was interrupted meanwhile."""

    answer: object
    error: BaseException


def settled(answer: object) -> object:
    """The answer of a step, outside of a flow: an interruption is raised now."""
    if isinstance(answer, Interrupted):
        raise answer.error
    return answer


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
                step = _answered(flow, answer)
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
                step = _answered(flow, answer)
    except StopIteration as end:
        value: T = end.value
        return value


def _answered(flow: Flow[S, T], answer: object) -> S:
    """The next step. After an interruption the flow learns the answer, so that it can undo what it has got,
    but the step that would follow is not done: the interruption is raised in its place."""
    if not isinstance(answer, Interrupted):
        return flow.send(answer)
    try:
        flow.send(answer.answer)
    except StopIteration:
        raise answer.error from None
    except BaseException as first:
        raise answer.error from first
    return flow.throw(answer.error)
