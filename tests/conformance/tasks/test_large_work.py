"""Large work is split: the size of a statement does not grow with the size of a call."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.task import Status
from holdfast.store.postgres import connection as postgres
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import after, asked

PART = 7


async def test_a_large_batch_is_written_in_parts_and_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "ROWS_MAX", PART)
    sizes: list[int] = []
    bind = postgres.bind

    def noted(prepared: Any, call: Any) -> tuple[Any, ...]:
        sizes.append(len(call.rows or ()))
        return bind(prepared, call)

    monkeypatch.setattr(postgres, "bind", noted)
    store: Store = await bench.open()
    parents = [asked(store, f"parent-{n:02}", idempotency_key=f"k{n}") for n in range(20)]
    children = [
        asked(store, f"child-{n:02}", depends_on=after(f"parent-{n:02}")) for n in range(20)
    ]
    answers = await store.insert([*parents, *children])
    assert [answer.created for answer in answers] == [True] * 40
    again = await store.insert([*parents, *children])
    assert [answer.created for answer in again] == [False] * 40
    tasks = await store.reads.get([answer.task_id for answer in answers])
    assert [task.status for task in tasks.values()].count(Status.BLOCKED) == 20
    assert max(sizes, default=PART) == PART
    assert [row[4] for row in sorted(await store.feed.counters())] == [20, 20]
