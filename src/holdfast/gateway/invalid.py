"""What a message says about a field that is wrong: its name, what is wrong with it, and what fits.

Promises: the error names the field by its path. The error for an unknown field has the nearest name, and
the one for a choice its values. Never: words of the JSON library for a missing or an unknown field.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Final

import msgspec
from msgspec import inspect

from holdfast.errors import InvalidInput

_PLACE: Final = re.compile(r"^(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?$", re.DOTALL)
_CHOICE: Final = re.compile(r"Invalid enum value '?(.*?)'?$", re.DOTALL)
_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`")
_ABSENT: Final = re.compile(r"missing required field `(.*?)`")


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
