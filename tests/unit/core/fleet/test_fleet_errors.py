"""Errors of selectors and hosts keep what they name on their way from a gateway to a client."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.client.problems import problem as raised
from holdfast.core.errors import (
    BadSelector,
    BadSignature,
    CommandRefused,
    EmptySelection,
    Forbidden,
    Unauthenticated,
    UnknownCommandType,
    UnknownHost,
)
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.gateway.rest.problem import problem


def sent(error: HoldfastError) -> tuple[dict[str, object], HoldfastError]:
    """The problem details of an error, and the error that a client makes of them."""
    body = msgspec.json.decode(msgspec.json.encode(problem(error, "req_1")))
    return body, raised(error.http_status, body)


def test_a_bad_selector_says_where_on_both_sides() -> None:
    body, received = sent(BadSelector(4, "a name"))
    assert (body["code"], body["at"], body["expected"]) == ("bad-selector", 4, "a name")
    assert isinstance(received, BadSelector)
    assert (received.at, received.expected) == (4, "a name")
    assert "column 5" in str(received)


def test_unknown_hosts_are_named_on_both_sides() -> None:
    names = [f"h{n}" for n in range(150)]
    body, received = sent(UnknownHost(names, [f"hosts[{n}]" for n in range(150)]))
    errors = body["errors"]
    assert isinstance(errors, list)
    assert len(errors) == 100
    assert errors[1] == {"field": "hosts[1]", "message": "no host 'h1'"}
    assert isinstance(received, UnknownHost)
    assert list(received.names) == names[:100]
    assert "and 140 more" in str(received)


@pytest.mark.parametrize(
    ("error", "parent", "mapping"),
    [
        (BadSelector, InvalidInput, (422, "INVALID_ARGUMENT", 2)),
        (UnknownHost, InvalidInput, (422, "INVALID_ARGUMENT", 2)),
        (EmptySelection, InvalidInput, (422, "INVALID_ARGUMENT", 2)),
        (UnknownCommandType, InvalidInput, (422, "INVALID_ARGUMENT", 2)),
        (CommandRefused, Forbidden, (403, "PERMISSION_DENIED", 4)),
        (BadSignature, Unauthenticated, (401, "UNAUTHENTICATED", 4)),
    ],
)
def test_codes_map_to_http_grpc_and_exit_codes(
    error: type[HoldfastError], parent: type[HoldfastError], mapping: tuple[int, str, int]
) -> None:
    assert issubclass(error, parent)
    assert (error.http_status, error.grpc_status, error.exit_code) == mapping
    assert not error.retryable
