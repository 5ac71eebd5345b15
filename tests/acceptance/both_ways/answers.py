"""Answers of two sides, without what differs from run to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.acceptance.cli_support import Done

TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
LENGTH = re.compile(r"\b\d+(\.\d+)? ?(ms|s|m|h|d)\b( \d+[smh]\b)?")
SECRET = re.compile(r"hf_(?:user|join|node)_[\w-]+|whsec_[\w+/=]+")
ACTOR = re.compile(r"\bcli:\w+|user:admin")
CODE = re.compile(r'error\[([\w-]+)\]|"code": "([\w-]+)"')
"""The code of an error. Its text may differ: a gateway does not say whether a thing exists elsewhere."""
HEX = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b")
MADE = re.compile(r"\b(tok|int|req|con|dec|op|ckp|hst|blk|job|apr|whk|msg)_\w+")


def normal(done: Done, output: str) -> tuple[int, object, object]:
    """The result without what differs from run to run: times, actors, ids that the store made."""
    out: object = done.out
    if output == "json" and done.out:
        out = plain(json.loads(done.out))
    shown = out if output == "json" else words(done.out).splitlines()
    return (
        done.code,
        shown,
        [code for line in done.said.splitlines() for code in CODE.findall(line)],
    )


FLEETING = ("_at", "_at_iso", "at", "at_iso", "_seconds", "seconds_ago", "seconds")


def plain(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            return {key: plain(item, key) for key, item in value.items() if key not in LEFT_OUT}
        case list():
            return [plain(item, name) for item in value]
        case str():
            return words(value)
        case int() | float() if name == "id" or name.endswith(FLEETING):
            return "number"
    return value


LEFT_OUT = {
    "position",
    "cursor",
    "hash",
    "prev",
    "prev_hash",
    "head",
    "digest",
    "seed",
    "before_version",
    "after_version",
}


def words(text: str) -> str:
    text = HEX.sub("ID", text)  # first: a part of an id may look like a length
    for pattern, stand_in in ((TIME, "TIME"), (LENGTH, "LENGTH"), (SECRET, "SECRET")):
        text = pattern.sub(stand_in, text)
    text = MADE.sub(r"\1_id", ACTOR.sub("actor", text))
    return re.sub(r"-[sg]\b", "-side", re.sub(r" {2,}", "  ", text))


def differences(store: Any, gateway: Any, place: str = "") -> Iterator[str]:
    """The places where two answers differ."""
    if isinstance(store, dict) and isinstance(gateway, dict):
        for key in {**store, **gateway}:
            yield from differences(store.get(key), gateway.get(key), f"{place}.{key}")
    elif (
        isinstance(store, list | tuple)
        and isinstance(gateway, list | tuple)
        and len(store) == len(gateway)
    ):
        for n, pair in enumerate(zip(store, gateway, strict=True)):
            yield from differences(*pair, f"{place}[{n}]")
    elif store != gateway:
        yield f"{place}: {store!r} != {gateway!r}"
