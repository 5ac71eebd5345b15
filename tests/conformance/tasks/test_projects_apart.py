"""Enqueues of one project never meet the tasks of another: not by key, by id, or as dependencies."""

from __future__ import annotations

import pytest

from holdfast.core.task import Status
from holdfast.errors import DuplicateTask, IdempotencyConflict, UnknownDependency
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import after, asked, get, put


async def test_each_project_has_its_own_idempotency_keys(store: Store) -> None:
    ours = await put(store, idempotency_key="k", payload=1)
    theirs = await put(store, idempotency_key="k", payload=2, project="pb")
    assert ours != theirs
    again = await store.insert(
        [
            asked(store, idempotency_key="k", payload=1),
            asked(store, idempotency_key="k", payload=2, project="pb"),
        ]
    )
    assert [(one.task_id, one.created) for one in again] == [(ours, False), (theirs, False)]
    with pytest.raises(IdempotencyConflict, match=theirs):
        await put(store, idempotency_key="k", payload=1, project="pb")


async def test_keys_of_two_projects_in_one_batch_are_two_tasks(store: Store) -> None:
    both = await store.insert(
        [
            asked(store, idempotency_key="k"),
            asked(store, idempotency_key="k", project="pb"),
            asked(store, idempotency_key="k"),
        ]
    )
    assert [one.created for one in both] == [True, True, False]
    assert both[0].task_id == both[2].task_id != both[1].task_id


async def test_the_store_itself_keeps_keys_of_projects_apart(bench: Bench, store: Store) -> None:
    """Two writers that race find no row: the index decides."""
    await put(store, "a", idempotency_key="k")
    await put(store, "b", idempotency_key="k", project="pb")
    rows = await bench.sql("SELECT project FROM holdfast_task ORDER BY id")
    assert [row[0] for row in rows] == ["default", "pb"]


async def test_the_id_of_a_foreign_task_is_taken_and_says_no_more(store: Store) -> None:
    """Ids are unique in the store. The same request is not answered with the foreign task."""
    await put(store, "a", payload=1, project="pb", idempotency_key="k")
    for payload in (1, 2):
        for key in (None, "k"):
            with pytest.raises(DuplicateTask) as raised:
                await put(store, "a", payload=payload, idempotency_key=key)
            assert "pb" not in str(raised.value)
    assert (await get(store, "a")).project == "pb"


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_dependency_on_a_foreign_task_is_unknown(store: Store, key: str | None) -> None:
    """With a key the insert does not lock its parents on PostgreSQL."""
    await put(store, "p", project="pb")
    with pytest.raises(UnknownDependency):
        await put(store, "c", depends_on=after("p"), idempotency_key=key)
    with pytest.raises(UnknownDependency):
        await store.insert(
            [
                asked(store, "q", project="pb"),
                asked(store, "d", depends_on=after("q"), idempotency_key=key),
            ]
        )
    await put(store, "e", project="pb", depends_on=after("p"), idempotency_key=key)
    assert (await get(store, "e")).status is Status.BLOCKED
