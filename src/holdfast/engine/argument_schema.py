"""The arguments of a type as a JSON schema, for processes that do not have its handler.

Promises: the schema accepts every payload that the handler's process accepts. It is stored with the options
of the type, so that the command line, the API and other producers refuse a payload with a wrong or missing
argument at once. Never: describes more than names and JSON types; the handler's process checks the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from msgspec import inspect as types

from holdfast.core import codec
from holdfast.core.choice_schema import check_schema, misfit
from holdfast.engine.arguments import resolved
from holdfast.engine.parameters import Parameters
from holdfast.errors import InvalidInput

SCHEMA_BYTES_MAX: Final = 8_192
"""A longer schema is not stored: the payload is then checked when it runs."""
TEXTS: Final = (
    *(types.StrType, types.DateTimeType, types.DateType, types.TimeType, types.TimeDeltaType),
    *(types.UUIDType, types.BytesType, types.ByteArrayType),
)
NAMES: Final[dict[type, str]] = {
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.NoneType: "null",
    types.TypedDictType: "object",
    types.DataclassType: "object",
    types.DictType: "object",
    **dict.fromkeys(TEXTS, "string"),
    **dict.fromkeys(
        (types.ListType, types.SetType, types.FrozenSetType, types.VarTupleType), "array"
    ),
}


def schema_of(function: Callable[..., Any], parameters: Parameters) -> dict[str, Any] | None:
    """The schema of a function's arguments. None if it is too long or too deep."""
    kinds = {
        name: resolved(function, each.annotation)
        for name, each in parameters.signature.parameters.items()
        if each.kind is not each.VAR_KEYWORD
    }
    schema: dict[str, Any] = {
        "properties": {name: _described(kind) for name, kind in kinds.items()}
    }
    if parameters.required:
        schema["required"] = sorted(parameters.required)
    if parameters.names is not None:
        schema["additionalProperties"] = False
    try:
        check_schema(schema)
    except InvalidInput:  # Nested too deeply.
        return None
    return schema if len(codec.dumps(schema)) <= SCHEMA_BYTES_MAX else None


def _described(kind: Any) -> dict[str, Any]:
    if kind is inspect.Parameter.empty or isinstance(kind, str):
        return {}
    try:
        return _schema(types.type_info(kind))
    except Exception:  # msgspec raises several: any JSON value may be right.
        return {}


def _schema(info: Any) -> dict[str, Any]:
    if isinstance(info, types.Metadata):
        return _schema(info.type)
    if isinstance(info, types.UnionType):
        return _either([_schema(part) for part in info.types])
    if isinstance(info, types.EnumType):
        return {"enum": [member.value for member in info.cls]}
    if isinstance(info, types.LiteralType):
        return {"enum": list(info.values)}
    name = NAMES.get(type(info))
    if name is None:
        return {}
    items = _schema(info.item_type) if name == "array" else {}
    return {"type": name, "items": items} if items else {"type": name}


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a union: the types of its parts, if each part has only a type."""
    if any(part.keys() - {"type", "items"} or "type" not in part for part in parts):
        return {}
    arrays = [part for part in parts if part["type"] == "array"]
    items = {"items": arrays[0]["items"]} if len(arrays) == 1 and "items" in arrays[0] else {}
    return {"type": sorted(str(part["type"]) for part in parts), **items}


def check_by_schema(task_type: str, schema: dict[str, Any], payload: object) -> None:
    """InvalidInput unless the payload fits the schema."""
    value = {} if payload is None else codec.loads(codec.dumps(payload))
    if not isinstance(value, dict):
        names = ", ".join(sorted(schema["properties"])) or "any"
        why: str | None = f"the payload is not an object with the fields: {names}"
    else:
        why = misfit(schema, value, "payload")
    if why is not None:
        raise InvalidInput(f"task '{task_type}' cannot be called like this: {why}")
