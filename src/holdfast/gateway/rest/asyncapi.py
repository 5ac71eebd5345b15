"""The AsyncAPI 3.0 document: the messages of the live feed and of worker sync, made from their structs."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from holdfast.core.event_kinds import TABLE
from holdfast.core.worker import wire
from holdfast.gateway.feed import requests, server_frames
from holdfast.gateway.rest.openapi import REF

FEED: Final = "feed"
STREAM: Final = "stream"
WORKER: Final = "worker"


def document(version: str) -> dict[str, Any]:
    """The document of all messages. A name has its channel as a prefix: some names are on both."""
    groups = {
        f"{FEED}.sent": get_args(requests.Request),
        f"{FEED}.received": (*get_args(server_frames.ServerFrame), server_frames.EventFrame),
        f"{WORKER}.sent": get_args(wire.WorkerMessage),
        f"{WORKER}.received": get_args(wire.GatewayMessage),
    }
    messages: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for group, kinds in groups.items():
        prefix = group.partition(".")[0]
        _, components = msgspec.json.schema_components(
            kinds, ref_template=REF.format(name=f"{prefix}.{{name}}")
        )
        schemas |= {f"{prefix}.{name}": schema for name, schema in components.items()}
        for kind in kinds:
            messages[f"{group}.{_type_of(kind)}"] = _message(prefix, kind)
    _name_events(schemas[f"{FEED}.EventFrame"])
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Holdfast", "version": version},
        "channels": {
            FEED: _channel(
                "/api/v1/ws", "The live feed as a WebSocket, holdfast.v1", FEED, messages
            ),
            STREAM: _channel(
                "/api/v1/stream",
                "The live feed as server-sent events",
                f"{FEED}.received",
                messages,
            ),
            WORKER: _channel(
                "/api/v1/worker/ws",
                f"Worker sync as a WebSocket, {wire.PROTOCOL}; gRPC has the same messages",
                WORKER,
                messages,
            ),
        },
        "operations": {
            f"{channel}.{side}": {
                "action": "send" if side == "sent" else "receive",
                "channel": {"$ref": f"#/channels/{channel}"},
                "messages": [
                    {"$ref": f"#/channels/{channel}/messages/{name}"}
                    for name in messages
                    if name.startswith(f"{channel}.{side}.")
                ],
            }
            for channel in (FEED, WORKER)
            for side in ("sent", "received")
        },
        "components": {"messages": messages, "schemas": schemas},
    }


def _type_of(kind: type[msgspec.Struct]) -> str:
    tag = kind.__struct_config__.tag
    return str(tag) if tag is not None else "event"


def _message(prefix: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        "name": _type_of(kind),
        "summary": (kind.__doc__ or _type_of(kind)).splitlines()[0],
        "contentType": "application/json",
        "payload": {"$ref": REF.format(name=f"{prefix}.{kind.__name__}")},
    }


def _channel(
    address: str, description: str, prefix: str, messages: dict[str, Any]
) -> dict[str, Any]:
    names = [name for name in messages if name.startswith(f"{prefix}.")]
    return {
        "address": address,
        "description": description,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
    }


def _name_events(schema: dict[str, Any]) -> None:
    """Names the kinds of events and their frames. A kind of a newer version may come beside them."""
    kinds = [row.kind for row in TABLE if not row.kind.endswith(".")]
    schema["properties"]["kind"]["examples"] = kinds
    frames = dict.fromkeys(row.frame or row.kind for row in TABLE if not row.kind.endswith("."))
    schema["properties"]["type"]["examples"] = list(frames)
