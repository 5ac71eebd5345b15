"""Codes of closed connections: what a client does after each."""

from __future__ import annotations

import pytest

from holdfast.client.problems import classes
from holdfast.core import close_codes
from holdfast.core.close_codes import OF_ERROR, CloseAction, after_close, reason_of, refusal
from holdfast.core.errors import NodeFenced, Unauthenticated, UnknownNode
from holdfast.errors import HoldfastError
from holdfast.sync import errors as sync_errors
from tests.pages import ROOT


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (None, CloseAction.RECONNECT),
        (1001, CloseAction.RECONNECT),
        (1013, CloseAction.RECONNECT),
        (4000, CloseAction.RECONNECT),
        (4400, CloseAction.GIVE_UP),
        (4401, CloseAction.LOG_IN),
        (4403, CloseAction.FORBIDDEN),
        (4408, CloseAction.RECONNECT),
        (4409, CloseAction.GIVE_UP),
        (4413, CloseAction.GIVE_UP),
        (4429, CloseAction.RECONNECT),
        (4500, CloseAction.RECONNECT),
        (4503, CloseAction.RECONNECT),
    ],
)
def test_close_codes(code: int | None, action: CloseAction) -> None:
    assert after_close(code) is action


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (4409, "replaced", "replaced"),
        (4409, "unknown-node", "unknown-node"),
        (4409, "node-fenced", "node-fenced"),
        (4409, "", "node-fenced"),
        (4409, "another text", "node-fenced"),
        (4401, "replaced", "unauthenticated"),
        (4429, "too many frames", "rate-limited"),
        (4503, "store-busy", None),
        (4408, "slow-consumer", None),
        (1001, "the server stops", None),
    ],
)
def test_the_reason_says_which_error_a_refusal_is(
    code: int, reason: str, error: str | None
) -> None:
    assert refusal(code, reason) == error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unauthenticated("it was revoked"), "it was revoked"),
        (NodeFenced("é" * 100), "é" * 61),
        (Unauthenticated(""), "unauthenticated"),
        (UnknownNode("there is none"), "unknown-node"),
    ],
)
def test_a_close_has_the_text_of_an_error_that_its_code_names(
    error: HoldfastError, reason: str
) -> None:
    assert reason_of(error) == reason
    assert refusal(close_codes.of_error(error.code), reason) == error.code


def test_the_code_of_a_refusal_has_the_status_of_its_error() -> None:
    assert sync_errors.Replaced.code in OF_ERROR
    statuses = {name: kind.http_status for name, kind in classes().items()}
    for name, code in OF_ERROR.items():
        if refusal(code, name) is not None and name != "unknown-node":
            assert close_codes.http_status(code) == statuses[name], name


def test_every_code_is_in_the_table_of_the_documentation() -> None:
    names = {name: value for name, value in vars(close_codes).items() if name[0].isalpha()}
    codes = {value for value in names.values() if isinstance(value, int)}
    text = (ROOT / "docs" / "reference" / "live.md").read_text()
    table = text.partition("| close | why |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {int(code) for row in rows for code in row.split(",")} == codes
