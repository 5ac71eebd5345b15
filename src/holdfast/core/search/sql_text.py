"""Tests of text as SQL. All compare code points, whatever the collation of the column or the database."""

from __future__ import annotations

import re
from typing import Final, assert_never

from holdfast.core.search.matching import ascii_lower
from holdfast.core.search.params import TEXT, Params
from holdfast.core.search.tree import Contains, Exact, Glob

_GLOB: Final = re.compile(r"([*?\[])")
_LIKE: Final = re.compile(r"([\\%_])")
_SURROGATES: Final = range(0xD800, 0xE000)
_LAST: Final = 0x10FFFF


def text_test(expression: str, test: Exact | Glob | Contains, params: Params) -> str:
    """The condition that the test holds for the text."""
    match test:
        case Exact():
            return f"{expression} = {params.add(test.text, TEXT)}"
        case Glob(parts=("", "")):
            return f"{expression} IS NOT NULL"
        case Glob(parts=(prefix, "")):
            return _prefixed(_plain(expression, params), prefix, params)
        case Glob() if params.is_sqlite:
            pattern = "*".join(_GLOB.sub(r"[\1]", part) for part in test.parts)
            return f"{expression} GLOB {params.add(pattern, TEXT)}"
        case Glob():
            pattern = "%".join(_LIKE.sub(r"\\\1", part) for part in test.parts)
            return f"{_plain(expression, params)} LIKE {params.add(pattern, TEXT)}"
        case Contains():
            find = "instr" if params.is_sqlite else "strpos"
            part = params.add(ascii_lower(test.text), TEXT)
            return f"{find}(lower({_plain(expression, params)}), {part}) > 0"
        case _:
            assert_never(test)


def _plain(expression: str, params: Params) -> str:
    """The text in the order of its code points. SQLite's default is that order."""
    return expression if params.is_sqlite else f'{expression} COLLATE "C"'


def _prefixed(expression: str, prefix: str, params: Params) -> str:
    """A range and not a pattern: an index serves it also when the statement is prepared once."""
    low = f"{expression} >= {params.add(prefix, TEXT)}"
    end = after_prefix(prefix)
    return low if end is None else f"({low} AND {expression} < {params.add(end, TEXT)})"


def after_prefix(prefix: str) -> str | None:
    """The least text that is above every text with the prefix; None when there is none."""
    shortened = prefix.rstrip(chr(_LAST))
    if not shortened:
        return None
    code = ord(shortened[-1]) + 1
    return shortened[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)
