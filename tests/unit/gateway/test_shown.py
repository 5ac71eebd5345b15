"""What callers read of errors."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import DiskFull, HoldfastError, InvalidInput, StoreBusy, StoreUnavailable
from holdfast.gateway.shown import error_frame, shown_detail
from holdfast.gateway.worker.http import HttpAnswer

PLACE = "10.9.8.7:5432 /var/lib/holdfast.db"


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreBusy, DiskFull])
def test_an_error_of_the_store_does_not_say_where_the_store_is(
    kind: type[HoldfastError], caplog: pytest.LogCaptureFixture
) -> None:
    shown = shown_detail(kind(f"the connection was lost ({PLACE})"))
    assert PLACE not in shown
    assert shown.endswith(": try again")
    assert PLACE in caplog.text, "the log has it"


def test_other_errors_are_shown() -> None:
    assert shown_detail(InvalidInput("reason is missing")) == "reason is missing"
    assert shown_detail(GatewayUnavailable("no gateway answers")) == "no gateway answers"


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreBusy, DiskFull])
def test_workers_over_http_do_not_read_where_the_store_is(kind: type[HoldfastError]) -> None:
    answer = HttpAnswer([], kind(f"the connection was lost ({PLACE})"))
    assert PLACE.encode() not in answer.body()
    assert answer.body() == msgspec.json.encode({"messages": [error_frame(kind())]})
