"""One declared type: how a value of it is written as JSON, and read back.

Promises: a value that is written arrives equal, or is refused when it is written. Values may also be given as
the JSON that they are written as: text for a date. Types: those of msgspec, and Pydantic models. Never:
imports Pydantic; a model is a class with `model_dump` and `model_validate_json`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Flag, auto
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from holdfast.core.codec import DEPTH_MAX

SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_BUILTIN: Final = (
    *(types.NoneType, types.BoolType, types.IntType, types.FloatType, types.StrType),
    types.LiteralType,
)


class Needs(Flag):
    """What a type needs on its way."""

    NOTHING = 0
    CONVERSION = auto()
    """JSON has no such value."""
    LOOK = auto()
    """It takes any value: only JSON values arrive unchanged."""
    UNKNOWN = auto()
    """A class that cannot be read back."""


class Misfit(Exception):
    """A value that does not fit a declared type. The text says why."""


def needs_of(kind: Any) -> Needs:
    """What values of this annotation need."""
    if kind is Any or kind is object:
        return Needs.LOOK
    try:
        return _needs(types.type_info(kind), set())
    except Exception:  # msgspec raises several: the type cannot be described.
        return Needs.UNKNOWN


def _needs(info: Any, seen: set[int]) -> Needs:
    if isinstance(info, types.Metadata):
        return _needs(info.type, seen)
    if id(info) in seen or isinstance(info, _BUILTIN):
        return Needs.NOTHING
    seen.add(id(info))
    match info:
        case types.AnyType():
            return Needs.LOOK
        case types.CustomType():
            return _needs_of_class(info.cls)
        case types.DictType():
            is_text = isinstance(info.key_type, types.StrType | types.AnyType)
            return (Needs.NOTHING if is_text else Needs.CONVERSION) | _all(_parts(info), seen)
        case types.ListType() | types.UnionType() | types.TypedDictType():
            return _all(_parts(info), seen)
        case types.ExtType() | types.RawType() | types.MemoryViewType():
            return Needs.UNKNOWN
    return Needs.CONVERSION | _all(_parts(info), seen)


def _needs_of_class(cls: type) -> Needs:
    if cls is object:
        return Needs.LOOK
    return Needs.CONVERSION if hasattr(cls, "model_validate_json") else Needs.UNKNOWN


def _parts(info: Any) -> list[Any]:
    """The types that a type is made of."""
    single = ("item_type", "key_type", "value_type")
    found = [getattr(info, name) for name in single if hasattr(info, name)]
    for name in ("types", "item_types"):
        found += getattr(info, name, ())
    return found + [field.type for field in getattr(info, "fields", ())]


def _all(infos: Iterable[Any], seen: set[int]) -> Needs:
    found = Needs.NOTHING
    for info in infos:
        found |= _needs(info, seen)
    return found


def is_plain(value: object, depth: int = 0) -> bool:
    """Whether a value arrives as it is: JSON, tuples as lists, and subclasses of text and numbers."""
    kind = type(value)
    if kind in SCALARS or depth > DEPTH_MAX:
        return True  # The encoder refuses what is nested deeper.
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(
            is_plain(item, depth + 1) for item in value.values()
        )
    if isinstance(value, list | tuple):
        return SCALARS.issuperset(map(type, value)) or all(
            is_plain(item, depth + 1) for item in value
        )
    return isinstance(value, str | int | float)


class Declared:
    """A type that needs a conversion."""

    __slots__ = ("_struct",)

    def __init__(self, kind: Any) -> None:
        self._struct = msgspec.defstruct("declared", [("value", kind)])
        """msgspec keeps the analysis of a class, not that of other types."""

    def read(self, wire: object) -> Any:
        """The value of the declared type."""
        try:
            made: Any = msgspec.convert(
                {"value": wire}, self._struct, dec_hook=_decoded, str_keys=True
            )
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise Misfit(
                str(error).replace(" - at `$.value`", "").replace("$.value", "$")
            ) from None
        return made.value

    def write(self, value: object) -> object:
        """The value as JSON. Misfit for one that would arrive as another."""
        wire = self.write_any(value)
        made = self.read(wire)
        try:
            arrives = (wire == value and not _drops(made, wire)) or is_same(made, value)
        except Exception as error:  # A signalling NaN, or an own `__eq__`.
            raise Misfit(f"it cannot be compared with what would arrive: {error!r:.200}") from None
        if not arrives:
            raise Misfit(f"it would arrive as {made!r:.200}")
        return wire

    def write_any(self, value: object) -> object:
        """The value as JSON, whatever its type."""
        try:
            return msgspec.to_builtins(
                value, str_keys=True, enc_hook=_encoded, order="deterministic"
            )
        except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
            raise Misfit(str(error)) from None


def is_same(made: object, value: object) -> bool:
    """Whether a value has arrived: equal, a tuple for a list, the same fields, the same moment. Python calls
    times in the hour that a clock repeats unequal to the same moment in another zone."""
    if made == value:
        return True
    match made, value:
        case (datetime(), datetime()):
            has_zones = made.tzinfo is not None and value.tzinfo is not None
            return has_zones and made.astimezone(UTC) == value.astimezone(UTC)
        case (dict(), dict()):
            return made.keys() == value.keys() and all(
                is_same(made[key], value[key]) for key in made
            )
        case (list() | tuple(), list() | tuple()):
            return len(made) == len(value) and all(map(is_same, made, value))
        case (set() | frozenset() | list() | tuple(), set() | frozenset() | list() | tuple()):
            return frozenset(made) == frozenset(value)
    names = _fields(made)
    if type(made) is not type(value) or not names:
        return False
    return all(is_same(getattr(made, name), getattr(value, name)) for name in names)


def _drops(made: object, wire: object) -> bool:
    """Whether a dict lacks keys of the JSON that it was read from, which its type does not name."""
    match made, wire:
        case (dict(), dict()):
            if made.keys() == wire.keys():
                return any(_drops(made[key], wire[key]) for key in wire)
            # Keys that were written as text are in the same order.
            return len(made) < len(wire) or any(map(_drops, made.values(), wire.values()))
        case (list() | tuple(), list() | tuple()):
            return any(map(_drops, made, wire))
    return False


def _fields(value: object) -> tuple[str, ...]:
    for fields in ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__"):
        if names := getattr(value, fields, None):
            return tuple(getattr(name, "name", name) for name in names)
    return tuple(getattr(type(value), "model_fields", ()))


def _encoded(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"a {type(value).__qualname__} has no form in JSON")


def _decoded(kind: Any, value: object) -> object:
    validate = getattr(kind, "model_validate_json", None)
    if validate is None:
        raise TypeError(f"a {kind!r} cannot be read from JSON")
    return validate(msgspec.json.encode(value))
