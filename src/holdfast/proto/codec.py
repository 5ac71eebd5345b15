"""Protocol buffers of worker sync to and from the structs of `core.worker.wire`.

Promises: both sides have the same fields; a test compares them. An absent message or optional field is None.
Never: checks a value (the receiver does).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from holdfast.core.worker import wire
from holdfast.proto.sync.v1 import sync_pb2 as pb

WORKER: Final[dict[str, type]] = {
    "hello": wire.Hello,
    "sync": wire.SyncMessage,
    "ask": wire.Ask,
    "renew": wire.Renew,
    "command_ack": wire.CommandAck,
    "ping": wire.Ping,
    "goodbye": wire.Goodbye,
    "call": wire.CallFrame,
}
"""Bodies of a worker's message, by the field of the oneof."""
GATEWAY: Final[dict[str, type]] = {
    "welcome": wire.Welcome,
    "ack": wire.SyncAck,
    "offer": wire.Offer,
    "renewed": wire.Renewed,
    "command": wire.CommandFrame,
    "lost": wire.LostRun,
    "pong": wire.Pong,
    "error": wire.ErrorFrame,
    "drain": wire.DrainFrame,
    "decided": wire.Decided,
    "answer": wire.AnswerFrame,
}
_RENAMED: Final = {(wire.CommandFrame, "kind"): "type"}
"""Fields whose name in JSON would be that of the message's type."""


class Field(NamedTuple):
    """How one field of a struct is read from a message, and written to it."""

    name: str
    proto: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


def decode_worker(message: pb.WorkerMessage) -> wire.WorkerMessage | None:
    """The body of a worker's message; None if it has none that this version knows."""
    name = message.WhichOneof("body")
    return None if name is None else _struct(getattr(message, name), WORKER[name])


def decode_gateway(message: pb.GatewayMessage) -> wire.GatewayMessage | None:
    """The same for a gateway's message."""
    name = message.WhichOneof("body")
    return None if name is None else _struct(getattr(message, name), GATEWAY[name])


def encode_worker(body: wire.WorkerMessage) -> pb.WorkerMessage:
    message = pb.WorkerMessage()
    _fill(getattr(message, _WORKER_NAMES[type(body)]), body)
    return message


def encode_gateway(body: wire.GatewayMessage) -> pb.GatewayMessage:
    message = pb.GatewayMessage()
    _fill(getattr(message, _GATEWAY_NAMES[type(body)]), body)
    return message


_WORKER_NAMES: Final = {kind: name for name, kind in WORKER.items()}
_GATEWAY_NAMES: Final = {kind: name for name, kind in GATEWAY.items()}


def _struct(message: Any, kind: type) -> Any:
    return kind(**{field.name: field.read(message) for field in fields_of(kind)})


def _fill(message: Any, struct: Any) -> None:
    message.SetInParent()
    for field in fields_of(type(struct)):
        field.write(message, getattr(struct, field.name))


_fields: dict[type, tuple[Field, ...]] = {}


def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields of a struct, worked out once."""
    if kind not in _fields:
        hints = get_type_hints(kind)
        _fields[kind] = tuple(
            _field(name, _RENAMED.get((kind, name), name), hints[name])
            for name in kind.__struct_fields__  # type: ignore[attr-defined]
        )
    return _fields[kind]


def _field(name: str, proto: str, hint: Any) -> Field:
    options = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is tuple:
        return _repeated(name, proto, options[0])
    if get_origin(hint) is dict:
        return Field(name, proto, lambda m: dict(getattr(m, proto)), _set_map(proto))
    is_optional = len(options) == 1
    if is_optional and hasattr(options[0], "__struct_fields__"):
        return _message(name, proto, options[0])
    if hasattr(hint, "__struct_fields__"):
        return Field(name, proto, lambda m: _struct(getattr(m, proto), hint), _set_message(proto))
    if is_optional and (hint_has_presence(name)):
        return Field(
            name,
            proto,
            lambda m: getattr(m, proto) if m.HasField(proto) else None,
            _set_optional(proto),
        )
    return Field(name, proto, lambda m: getattr(m, proto), _set_optional(proto))


def hint_has_presence(name: str) -> bool:
    """Whether an optional field is optional in the message too. `start` of output always has a value."""
    return name != "start"


def _repeated(name: str, proto: str, item: Any) -> Field:
    if hasattr(item, "__struct_fields__"):

        def write(message: Message, items: tuple[Any, ...]) -> None:
            for struct in items:
                _fill(getattr(message, proto).add(), struct)

        return Field(
            name, proto, lambda m: tuple(_struct(part, item) for part in getattr(m, proto)), write
        )
    return Field(name, proto, lambda m: tuple(getattr(m, proto)), _extend(proto))


def _message(name: str, proto: str, kind: Any) -> Field:
    def read(message: Any) -> Any:
        return _struct(getattr(message, proto), kind) if message.HasField(proto) else None

    return Field(name, proto, read, _set_message(proto))


def _set_message(proto: str) -> Callable[[Any, Any], None]:
    def write(message: Any, struct: Any) -> None:
        if struct is not None:
            _fill(getattr(message, proto), struct)

    return write


def _set_optional(proto: str) -> Callable[[Any, Any], None]:
    def write(message: Any, value: Any) -> None:
        if value is not None:
            setattr(message, proto, value)

    return write


def _set_map(proto: str) -> Callable[[Any, Any], None]:
    return lambda message, value: getattr(message, proto).update(value)


def _extend(proto: str) -> Callable[[Any, Any], None]:
    return lambda message, value: getattr(message, proto).extend(value)
