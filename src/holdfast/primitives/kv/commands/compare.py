"""Compare and write: the two scripts that Redis runs in one step.

The text of a script goes along with each call: no state of the server is relied on, and it works inside a
transaction as well. The memory twin knows the scripts by their text (`memory/compare.py`).
"""

from __future__ import annotations

import functools
from importlib.resources import files

from holdfast.primitives.kv import read
from holdfast.primitives.kv.op import Op
from holdfast.primitives.kv.words import span


def compare_and_set(key: str, expected: str | None, new: str, px: int | None = None) -> Op[bool]:
    """Write `new` if the value is `expected` (None: if there is no such key); whether it was written.
    `px` milliseconds to live, none: for ever."""
    condition = ("0", "") if expected is None else ("1", expected)
    words = (*condition, new, "" if px is None else span(px))
    return Op(("EVAL", script("compare_and_set"), "1", key, *words), read.flag)


def compare_and_delete(key: str, expected: str) -> Op[bool]:
    """Remove the key if its value is `expected`; whether it was removed."""
    return Op(("EVAL", script("compare_and_delete"), "1", key, expected), read.flag)


@functools.cache
def script(name: str) -> str:
    return (files("holdfast.primitives.kv") / "scripts" / f"{name}.lua").read_text("utf-8")
