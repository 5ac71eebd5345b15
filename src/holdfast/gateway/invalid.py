"""Parameters of a call, and what a message says about a field that is wrong: its name, what is wrong with it,
and what fits.

Promises: the error names the field by its path. The error for an unknown field has the nearest name, and
the one for a choice its values. Never: words of the JSON library for a missing or an unknown field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from holdfast.errors import InvalidInput

T = TypeVar("T")
_NUMBER_MAX: Final = 2**63 - 1
"""The largest whole number that every database can compare with a column."""
_PLACE: Final = re.compile(r"^(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?$", re.DOTALL)
_CHOICE: Final = re.compile(r"Invalid enum value '?(.*?)'?$", re.DOTALL)
_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`")
_ABSENT: Final = re.compile(r"missing required field `(.*?)`")


def parameters(given: Mapping[str, str], kind: type[T]) -> T:
    """The parameters of a call as a value of the type. InvalidInput names the one that does not fit."""
    for name, text in given.items():
        check_text_value(name, text)
    try:
        found = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error, kind) from None
    for name in given:
        value = getattr(found, name, None)
        if isinstance(value, int) and abs(value) > _NUMBER_MAX:
            raise InvalidInput(f"{name} is out of range: at most {_NUMBER_MAX}")
    return found


def check_text_value(field: str, value: object) -> None:
    """InvalidInput for text with a NUL character."""
    if isinstance(value, str) and "\0" in value:
        raise InvalidInput(f"{field} has a NUL character: leave it out")


def invalid(error: msgspec.ValidationError, kind: Any) -> InvalidInput:
    """The error with the name of the field, and with the values that a choice has."""
    text, place = _split(str(error))
    field = place
    if choice := _CHOICE.match(text):
        text = f"'{choice[1]}' is not one of {', '.join(choices_of(kind, place))}"
    elif unknown := _UNKNOWN.search(text):
        field = _below(place, unknown[1])
        close = get_close_matches(unknown[1], _fields_of(kind, place), n=1)
        hint = f": did you mean '{close[0]}'?" if close else ""
        text = f"there is no field '{unknown[1]}'{hint}"
    elif absent := _ABSENT.search(text):
        field = _below(place, absent[1])
        text = "it is missing, and has no default"
    raised = InvalidInput(f"{field}: {text}" if field else text)
    raised.fields = [{"field": field, "message": text}] if field else []  # type: ignore[attr-defined]
    return raised


def choices_of(kind: Any, path: str) -> list[str]:
    """The values of the field at a path such as `tasks[...].mode`."""
    values: list[str] = []
    for part in _parts_at(kind, path):
        if isinstance(part, inspect.EnumType):
            values += [str(member.value) for member in part.cls]
        elif isinstance(part, inspect.LiteralType):
            values += [str(value) for value in part.values]
    return values


def _fields_of(kind: Any, path: str) -> list[str]:
    """The fields of the object at a path."""
    return [
        field.encode_name
        for part in _parts_at(kind, path)
        if isinstance(part, inspect.StructType)
        for field in part.fields
    ]


def _parts_at(kind: Any, path: str) -> tuple[inspect.Type, ...]:
    """The types that the value at a path may have."""
    at = inspect.type_info(kind)
    for name in re.findall(r"[^.\[\]]+", path):
        for part in _members(at):
            if isinstance(part, inspect.ListType):
                at = part.item_type
            elif isinstance(part, inspect.StructType):
                at = next(field.type for field in part.fields if field.encode_name == name)
    return _members(at)


def _members(of: inspect.Type) -> tuple[inspect.Type, ...]:
    return of.types if isinstance(of, inspect.UnionType) else (of,)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _split(text: str) -> tuple[str, str]:
    match = _PLACE.match(text)
    return (match[1], match[2] or "") if match else (text, "")
