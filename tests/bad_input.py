"""Wrong arguments for every public call, generated from the signatures.

A surface (a class with public calls) names the kind of each parameter. A parameter without a kind fails the
test, so a new call cannot be forgotten. Each call is made once for each bad value of each parameter, with
good values for the other parameters.
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from holdfast.core.check import shown
from holdfast.errors import HoldfastError

HANGS_SECONDS = 10.0
# HUGE is too large for a float, and for the text form of an int.
NAN, INF, HUGE = float("nan"), float("inf"), 10**5_000
_NAMES = [7, b"x", "", "x" * 513, "a\0b", "\udcff", "a\nb", ["x"], NAN, True]
_NUMBERS = ["x", NAN, INF, -INF, -1, HUGE, 1e300, [], b"1", True]
_JSON = [object(), {1: object()}, NAN, [INF], "\udcff", "x" * 300_000]

_WORDS = [7, b"x", "\udcff", ["x"], NAN, True]
_WHOLE = ["x", NAN, INF, 1.5, HUGE, 2**64, [], b"1", True]
_KV: dict[
    str, list[Any]
] = {  # Values that Redis accepts are valid: any text, numbers of either sign.
    "kv text": [*_WORDS, None],
    "kv text?": _WORDS,
    "kv texts": [7, None, "x", b"x", [], [7], [None], ["\udcff"]],
    "kv watch": [7, None, "x", b"x", [7], [None], ["\udcff"]],
    "kv map": [7, None, "x", [], {}, {1: "a"}, {"a": 1}, {"a": "\udcff"}, {"\udcff": "a"}],
    "kv scores": [
        *(7, None, "x", [], {}, {1: 1.0}, {"\udcff": 1.0}, {"a": "x"}, {"a": NAN}, {"a": None}),
        *({"a": []}, {"a": HUGE}, {"a": True}, {"a": b"1"}),
    ],
    "kv bound": ["x", NAN, [], None, b"1", True, HUGE, "\udcff"],
    "kv int": [*_WHOLE, None],
    "kv int?": _WHOLE,
    "kv span": [*_WHOLE, -1, 0, None],
    "kv span?": [*_WHOLE, -1, 0],
    "kv length": [*_WHOLE, -1, None],
    "kv length?": [*_WHOLE, -1],
    "kv id": [*_WORDS, None, "x", "1-x", "-1", "a\0b", ""],
    "kv ids": [7, None, "x", [], {}, {1: "0"}, {"x": 1}, {"x": "\udcff"}, {"x": "y"}],
}

BAD: dict[str, list[Any]] = {
    "name": [*_NAMES, None],
    "name?": _NAMES,
    "name or none": [*(name for name in _NAMES if name != ""), None],
    "text": [7, b"x", None, "a\0b", "\udcff", "x" * 100_000, ["x"], NAN],
    "phase?": [7, b"x", "a\0b", "\udcff", "x" * 100_000, ["x"], NAN],
    "output": [7, None, ["x"], "\udcff", "x" * (1 << 20) + "x"],
    "stream": [7, None, b"stdout", "", "x", ["x"]],
    "total": ["x", NAN, INF, -1, [], None, True],
    "whole": [*_NUMBERS, 1.5, None],
    "whole?": [*_NUMBERS, 1.5],
    "signed": ["x", NAN, INF, HUGE, [], 1.5, None, True],
    "number": [*_NUMBERS, None],
    "number?": _NUMBERS,
    "share": [*_NUMBERS, 1.01, None],
    "flag": ["x", 7, None, []],
    "json": _JSON,
    "dict?": [7, [], "x", False, {"a": object()}, {"a": NAN}, {"a": "x" * 20_000}],
    "priority?": ["x", "", 1, 7, -1, 1.5, True, [], NAN, b"high"],
    "priority": ["x", "", 1, 7, -1, 1.5, True, [], NAN, None],
    "status?": ["x", "", 7, [], b"failed"],
    "position?": [7, "x", "a:b", "a:-1", "", "\0", b"x", []],
    "spec": [
        7,
        "",
        "x",
        "61 * * * *",
        "0 0 31 2 *",
        "@every -1",
        "@every nan",
        "@every 1e300",
        "* * * * *\0",
        None,
    ],
    "spec?": [7, "", "x", "61 * * * *", "@every inf", "\udcff"],
    "zone": [7, "", "Mars/Phobos", "../etc", "Europe", "a\0b", "\udcff", None],
    "rate?": [7, "", "x", "0/s", "5/0s", "-1/s", "1/s\0", "9" * 400 + "/s"],
    "errors?": [7, "x", (), [], (7,), int, object()],
    "isolation?": [7, "", "x", []],
    "unique?": [7, "ended", [], {"until": "ended"}],
    "moment?": [7, "", "2026-01-01", [], datetime(2026, 1, 1), datetime(9999, 1, 1, tzinfo=UTC)],  # noqa: DTZ001
    "edges": [
        7,
        "x",
        b"x",
        None,
        [7],
        [""],
        ["a\0b"],
        [None],
        [["x"]],
        {"x": "maybe"},
        ["unknown"],
    ],
    "tasks": [
        *(7, "x", None, [7], ["x"], [{}], {"type": "echo"}),
        *([{"type": 7}], [{"type": ["x"]}], [{"type": "echo", "foo": 1}], [{"type": "nothing"}]),
        *([{"type": "echo", "delay": -1}], [{"type": "echo", "id": "a"}] * 2),
    ],
    "known id": [*_NAMES, None, "unknown"],
    "known type": [*_NAMES, None, "nothing"],
    "callable": [7, None, "x"],
    "callable?": [7, "x"],
    "tx?": [7, "x", object()],
    "resources": [7, "x", b"x", [], [""], [7], ["a\0b"], [None], None],
    "after": [7, b"x", "x" * 513, "a\0b", "\udcff", ["x"], NAN, None],
    "money": ["x", NAN, INF, -INF, -1, 0, HUGE, 1e300, [], b"1", True, None, "a\0b", "\udcff"],
    "side": ["x", "", 7, [], None, b"BUY", "\udcff"],
    "order state": ["x", "", 7, [], None, b"OPEN", "\udcff"],
    "path": [7, None, [], "a\0b", "\udcff", "", "x" * 5_000, True],
    "folder": [7, None, [], "a\0b", "", True],
    "object": [],  # The type is a protocol, which a type checker checks.
    "url": [
        7,
        None,
        [],
        "",
        "x",
        "mars://x",
        b"sqlite://",
        "sqlite:///a\0b",
        "sqlite:///\udcff",
        True,
    ],
    **_KV,
    "budget?": [7, "x", True],
    "urls": [7, None, b"x", [], "", "x", [7], [""], ["x"], "redis://a\0b", "redis://\udcff"],
    "amount": ["x", NAN, INF, -1, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), None, True],
    "band?": ["x", NAN, -1, Decimal("NaN"), Decimal("Infinity"), 1, True, 0.5],
    "limits?": [7, "x", {}, []],
    "intent": [7, None, "x", {}],
    "quotes": [7, None, "x", [7], [None], {"a": 1}],
    "some names": [7, "x", b"x", [7], [None], ["a\0b"], ["\udcff"]],
    "words": [7, "x", b"x", [7], [None], ["a\0b"], ["\udcff"]],
    "schema?": [7, "x", [], {"type": "banana"}],
    "intervention": [7, None, "", "x", b"PAUSE", []],
    "because": [7, b"x", None, "", "a\0b", "\udcff", "x" * 100_000, ["x"], NAN],
    "map": [7, "x", []],
    "state": ["x", "", 7, [], b"open"],
    "project": [*_NAMES, "A b", "all"],
    "names": [7, "", "x", [], [""], [7], ["a\0b"], ("!x",)],
}


class Case(NamedTuple):
    """One wrong call."""

    call: str
    parameter: str
    value: Any

    def __str__(self) -> str:
        return f"{self.call}({self.parameter}={shown(self.value):.60})"


class Surface(NamedTuple):
    """The public calls of a class, and the kinds of their parameters."""

    of: object
    """A class, or a namespace of functions and classes (whose constructors are the calls)."""
    kinds: Mapping[str, str]
    """By 'call.parameter' or 'parameter'."""
    good: Mapping[str, Any]
    """Good values of required parameters, by the same names."""
    leave_out: frozenset[str] = frozenset()
    """Calls to skip: callers do not construct their arguments."""
    options: Mapping[str, Mapping[str, Any]] = {}
    """The options behind `**name`, if the signature does not list them."""


def cases(surface: Surface) -> Iterator[Case]:
    for call, method in inspect.getmembers(surface.of, callable):
        if call.startswith("_") or call in surface.leave_out:
            continue
        for parameter in parameters(surface, method):
            for value in BAD[_kind(surface, call, parameter)]:
                yield Case(call, parameter, value)


def parameters(surface: Surface, method: Callable[..., Any]) -> Iterator[str]:
    """The names of all parameters, including `**options` that a TypedDict lists."""
    for name, parameter in inspect.signature(method).parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            hint = typing.get_type_hints(method, include_extras=True)[name]
            spelled = typing.get_args(hint)
            yield from spelled[0].__annotations__ if spelled else surface.options[name]
        else:
            yield name


def _kind(surface: Surface, call: str, parameter: str) -> str:
    kind = surface.kinds.get(f"{call}.{parameter}", surface.kinds.get(parameter))
    assert kind is not None, (
        f"parameter '{parameter}' of {surface.of!r}, {call}, has no kind: add it to the table of the "
        "surface, so that wrong values are tried"
    )
    return kind


def arguments(surface: Surface, case: Case) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a case: good values for required parameters, and the bad value."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    method = getattr(surface.of, case.call)
    signature = inspect.signature(method).parameters
    takes_more = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.values())
    for name, parameter in signature.items():
        if name == "self" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        is_needed = parameter.default is parameter.empty or f"{case.call}.{name}" in surface.good
        if name == case.parameter:
            value = case.value
        elif is_needed:
            value = surface.good.get(f"{case.call}.{name}", surface.good.get(name))
        else:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY or (
            takes_more and parameter.kind is not parameter.KEYWORD_ONLY
        ):
            args.append(value)
        else:
            kwargs[name] = value
    if case.parameter not in signature:
        kwargs[case.parameter] = case.value
    return args, kwargs


async def answer(surface: Surface, target: object, case: Case) -> str:
    """Makes the call. Returns the code of the error, or a description of any other result."""
    args, kwargs = arguments(surface, case)
    try:
        async with asyncio.timeout(HANGS_SECONDS):
            return f"accepted: {await _called(target, case, args, kwargs)!r:.60}"
    except HoldfastError as error:
        return error.code if _can_be_written(str(error)) else f"{error.code}: no text to write"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.80}"


def _can_be_written(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


async def _called(target: object, case: Case, args: list[Any], kwargs: dict[str, Any]) -> object:
    """Makes the call and uses its result: a coroutine, a context, events, or a decorator."""
    result = getattr(target, case.call)(*args, **kwargs)
    if inspect.isawaitable(result):
        return await result
    if isinstance(result, AbstractAsyncContextManager):
        async with result:
            return result
    if isinstance(result, AbstractContextManager):
        with result:
            return result
    if inspect.isasyncgen(result):
        return [event async for event in result]
    if callable(result) and case.call == "task":
        result(lambda: None)
    return result
