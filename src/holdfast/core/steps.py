"""Flows: generators of steps that a driver performs.

A flow yields a step and gets back the answer, or the error that the step raised. The same flow therefore
serves blocking and async callers. A step that must not be interrupted is finished first: its answer
arrives as `Interrupted`, and the interruption is raised at the next step. Never: performs a step itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")
Flow: TypeAlias = Generator[S, Any, T]


class Interrupted(NamedTuple):
    """The answer of a step whose caller was interrupted while it was finished."""

    answer: object
    error: BaseException


def settled(answer: object) -> object:
    """The answer of a step outside of a flow. An interruption is raised at once."""
    if isinstance(answer, Interrupted):
        raise answer.error
    return answer


def drive(flow: Flow[S, T], perform: Callable[[S], object]) -> T:
    """Runs a flow to its end with blocking steps."""
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
    """Runs a flow to its end with async steps."""
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
    """The next step. After an interruption the flow still gets the answer, so that it can undo the step.
    The step that it yields then is not performed: the interruption is raised in its place."""
    if not isinstance(answer, Interrupted):
        return flow.send(answer)
    try:
        flow.send(answer.answer)
    except StopIteration:
        raise answer.error from None
    except BaseException as first:
        raise answer.error from first
    return flow.throw(answer.error)
