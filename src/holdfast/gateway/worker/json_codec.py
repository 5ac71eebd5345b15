"""JSON of worker sync: camelCase fields, `type` in place of the oneof.

Beside the strict form, seed messages are accepted: one object in place of a list of one, output without an
offset (at the end), numbers as text. Bytes are `data` as text, or `dataBase64`.
Promises: what is not JSON or too deep is Malformed; an unknown type or field is InvalidInput with its name.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from typing import Any, Final

import msgspec

from holdfast.core import codec
from holdfast.core.errors import Malformed, TooLarge
from holdfast.core.worker.wire import (
    JSON_CHUNK_BYTES_MAX,
    Ask,
    CallFrame,
    CommandAck,
    GatewayMessage,
    Goodbye,
    Hello,
    Ping,
    Renew,
    SyncMessage,
    WorkerMessage,
)
from holdfast.errors import InvalidInput
from holdfast.gateway.settings import DEPTH_MAX

_KINDS: Final[dict[str, type]] = {
    "hello": Hello,
    "sync": SyncMessage,
    "ask": Ask,
    "renew": Renew,
    "commandAck": CommandAck,
    "ping": Ping,
    "goodbye": Goodbye,
    "call": CallFrame,
}
_strict: Final = msgspec.json.Decoder(WorkerMessage)
_LISTS: Final = ("task", "output", "checkpoint", "metrics")


def parse(text: str | bytes) -> Any:
    """A JSON value that is not too deep."""
    if codec.is_deeper(text, DEPTH_MAX):
        raise Malformed(f"the message is nested deeper than {DEPTH_MAX}")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the message is not JSON: {error}") from None
    return value


def decode(text: str | bytes) -> WorkerMessage:
    """The message of a text frame. The strict form is decoded in one step; it bounds the depth by itself."""
    try:
        message: WorkerMessage = _strict.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return message_of(parse(text))
    if isinstance(message, SyncMessage) and message.changes.output:
        return message_of(parse(text))  # bytes have several forms
    return message


def message_of(value: object) -> WorkerMessage:
    """The message that a JSON object stands for."""
    if not isinstance(value, dict):
        raise Malformed("a message is a JSON object")
    kind = _KINDS.get(str(value.get("type")))
    if kind is None:
        raise InvalidInput(f"a message has a type: one of {', '.join(_KINDS)}")
    if kind is SyncMessage and isinstance(value.get("changes"), dict):
        value = {**value, "changes": _changes(value["changes"])}
    try:
        message: WorkerMessage = msgspec.convert(value, kind, strict=False, builtin_types=(bytes,))
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{value['type']}: {error}") from None
    return message


def encode(message: GatewayMessage) -> bytes:
    return msgspec.json.encode(message)


def _changes(changes: dict[str, Any]) -> dict[str, Any]:
    lists: dict[str, Any] = {
        name: [part] if isinstance(part := changes[name], dict) else part
        for name in _LISTS
        if name in changes
    }
    if isinstance(lists.get("output"), list):
        lists["output"] = [
            _chunk(chunk) if isinstance(chunk, dict) else chunk for chunk in lists["output"]
        ]
    return {**changes, **lists}


def _chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    """The chunk with its bytes. Without an offset it goes to the end."""
    rest = {name: value for name, value in chunk.items() if name not in _BYTES}
    given = [name for name in _BYTES if name in chunk]
    if len(given) > 1:
        raise InvalidInput(f"output has {' and '.join(given)}: give one of them")
    data = _bytes(given[0], chunk[given[0]]) if given else b""
    if len(data) > JSON_CHUNK_BYTES_MAX:
        raise TooLarge(f"a chunk in JSON has at most {JSON_CHUNK_BYTES_MAX} bytes: send several")
    return {"start": None, **rest, "data": data}


_BYTES: Final = ("data", "text", "dataBase64")


def _bytes(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise InvalidInput(f"output.{name} is text")
    try:
        return b64decode(value, validate=True) if name == "dataBase64" else value.encode()
    except (BadBase64, ValueError):
        raise InvalidInput(f"output.{name} cannot be read as bytes") from None
