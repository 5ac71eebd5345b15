"""Search in lists that have no index for it: `q` in the grammar of `core/search`, over fields of objects.

Promises: the keys of a list are the fields of its objects, as docs/reference/objects.md has them; a time
`created_at` is the key `created`, which the time of an act is too. A page has as many of the rows that match
as were found among the rows read, at most `limit`; `next` says whether there are more.
Never: reads more than `READ_MAX` rows for one page.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.search import Query, parse
from holdfast.core.search.keys import CREATED, ID, Key, Keys, Kind, table
from holdfast.core.search.matching import matches
from holdfast.core.search.scan import QueryError
from holdfast.core.search.tree import And, Clause, Exact, Not, Or, Term
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.rest.route import Route

READ_MAX: Final = 10_000
NAMES: Final = (
    "id",
    "name",
    "resource",
    "fingerprint",
    "subject",
    "seq",
    "host",
    "position",
    "key",
)
"""What a bare word is the beginning of: the first of these fields that the objects have."""
_TIME: Final = "_at"
_BOOLEANS: Final = ("true", "false")


class Shape(NamedTuple):
    """The keys of a list, and the field of each."""

    keys: Keys
    fields: Mapping[str, str]


@cache
def shape_of(item: type[msgspec.Struct], own: tuple[str, ...] = (), text_key: str = "") -> Shape:
    """The shape of the objects of a list. `own`: keys that the operation itself reads. `text_key`: what a
    bare word is the beginning of."""
    found: dict[str, Key] = {}
    fields: dict[str, str] = {}
    hints = typing.get_type_hints(item)
    for field in msgspec.structs.fields(item):
        key = _key(field.encode_name, hints[field.name])
        if key is not None:
            found[key.name], fields[key.name] = key, field.encode_name
    first = text_key or next(name for name in NAMES if name in hints)
    found[ID], fields[ID] = Key(ID, Kind.TEXT), first
    if "at" in found:
        found.setdefault(CREATED, Key(CREATED, Kind.TIME))
        fields.setdefault(CREATED, fields["at"])
    if CREATED in found:
        found["age"] = Key("age", Kind.AGE)
    for name in own:
        found.setdefault(name, Key(name, Kind.TEXT))
        if hints.get(f"{name}s") == list[str]:
            fields.setdefault(name, f"{name}s")
        if f"{name}_job_id" in hints:
            fields.setdefault(name, f"{name}_job_id")
    return Shape(table(*found.values()), fields)


def _key(name: str, hint: Any) -> Key | None:
    kinds = set(typing.get_args(hint)) if isinstance(hint, UnionType) else {hint}
    kinds.discard(NoneType)
    [kind] = kinds if len(kinds) == 1 else [object]
    if kind is str:
        is_time = name == "at" or name.endswith(_TIME)
        return Key(name.removesuffix(_TIME), Kind.TIME) if is_time else Key(name, Kind.TEXT)
    if kind is bool:
        return Key(name, Kind.TEXT, words=_BOOLEANS)
    if kind in (int, float):
        return Key(name, Kind.NUMBER)
    if kind == list[str]:
        return Key(name, Kind.TEXT)
    if kind is Any or typing.get_origin(kind) is dict:
        return Key(name, Kind.JSON)
    return None


def row_of(item: Mapping[str, Any], shape: Shape) -> dict[str, object]:
    """The values of an object by key."""
    return {
        name: _value(key, item.get(shape.fields[name]))
        for name, key in shape.keys.items()
        if name in shape.fields
    }


def _value(key: Key, value: Any) -> object:
    if value is None:
        return None
    if key.kind is Kind.TIME:
        return datetime.fromisoformat(value).timestamp()
    if isinstance(value, bool) and key.kind is Kind.TEXT:
        return "true" if value else "false"
    return str(value) if key.name == ID else value


async def search(call: Call, route: Route, values: tuple[str, ...], given: Any, q: str) -> Answer:
    """One page of the objects that match."""
    assert route.items is not None
    shape = shape_of(route.items, route.own_keys, route.text_key)
    query = parse(q, shape.keys)
    if query.sort is not None:
        raise QueryError(q.index("sort:"), "no sort: this list has one order")
    query, own = _split(query, route.own_keys)
    _check_own(query.clause, shape)
    if route.own_keys:
        given = {**given, "q": own}
    now, read = call.services.now(), 0
    while True:
        page = (await route.handler(call, *values, **given)).body
        rows = [msgspec.to_builtins(item) for item in page["items"]]
        found = [row for row in rows if matches(query, row_of(row, shape), now, shape.keys)]
        read += len(rows)
        if found or page["next"] is None or read >= READ_MAX:
            return Answer({**page, "items": found})
        given = {**given, "after": page["next"]}


def has_keys(q: str) -> bool:
    """Whether the text is a query of the grammar, and not the part of a name."""
    return any(sign in q for sign in ':()"')


def _split(query: Query, names: tuple[str, ...]) -> tuple[Query, str]:
    """The terms that the operation reads itself, as text, and the rest of the query."""
    own, rest, taken = [], [], set()
    for each in _all_of(query.clause):
        text = _text_of(each, names)
        if text is None or text[0] in taken:
            rest.append(each)
        else:
            taken.add(text[0])
            own.append(":".join(text))
    left = And(tuple(rest)) if len(rest) > 1 else rest[0] if rest else None
    return Query(left), " ".join(own)


def _all_of(clause: Clause | None) -> Iterator[Clause]:
    """The clauses that all have to hold."""
    if isinstance(clause, And):
        for each in clause.clauses:
            yield from _all_of(each)
    elif clause is not None:
        yield clause


def _text_of(clause: Clause, names: tuple[str, ...]) -> tuple[str, str] | None:
    match clause:
        case Term(key=key, tests=(Exact(text=text),)) if key in names and " " not in text:
            return key, text
    return None


def _check_own(clause: Clause | None, shape: Shape) -> None:
    """QueryError for a key without a field in a place where the operation cannot read it."""
    match clause:
        case Term() if clause.key not in shape.fields and clause.key in shape.keys:
            if shape.keys[clause.key].kind is not Kind.AGE:
                raise QueryError(0, f"{clause.key}:VALUE once, by itself: no OR, minus or comma")
        case And() | Or():
            for each in clause.clauses:
                _check_own(each, shape)
        case Not():
            _check_own(clause.clause, shape)
