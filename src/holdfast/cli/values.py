"""Parses what users type: durations, payloads, key=value pairs.

Promises: a value that is JSON is parsed as JSON, anything else is text. Every error says what to write.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from holdfast.cli.problem import Usage

STDIN: Final = "@stdin"
"""Stands for a lone '-', which the parser would take for an option."""
_DURATION: Final = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str, option: str) -> float:
    """'90', '90s', '1.5m', '2h', '500ms' -> seconds."""
    found = _DURATION.match(text.strip())
    if not found:
        raise Usage(f"{option} is '{text}': write a duration such as 30, 500ms, 30s, 5m, 2h or 1d")
    return float(found[1]) * _UNIT_SECONDS[found[2] or "s"]


def moment(text: str, option: str) -> datetime:
    """A time with its zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        found = None
    if found is None or found.utcoffset() is None:
        raise Usage(
            f"{option} is '{text}': write a time with its zone, such as 2026-08-01T10:00+02:00 or "
            "2026-08-01T08:00Z"
        )
    return found


def payload(pairs: Iterable[str], json_text: str | None) -> Any:
    """The payload from key=value pairs, or from --json (a text, or - for stdin)."""
    given = list(pairs)
    if json_text is not None:
        if given:
            raise Usage(f"both --json and '{given[0]}' are given: use one of them")
        return parse_json(sys.stdin.read() if json_text == STDIN else json_text)
    return dict(_pair(each) for each in given)


def parse_json(text: str, option: str = "--json") -> Any:
    """The value of an option that takes JSON only."""
    try:
        return json.loads(text)
    except RecursionError:
        raise Usage(f"{option} is nested too deeply") from None
    except ValueError as error:
        raise Usage(
            f"{option} is not JSON: {error}; quote it for the shell: {option} '{{\"n\": 1}}', a text as "
            f"{option} '\"done\"'"
        ) from None


def patch(text: str) -> dict[str, Any]:
    """The value of --patch: an object with a field."""
    fields = parse_json(sys.stdin.read() if text == STDIN else text, "--patch")
    if not isinstance(fields, dict) or not fields:
        raise Usage("--patch takes a JSON object with the fields to change: --patch '{\"n\": 1}'")
    return fields


def parsed(text: str) -> Any:
    """The value of a text that is JSON, otherwise the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _pair(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise Usage(f"'{text}' is not key=value: write e.g. to=a@example.com, or use --json")
    return key, parsed(value)


def names(text: str) -> tuple[str, ...]:
    """'a,b' -> ('a', 'b')"""
    return tuple(part.strip() for part in text.split(",") if part.strip())
