"""The part of JSON Schema that a question may use for its answer.

Promises: a schema with a keyword that is not in `KEYWORDS` is refused when the question is asked, so no part
of a schema is ignored. Never: resolves references or compiles patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.core.check import shown
from holdfast.errors import InvalidInput

DEPTH_MAX: Final = 8
KEYWORDS: Final = frozenset(
    {
        *("type", "enum", "const", "title", "description"),
        *("properties", "required", "additionalProperties"),
        *("items", "minItems", "maxItems"),
        *("minimum", "maximum", "minLength", "maxLength"),
    }
)
_TYPES: Final[dict[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def check_schema(schema: object, *, depth: int = 0) -> Mapping[str, Any]:
    """The schema. InvalidInput if it uses what this module does not support."""
    if not isinstance(schema, dict):
        raise InvalidInput(f"schema {shown(schema)} is not an object")
    if depth > DEPTH_MAX:
        raise InvalidInput(f"schema is nested deeper than {DEPTH_MAX} levels")
    if unknown := sorted(set(schema) - KEYWORDS):
        names = ", ".join(sorted(KEYWORDS))
        raise InvalidInput(f"schema has the keyword {shown(unknown[0])}: use {names}")
    for name in _names(schema.get("type", [])):
        if name not in _TYPES:
            raise InvalidInput(f"schema has the type {shown(name)}: use {', '.join(_TYPES)}")
    for bound in _BOUNDS:
        if bound in schema and not _TYPES["number"](schema[bound]):
            raise InvalidInput(f"schema has {bound} {shown(schema[bound])}: give a number")
    if not isinstance(schema.get("enum", []), list):
        raise InvalidInput("schema has an enum that is not a list")
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise InvalidInput("schema has additionalProperties that are not true or false")
    _check_fields(schema, depth)
    return schema


def _check_fields(schema: Mapping[str, Any], depth: int) -> None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        raise InvalidInput("schema has properties that are not an object")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise InvalidInput("schema has a required that is not a list of names")
    for part in properties.values():
        check_schema(part, depth=depth + 1)
    if "items" in schema:
        check_schema(schema["items"], depth=depth + 1)


def misfit(schema: Mapping[str, Any], value: object, path: str = "choice") -> str | None:
    """Why the value does not fit the schema; None if it does."""
    types = _names(schema.get("type", []))
    if types and not any(_TYPES[name](value) for name in types):
        return f"{path} is {shown(value)}: give a value of type {' or '.join(types)}"
    if "enum" in schema and not any(_same(value, item) for item in schema["enum"]):
        return f"{path} is {shown(value)}: use one of {shown(schema['enum'])}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"{path} is {shown(value)}: only {shown(schema['const'])} is allowed"
    if isinstance(value, dict):
        return _object_misfit(schema, value, path)
    if isinstance(value, list):
        return _out_of(schema, "Items", len(value), path) or next(
            (
                problem
                for n, item in enumerate(value)
                if (problem := misfit(schema.get("items", {}), item, f"{path}[{n}]")) is not None
            ),
            None,
        )
    if isinstance(value, str):
        return _out_of(schema, "Length", len(value), path)
    if _TYPES["number"](value):
        return _out_of(schema, "imum", value, path)
    return None


def _object_misfit(schema: Mapping[str, Any], value: dict[str, Any], path: str) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{path} has no field {shown(name)}"
    for name, part in value.items():
        if name in properties:
            problem = misfit(properties[name], part, f"{path}.{name}")
            if problem is not None:
                return problem
        elif not schema.get("additionalProperties", True):
            return f"{path} has the field {shown(name)}, which the schema does not have"
    return None


def _out_of(schema: Mapping[str, Any], suffix: str, value: Any, path: str) -> str | None:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if least is not None and value < least:
        return f"{path} is below its least, {least}"
    if most is not None and value > most:
        return f"{path} is above its most, {most}"
    return None


def _names(types: object) -> list[str]:
    return [types] if isinstance(types, str) else list(types) if isinstance(types, list) else [""]


def _same(one: object, other: object) -> bool:
    """Equality of JSON values: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
