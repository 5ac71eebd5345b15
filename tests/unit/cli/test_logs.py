"""The log of a command as text and as JSON, without secrets."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from holdfast.cli.logs import JsonFormatter
from holdfast.core.redaction import Redaction


def line(record: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter(Redaction(secrets=["hunter2"])).format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    log = logging.getLogger("holdfast.tasks")
    return log.makeRecord(log.name, logging.ERROR, __file__, 1, message, args, None, extra=extra)


def test_a_record_is_one_object_with_its_fields() -> None:
    found = line(record("task %s failed\nTraceback", "t1", task_id="t1", attempt=2, error=None))
    assert found["message"] == "task t1 failed\nTraceback"
    assert (found["level"], found["logger"]) == ("error", "holdfast.tasks")
    assert (found["task_id"], found["attempt"], found["error"]) == ("t1", 2, None)
    assert found["time"].endswith("+00:00")
    assert "args" not in found


def test_secrets_are_hidden_in_messages_and_fields() -> None:
    found = line(record("login with hunter2", password="x1y2z3", error="postgres://u:pass@h/db"))
    assert (found["message"], found["password"]) == ("login with ***", "***")
    assert found["error"] == "postgres://u:***@h/db"


@pytest.mark.parametrize("value", [float("nan"), object(), b"\xff", "\ud800", {1: {2}}])
def test_any_field_can_be_written(value: object) -> None:
    assert "odd" in line(record("text", odd=value))


def test_an_exception_is_a_field() -> None:
    made = record("it failed")
    try:
        raise KeyError("customer")
    except KeyError:
        made.exc_info = sys.exc_info()
    assert "KeyError: 'customer'" in line(made)["exception"]
