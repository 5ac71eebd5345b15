"""Searches of tasks on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.command import Abort, Instruction
from holdfast.core.search import SCOPE, parse
from holdfast.core.wire import PREVIEW_BYTES
from holdfast.store.search import After, TaskRow, search
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import asked


async def put(store: Store, **options: Any) -> str:
    return (await store.insert([asked(store, **options)]))[0].task_id


async def found(store: Store, text: str, **options: Any) -> list[str]:
    return [row.id for row in (await search(store, parse(text), **options)).rows]


async def test_rows_match_the_query_newest_first(store: Store) -> None:
    first = await put(store, type="mail", payload={"to": "ann", "n": 3})
    second = await put(store, type="mail", payload={"to": "bob", "n": 5}, priority=0)
    third = await put(store, type="count", payload=[1])
    await store.apply([Instruction(third, Abort("ann", "why"))])
    assert await found(store, "") == [third, second, first]
    assert await found(store, "sort:created") == [first, second, third]
    assert await found(store, "type:mail") == [second, first]
    assert await found(store, "status:aborted") == [third]
    assert await found(store, "args.to:ann") == [first]
    assert await found(store, "args.n:>=4") == [second]
    assert await found(store, "priority:critical OR status:aborted") == [third, second]
    assert await found(store, "-type:mail") == [third]
    assert await found(store, f"{second}") == [second]
    assert await found(store, 'held:~"ann"') == [third]
    assert await found(store, "error:~x job:y host:z decision:open lock:held why:q") == []
    assert await found(store, "project:default") == [third, second, first]
    assert await found(store, "", projects=["web"]) == []


@pytest.mark.parametrize("text", ["", "sort:created", "sort:updated", "sort:-updated", "type:work"])
async def test_pages_have_every_row_once(store: Store, text: str) -> None:
    ids = {await put(store, type="work") for _ in range(7)}
    query, after, rows = parse(text), None, list[TaskRow]()
    while page := (await search(store, query, after=after, limit=3)).rows:
        rows += page
        after = After(rows[-1].updated_at, rows[-1].id)
    assert len(rows) == 7
    assert {row.id for row in rows} == ids


async def test_a_row_has_the_start_of_its_payload_and_its_size(store: Store) -> None:
    await put(store, payload="\u017c" * 500)
    (row,) = (await search(store, parse(""))).rows
    assert row.payload_bytes == 1002
    assert row.payload_preview == '"' + "\u017c" * 99
    assert len(row.payload_preview.encode()) <= PREVIEW_BYTES
    assert (row.result_preview, row.result_bytes) == (None, None)


async def test_a_search_without_an_index_says_what_it_read(store: Store) -> None:
    assert (await search(store, parse("attempt:>3"))).scope == SCOPE
    assert (await search(store, parse("status:queued attempt:>3"))).scope is None
