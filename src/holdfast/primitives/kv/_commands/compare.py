"""Compare and write: two scripts that Redis runs atomically.

Each call sends the text of its script. So the calls rely on no state of the server, and work inside a
transaction. The memory backend recognises the scripts by their text (`_memory/compare.py`).
"""

from __future__ import annotations

import functools
from importlib.resources import files

from holdfast.primitives.kv import _read as read
from holdfast.primitives.kv._op import Op
from holdfast.primitives.kv._words import span


def compare_and_set(key: str, expected: str | None, new: str, px: int | None = None) -> Op[bool]:
    """Write `new` if the value is `expected` (None: if the key does not exist). Returns whether it was
    written. `px`: time to live in milliseconds; without it the key does not expire."""
    condition = ("0", "") if expected is None else ("1", expected)
    words = (*condition, new, "" if px is None else span(px))
    return Op(("EVAL", script("compare_and_set"), "1", key, *words), read.flag)


def compare_and_delete(key: str, expected: str) -> Op[bool]:
    """Delete the key if its value is `expected`. Returns whether it was deleted."""
    return Op(("EVAL", script("compare_and_delete"), "1", key, expected), read.flag)


@functools.cache
def script(name: str) -> str:
    return (files("holdfast.primitives.kv") / "scripts" / f"{name}.lua").read_text("utf-8")
