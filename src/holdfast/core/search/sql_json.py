"""Tests of a value inside a JSON document as SQL.

Strings, numbers and booleans are tested by their type. The type is checked in a CASE, because PostgreSQL may
evaluate the parts of an AND in any order.
PostgreSQL cannot read some JSON that a task may hold, e.g. a string with U+0000: in such a document no value
is present (`postgres_document`).
"""

from __future__ import annotations

from typing import Final, NamedTuple, assert_never

from holdfast.core.search.keys import Key
from holdfast.core.search.params import EXACT, TEXT, Params, within
from holdfast.core.search.sql_text import text_test
from holdfast.core.search.tree import Between, Compare, Contains, Exact, Glob, Test
from holdfast.core.search.values import limits, number

ANY: Final = Glob(("", ""))
BOOLEANS: Final = ("true", "false")
_UNREADABLE: Final = r"(?<!\\)(\\\\)*\\u(0000|[dD][89a-fA-F])"
"""An escape, behind an even number of backslashes, that PostgreSQL may refuse."""


class JsonPlace(NamedTuple):
    """The SQL of one place in a document."""

    type: str
    string: str
    number: str
    boolean: str
    """The text `true` or `false`, if the value is a boolean."""
    strings: str
    numbers: str
    """The names of the types, as a list of SQL."""


def place(document: str, path: tuple[str, ...], params: Params) -> JsonPlace:
    """The value that the path leads to. A step is the name of an object's field, never an index."""
    if params.is_sqlite:
        steps = params.add("$" + "".join(f'."{name}"' for name in path), TEXT)
        value, kind = f"json_extract({document}, {steps})", f"json_type({document}, {steps})"
        return JsonPlace(kind, value, value, kind, "'text'", "'integer', 'real'")
    inner = f"({postgres_document(document)}{''.join(f' -> {params.add(name, TEXT)}' for name in path)})"
    text = f"({inner} #>> '{{}}')"
    return JsonPlace(
        f"jsonb_typeof({inner})", text, f"{text}::numeric", text, "'string'", "'number'"
    )


def postgres_document(text: str) -> str:
    r"""The JSON text of a column as a value, null if PostgreSQL cannot read it.

    Stored JSON is valid, with numbers as Python has. What PostgreSQL refuses in it are escapes: U+0000,
    and halves of surrogate pairs, which no encoder of the product writes. The text decides, because
    `pg_input_is_valid` needs PostgreSQL 16. Most documents have no escape `\u` and are not looked through.
    """
    return rf"(CASE WHEN strpos({text}, '\u') = 0 OR {text} !~ '{_UNREADABLE}' THEN ({text})::jsonb END)"


def json_test(at: JsonPlace, key: Key, test: Test, now: float, params: Params) -> str:
    """The condition that the test holds for the value."""
    match test:
        case Glob() if test == ANY:
            return f"{at.type} <> 'null'"
        case Glob() | Contains():
            return _case(at.type, at.strings, text_test(at.string, test, params))
        case Exact():
            return _equals(at, test, params)
        case Compare() | Between():
            inside = within(at.number, limits(key, test, now), params, EXACT)
            return _case(at.type, at.numbers, inside)
        case _:
            assert_never(test)


def _equals(at: JsonPlace, test: Exact, params: Params) -> str:
    """Equality with a string, or with the number or the boolean that the text stands for."""
    choices = [_case(at.type, at.strings, text_test(at.string, test, params))]
    value = number(test.text)
    if value is not None:
        choices.append(_case(at.type, at.numbers, f"{at.number} = {params.add(value, EXACT)}"))
    if test.text in BOOLEANS:
        choices.append(
            _case(at.type, "'boolean', 'true', 'false'", text_test(at.boolean, test, params))
        )
    return f"({' OR '.join(choices)})" if len(choices) > 1 else choices[0]


def _case(type: str, types: str, condition: str) -> str:
    return f"CASE WHEN {type} IN ({types}) THEN {condition} END"
