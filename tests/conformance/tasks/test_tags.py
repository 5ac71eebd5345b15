"""Tags on every store: written with the task on every path, found by lists, changed and removed with it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.command import Edit
from holdfast.core.search import parse
from holdfast.core.submit import Submission
from holdfast.store.search import After, search
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    asked,
    claim,
    claim_request,
    complete,
    fresh,
    get,
    kinds,
    order,
    put,
    read_all,
)


async def found(store: Store, text: str, **options: Any) -> list[str]:
    return [row.id for row in (await search(store, parse(text), **options)).rows]


def tagged(store: Store, *tags: str, **fields: Any) -> Submission:
    return fresh(store, tags=tags, **fields)


async def inserted(store: Store, *group: Submission) -> list[str]:
    return [answer.task_id for answer in await store.insert(list(group))]


async def test_every_insert_writes_them(store: Store) -> None:
    [one] = await inserted(store, tagged(store, "vip"))
    two = await inserted(store, tagged(store, "vip", "eu"), tagged(store), tagged(store, "eu"))
    general = await put(store, tags=("vip",))
    started = await store.insert_and_claim([tagged(store, "vip")], claim_request(limit=1))
    fifth = started[0][0].task_id if started is not None else general
    vip = {one, two[0], general, fifth}
    assert set(await found(store, "tag:vip")) == vip
    assert set(await found(store, "tag:vip tag:eu")) == {two[0]}
    assert set(await found(store, "tag:vip,eu")) == vip | {two[2]}
    assert set(await found(store, "-tag:vip")) == {two[1], two[2]}
    assert set(await found(store, "-tag:*")) == {two[1]}
    assert set(await found(store, "tag:v*")) == vip
    assert (await get(store, two[0])).tags == ("eu", "vip")
    assert (await get(store, two[1])).tags == ()
    tags_of = {e.task_id: e.data.get("tags") for e in await read_all(store) if "enqueued" in e.kind}
    assert (tags_of[two[0]], tags_of[two[1]], tags_of[general]) == (["eu", "vip"], None, ["vip"])


async def test_a_claimed_task_has_them(store: Store) -> None:
    await inserted(store, tagged(store, "vip"))
    [task] = await claim(store)
    assert task.tags == ("vip",)


@pytest.mark.parametrize("text", ["tag:a", "tag:a sort:created", "tag:a sort:-updated", "tag:a,b"])
async def test_pages_have_every_row_once(store: Store, text: str) -> None:
    ids = await inserted(store, *(tagged(store, "a", "b") for _ in range(7)), tagged(store, "c"))
    rows, after = [], None
    while page := (await search(store, parse(text), after=after, limit=3)).rows:
        rows += page
        after = After(rows[-1].updated_at, rows[-1].id)
    assert sorted(row.id for row in rows) == sorted(ids[:7])
    assert rows[0].tags_json == '["a","b"]'


async def test_a_list_of_projects_has_their_tags_only(store: Store) -> None:
    [ours, web, shop] = await inserted(
        store,
        tagged(store, "vip"),
        tagged(store, "vip", project="web"),
        tagged(store, "vip", project="shop"),
    )
    assert await found(store, "tag:vip", projects=["web"]) == [web]
    assert await found(store, "tag:vip", projects=["default"]) == [ours]
    assert await found(store, "tag:vip", projects=["web", "shop"]) == [shop, web]
    assert await found(store, "tag:vip project:web") == [web]
    assert (await search(store, parse("tag:vip"))).scope is None


async def test_an_edit_changes_them_with_an_event(store: Store) -> None:
    task_id = await put(store, tags=("eu", "vip"))
    await order(store, task_id, Edit("ann", tags=("late", "vip")))
    assert (await get(store, task_id)).tags == ("late", "vip")
    assert await found(store, "tag:eu") == []
    assert await found(store, "tag:late tag:vip") == [task_id]
    [event] = [event for event in await read_all(store) if event.kind == "task.edited"]
    assert event.data == {"actor": "ann", "tags": {"added": ["late"], "removed": ["eu"]}}
    await order(store, task_id, Edit("ann", tags=()))
    assert await found(store, "tag:*") == []
    assert (await get(store, task_id)).tags_json is None
    assert await kinds(store, task_id) == ["task.enqueued", "task.edited", "task.edited"]


async def test_they_go_with_their_task(bench: Bench) -> None:
    store = await bench.open()
    old = await inserted(store, tagged(store, "vip"), tagged(store, "vip"))
    kept = await put(store, tags=("eu",))
    for task in await claim(store):
        if task.id in old:
            await complete(store, task)
    await store.prune(before=store.now() + 1, dead_before=0.0, feed_before=0.0)
    assert await found(store, "tag:vip,eu") == [kept]
    assert [tuple(row) for row in await bench.sql("SELECT * FROM holdfast_task_tag")] == [
        ("eu", kept, "default")
    ]


async def test_a_repeat_keeps_its_request_whatever_the_type_adds(store: Store) -> None:
    first = asked(store, "mine", tags=("vip",), type_tags=("mail",))
    again = asked(store, "mine", tags=("vip",), type_tags=("post",))
    [made], [answer] = await store.insert([first]), await store.insert([again])
    assert (answer.task_id, answer.created, made.created) == ("mine", False, True)
    assert (await get(store, "mine")).tags == ("mail", "vip")
