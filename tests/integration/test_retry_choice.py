"""`retry_on` and `give_up_on`: which errors are tried again, in handlers of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Status
from tests.integration.retry_app import Permanent, make

CASES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"retry_on": ConnectionError}, {"connection": 2, "temporary": 2, "permanent": 1, "value": 1}),
    ({"give_up_on": (Permanent, ValueError)}, {"connection": 2, "permanent": 1, "value": 1}),
    (
        {"retry_on": (ConnectionError, ValueError), "give_up_on": ValueError},
        {"connection": 2, "permanent": 1, "value": 1},
    ),
]


@pytest.mark.parametrize(
    ("isolation", "options", "attempts"),
    [
        *(("loop", *case) for case in CASES),
        *(("thread", *case) for case in CASES),
        ("process", *CASES[-1]),
    ],
)
async def test_an_error_is_tried_again_or_not(
    url: str, isolation: str, options: dict[str, Any], attempts: dict[str, int]
) -> None:
    async with make(url, isolation, **options) as queue:
        handles = {name: await queue.enqueue("fail", {"name": name}) for name in attempts}
        ended = {name: await handle.wait(60) for name, handle in handles.items()}
    assert {name: task.attempts for name, task in ended.items()} == attempts
    assert {task.status for task in ended.values()} == {Status.FAILED}
