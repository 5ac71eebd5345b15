"""A statement with its transaction in one call of SQLite, and values that are bound by position."""

from __future__ import annotations

import re
from typing import Any

import apsw
import msgspec
import pytest

from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import submit
from holdfast.core.task import Task
from holdfast.store.columns import plain_params
from holdfast.store.fast import texts
from holdfast.store.script import StatementCall, call
from holdfast.store.sqlite import connection as sqlite

NAMES = re.compile(r"(?<![:\w]):(\w+)")
NOW = 1_700_000_000.25


def made(number: int, **fields: Any) -> Task:
    request = EnqueueRequest(type="mail", queue="default", payload=number, **fields)
    task_id = f"018bcfe5-6800-7000-8000-{number:012x}"
    return submit(request, task_id=task_id, now=NOW, id_given=False).task


def named_values(task: Task, now: float, events_json: str, deltas_json: str) -> dict[str, Any]:
    assert msgspec.json.decode(events_json)[0][:3] == ["task.enqueued", now, task.id]
    assert msgspec.json.decode(deltas_json) == [["default", "default", "mail", 2, "queued", 1]]
    return plain_params(task) | {
        "events_count": 1,
        "now": now,
        "events_json": events_json,
        "deltas_json": deltas_json,
        "due_at": now + (task.due_at - task.created_at),
    }


@pytest.mark.parametrize("fields", [{}, {"delay_seconds": 5.0}, {"tags": ("vip",)}])
def test_the_values_of_an_insert_are_in_the_order_of_its_statement(
    fields: dict[str, Any],
) -> None:
    task = made(1, **fields)
    values = list(texts.insert_one_values(task, NOW + 1))
    params = named_values(task, NOW + 1, *values[2:4])
    for text in sqlite.statements()["insert_one"].text.split(";"):
        names = dict.fromkeys(NAMES.findall(text))  # Each once, where it appears first.
        assert [params[name] for name in names] == values[: len(names)]
        del values[: len(names)]
    assert not values


@pytest.fixture
def connection() -> apsw.Connection:
    connection = sqlite.connect(":memory:")
    sqlite.migrate(connection)
    return connection


def insertion(number: int) -> StatementCall:
    return StatementCall("insert_one", {}, values=texts.insert_one_values(made(number), NOW))


def test_a_statement_alone_is_committed(connection: apsw.Connection) -> None:
    assert sqlite.execute_alone(connection, insertion(1)) == [1]
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM holdfast_feed").get == 1


def test_of_a_statement_alone_that_fails_nothing_is_left(connection: apsw.Connection) -> None:
    sqlite.execute_alone(connection, insertion(1))
    with pytest.raises(apsw.ConstraintError):
        sqlite.execute_alone(connection, insertion(1))
    sqlite.rollback(connection)
    assert connection.execute("SELECT count(*) FROM holdfast_task").get == 1
    assert connection.execute("SELECT count(*) FROM holdfast_feed").get == 1


def test_a_read_alone_returns_its_rows(connection: apsw.Connection) -> None:
    sqlite.execute_alone(connection, insertion(1))
    [task] = sqlite.execute_alone(connection, call("get_tasks", ids=[made(1).id]))
    assert task.payload_json == "1"
    assert not connection.in_transaction
