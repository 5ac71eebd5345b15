"""One test of a term, read by the kind of its key: which operators the key takes and which values fit."""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.search import values
from holdfast.core.search.keys import Key, Kind
from holdfast.core.search.scan import QueryError, Scanner
from holdfast.core.search.tree import Between, Compare, Comparison, Contains, Exact, Glob, Test

_OPERATOR: Final = re.compile(r"[<>]=?")
_RANGE: Final = re.compile(r'([^\s(),"*]+?)\.\.([^\s(),"*]+)')
_NUMBERS: Final = re.compile(r"(-?[0-9.]*[0-9])\.\.(-?[0-9][0-9.]*)(?=[\s),]|$)")
_RANGED: Final = frozenset({Kind.NUMBER, Kind.TIME, Kind.AGE, Kind.JSON})
_WITH_TEXT: Final = frozenset({Kind.TEXT, Kind.JSON})
_PRESENT: Final = ("", "")
_BOUNDS: Final = {
    Kind.NUMBER: f"a number of at most {values.DIGITS_MAX} digits",
    Kind.JSON: f"a number of at most {values.DIGITS_MAX} digits",
    Kind.TIME: "a date (2026-11-15), a time (2026-11-15T20:07:31Z), now, or an offset (-2h, +10m)",
    Kind.AGE: "a duration (90s, 15m, 1h30m, 2d)",
}


def parse_test(scanner: Scanner, key: Key) -> Test:
    """The test that stands at the scanner's position."""
    start = scanner.at
    if scanner.take("~"):
        if key.kind not in _WITH_TEXT:
            raise QueryError(start, f"a value: {key.name} is not text")
        return Contains(_literal(scanner))
    operator = scanner.take_match(_OPERATOR)
    if operator is not None:
        if key.kind not in _RANGED:
            raise QueryError(start, f"a value: {key.name} has no order")
        return Compare(Comparison(operator[0]), _bound(key, scanner.at, _literal(scanner)))
    if key.kind in _RANGED:
        ends = scanner.take_match(_NUMBERS if key.kind is Kind.JSON else _RANGE)
        if ends is not None:
            return Between(_bound(key, ends.start(1), ends[1]), _bound(key, ends.start(2), ends[2]))
    return _value(scanner, key)


def _literal(scanner: Scanner) -> str:
    start = scanner.at
    written = scanner.value()
    if len(written.parts) > 1:
        raise QueryError(start, "text without a star; quote a star that is meant")
    return written.text


def _bound(key: Key, at: int, text: str) -> str:
    if values.span(key, text, now=0.0) is None:
        raise QueryError(at, _expected(key))
    return text


def _expected(key: Key) -> str:
    names = "".join(f"{name}, " for name, _ in key.numbers)
    return f"{names and f'{names}or '}{_BOUNDS[key.kind]}"


def _value(scanner: Scanner, key: Key) -> Exact | Glob:
    start = scanner.at
    written = scanner.value()
    if len(written.parts) > 1:
        if key.kind not in _WITH_TEXT and written.parts != _PRESENT:
            raise QueryError(start, "a value without a star, or only a star for any value")
        return Glob(written.parts)
    _check_exact(key, start, written.text)
    return Exact(written.text)


def _check_exact(key: Key, at: int, text: str) -> None:
    """QueryError unless the key can have this value."""
    if key.words and text not in key.words:
        raise QueryError(at, f"one of {', '.join(key.words)}")
    if key.kind is Kind.NUMBER:
        _bound(key, at, text)
    elif key.kind is Kind.TIME:
        value = values.span(key, text, now=0.0)
        if value is None or value.start == value.end:
            raise QueryError(at, f"> >= < <= or a range, or a date for {key.name}")
    elif key.kind is Kind.AGE:
        raise QueryError(at, f"> >= < <= or a range of durations for {key.name}, such as >1h")
