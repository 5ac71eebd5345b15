"""Checks frames that were really sent against the AsyncAPI document.

The clients of the tests call `check` with every frame that they receive.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs

from holdfast import __version__
from holdfast.gateway.rest.asyncapi import document


@cache
def whole() -> dict[str, Any]:
    return document(__version__)


@cache
def validator(name: str) -> Any:
    message = whole()["components"]["messages"][name]
    return jsonschema_rs.validator_for(
        {**message["payload"], "components": whole()["components"]}, validate_formats=False
    )


def check(channel: str, frame: dict[str, Any]) -> None:
    """AssertionError if the document does not have this frame, or not with these fields."""
    name = f"{channel}.received.{frame['type']}"
    if name not in whole()["components"]["messages"]:
        assert channel == "feed", f"the document has no message {name}"
        name = "feed.received.event"
    errors = [error.message for error in validator(name).iter_errors(frame)]
    assert errors == [], (name, frame)
    schema = whole()["components"]["messages"][name]["payload"]["$ref"].rpartition("/")[2]
    known = whole()["components"]["schemas"][schema]["properties"]
    assert frame.keys() <= known.keys(), (name, frame.keys() - known.keys())
