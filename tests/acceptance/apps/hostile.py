"""A handler that gives its context wrong and odd values, and returns what became of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from holdfast import BlockingContext, Task


class Count(float):
    """A number of the application, like those of array libraries."""


class Name(str):
    """A text of the application."""

    __slots__ = ()


class Refused:
    """Cannot be loaded anywhere else."""

    def __reduce__(self) -> Any:
        return (_fail, ())


def _fail() -> None:
    raise RuntimeError("loaded outside of the handler")


def hostile(_: Task, ctx: BlockingContext) -> list[list[str]]:
    context: Any = ctx
    deep: Any = 1
    for _level in range(5_000):
        deep = [deep]
    calls: dict[str, Callable[[], object]] = {
        "output of memory": lambda: context.output(memoryview(b"x")),
        "output of an object": lambda: context.output(Refused()),
        "output of a name": lambda: context.output(Name("named\n")),
        "output with a lone surrogate": lambda: context.output("\ud800"),
        "output to an object": lambda: context.output("x", Refused()),
        "output to a number": lambda: context.output("x", 7),
        "saved function": lambda: context.save(lambda: 1),
        "saved lock": lambda: context.save(threading.Lock()),
        "saved object": lambda: context.save({"a": Refused()}),
        "saved depth": lambda: context.save(deep),
        "saved nan": lambda: context.save(float("nan")),
        "point of a function": lambda: context.checkpoint("p", lambda: 1),
        "point of an object": lambda: context.checkpoint(Refused(), 1),
        "point with an odd note": lambda: context.checkpoint("p", 1, note=Refused()),
        "metric of the application": lambda: context.metrics(a=Count(3.5)),
        "metric of an object": lambda: context.metrics(a=Refused()),
        "metric nan": lambda: context.metrics(a=float("nan")),
        "progress of the application": lambda: context.progress(Count(0.5)),
        "progress of an object": lambda: context.progress(Refused()),
        "progress with an odd phase": lambda: context.progress(0.5, phase=Refused()),
        "step of a function": lambda: context.once("s", lambda _: 1, request=lambda: 1),
        "step of an object": lambda: context.once(Refused(), lambda _: 1),
        "step with a lock": lambda: context.once("t", lambda _: threading.Lock()),
        "saved at last": lambda: context.save([1, {"b": 2}]),
        "what is saved": lambda: str(context.saved),
    }
    return [[name, _outcome(call)] for name, call in calls.items()]


def _outcome(call: Callable[[], object]) -> str:
    try:
        return f"answered {call()}"
    except Exception as error:
        return type(error).__name__


def named_result(_: Task) -> object:
    """A result of a type of the application."""
    return {Name("k"): [1, (2, 3)]}
