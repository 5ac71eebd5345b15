"""Protocol buffers and structs of worker sync have the same fields and carry the same values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.core.worker import wire
from holdfast.proto import codec
from holdfast.proto.sync.v1 import sync_pb2 as pb

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
WHOLE = st.integers(0, 2**32 - 1)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: WHOLE,
    float: st.floats(0, 1e9),
    bool: st.booleans(),
    bytes: st.binary(max_size=5),
}


def drawn(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field."""
    match msgspec.inspect.type_info(hint):
        case msgspec.inspect.StructType(cls=cls):
            return structs(cls)
        case _:
            pass
    origin: Any = getattr(hint, "__origin__", None)
    args: tuple[Any, ...] = getattr(hint, "__args__", ())
    if origin is tuple:
        return st.lists(drawn(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, drawn(args[1]), max_size=2)
    if type(None) in args:
        return st.none() | drawn(next(part for part in args if part is not type(None)))
    return BY_TYPE[hint]


def structs(kind: type) -> st.SearchStrategy[Any]:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    parts = {name: drawn(field.type) for name, field in fields.items()}
    if kind is wire.OutputChunk:
        parts["start"] = WHOLE  # None, the end of the stream, exists in JSON only
    return st.builds(kind, **parts)


BODIES = [*codec.WORKER.items(), *codec.GATEWAY.items()]


@pytest.mark.parametrize(("name", "kind"), BODIES, ids=[name for name, _ in BODIES])
@settings(max_examples=30)
@given(st.data())
def test_a_message_survives_the_wire(name: str, kind: type, data: st.DataObject) -> None:
    body = data.draw(structs(kind))
    if name in codec.WORKER:
        sent = codec.encode_worker(body).SerializeToString()
        assert codec.decode_worker(pb.WorkerMessage.FromString(sent)) == body
    else:
        sent = codec.encode_gateway(body).SerializeToString()
        assert codec.decode_gateway(pb.GatewayMessage.FromString(sent)) == body


def test_every_field_of_a_message_is_in_its_struct() -> None:
    for message, kinds in ((pb.WorkerMessage, codec.WORKER), (pb.GatewayMessage, codec.GATEWAY)):
        bodies = message.DESCRIPTOR.oneofs_by_name["body"].fields
        assert {field.name for field in bodies} == set(kinds)
        for field in bodies:
            compare(field.message_type, kinds[field.name])


def compare(descriptor: Any, kind: type) -> None:
    fields = {field.proto: field for field in codec.fields_of(kind)}
    assert set(descriptor.fields_by_name) == set(fields), kind
    hints = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for proto, field in fields.items():
        nested = descriptor.fields_by_name[proto].message_type
        struct = next(
            (
                part
                for part in (hints[field.name], *getattr(hints[field.name], "__args__", ()))
                if hasattr(part, "__struct_fields__")
            ),
            None,
        )
        if struct is not None:
            compare(nested, struct)


def test_a_body_of_a_newer_version_is_no_message() -> None:
    assert codec.decode_worker(pb.WorkerMessage()) is None
    assert codec.decode_gateway(pb.GatewayMessage()) is None
