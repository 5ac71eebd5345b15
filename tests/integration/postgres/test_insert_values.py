"""Values that are bound by position: in the order in which the statement names them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store.fast import texts
from holdfast.store.postgres.connection import statements
from tests.integration.sqlite.test_alone import NOW, made, named_values


@pytest.mark.parametrize("fields", [{}, {"delay_seconds": 5.0}, {"tags": ("vip",)}])
def test_the_values_of_an_insert_are_in_the_order_of_its_statement(
    fields: dict[str, Any],
) -> None:
    task = made(1, **fields)
    values = texts.insert_one_recorded(task, NOW + 1, 77, "work one")
    params = named_values(task, NOW + 1, *values[2:4]) | {"record_id": "77", "hint": "work one"}
    assert [params[name] for name in statements()["insert_one"].names] == list(values)
