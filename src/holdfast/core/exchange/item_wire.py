"""An item of a push as JSON: read by itself, so that one that is not valid never fails another.

Promises: the server and the offline node read an item by the same function. Every refusal is InvalidInput or
a child of it, with the name of the field.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core import codec
from holdfast.core.check import check_name
from holdfast.core.exchange.item import Item
from holdfast.errors import InvalidInput, PayloadTooLarge

ITEM_BYTES_MAX: Final = 1_000_000
"""Bytes of one item as JSON. With the rest of a push it stays below the bound of a request's body."""


FIELDS: Final = frozenset(Item.__struct_encode_fields__)
_ITEM: Final = msgspec.json.Decoder(Item)


class InvalidItem(msgspec.Struct, frozen=True):
    """An item that is refused before anything is read for it."""

    id: str
    """'' if it has none that a task could have."""
    mutation_id: str | None
    message: str


def decode_item(data: bytes | msgspec.Raw) -> Item:
    """The item. InvalidInput, PayloadTooLarge or UnserialisablePayload if it is not valid."""
    if len(bytes(data)) > ITEM_BYTES_MAX:
        raise PayloadTooLarge(f"the item has {len(bytes(data))} bytes: at most {ITEM_BYTES_MAX}")
    try:
        return _ITEM.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the item is not valid: {error}") from None


def encode_item(fields: dict[str, Any]) -> bytes:
    """An item as it is sent."""
    try:
        return codec.dumps(fields).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the change cannot be written as JSON: {error}") from None


def read_item(data: bytes | msgspec.Raw) -> Item | InvalidItem:
    """The item, or why there is none."""
    try:
        return decode_item(data)
    except InvalidInput as error:
        return InvalidItem(_name(data, "id") or "", _name(data, "mutationId"), str(error))


def unknown_fields(data: bytes | msgspec.Raw) -> list[str]:
    """The names of fields that an item has and should not have."""
    return sorted(_object(data).keys() - FIELDS)


def _object(data: bytes | msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _name(data: bytes | msgspec.Raw, field: str) -> str | None:
    try:
        return check_name(field, _object(data).get(field))
    except InvalidInput:
        return None
