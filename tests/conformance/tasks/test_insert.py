"""Inserts: the rows, answers to repeated requests, and refusals that write nothing."""

from __future__ import annotations

import pytest

from holdfast.core.task import Priority, Status, TaskOptions
from holdfast.errors import (
    DependencyCycle,
    DuplicateTask,
    HoldfastError,
    IdempotencyConflict,
    UnknownDependency,
)
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import (
    after,
    all_tasks,
    asked,
    check_counters,
    claim_ids,
    finish_all,
    fresh,
    get,
    put,
    put_plain,
    read_all,
    shown,
)


@pytest.mark.parametrize("fast", [True, False])
async def test_every_field_of_a_task_comes_back(store: Store, fast: bool) -> None:
    submission = (fresh if fast else asked)(
        store,
        "one",
        type="other",
        queue="mail",
        priority="high",
        payload={"text": 'quote " slash \\ line\n zero \x00 ünï', "list": [1, 2.5, None, True]},
        metadata={"trace": "abc"},
        max_attempts=7,
        delay_seconds=5.0,
        options=TaskOptions(timeout_seconds=3.0, retry_base_seconds=0.5, max_deaths=9),
    )
    inserted = await store.insert([submission])
    assert [(answer.task_id, answer.status, answer.created) for answer in inserted] == [
        ("one", Status.QUEUED, True)
    ]
    task = await get(store, "one")
    assert shown(task) == shown(submission.task)
    assert task.payload["list"] == [1, 2.5, None, True]
    assert task.metadata == {"trace": "abc"}
    assert task.options.max_deaths == 9
    assert task.priority is Priority.HIGH


@pytest.mark.parametrize("fast", [True, False])
async def test_an_enqueue_has_its_event_and_its_count(store: Store, fast: bool) -> None:
    made = fresh if fast else asked
    await store.insert([made(store, "a"), made(store, "b", delay_seconds=10.0, priority="low")])
    events = await read_all(store)
    assert [(e.kind, e.task_id, e.type) for e in events] == [
        ("task.enqueued", "a", "work"),
        ("task.enqueued", "b", "work"),
    ]
    assert events[0].data == {"priority": "normal", "queue": "default"}
    assert events[1].data == {
        "priority": "low",
        "queue": "default",
        "due_at": store.now() + 10.0,
    }
    await check_counters(store)


async def test_the_same_id_and_request_gets_the_existing_task(store: Store) -> None:
    await put(store, "a", payload=1)
    again = (await store.insert([asked(store, "a", payload=1)]))[0]
    assert (again.task_id, again.created) == ("a", False)
    assert len(await read_all(store)) == 1


async def test_the_same_id_with_another_request_is_refused(store: Store) -> None:
    await put(store, "a", payload=1)
    with pytest.raises(DuplicateTask, match="'a'"):
        await put(store, "a", payload=2)
    assert (await get(store, "a")).payload == 1


async def test_one_id_twice_in_a_batch_is_refused(store: Store) -> None:
    with pytest.raises(DuplicateTask, match="twice"):
        await store.insert([asked(store, "a"), asked(store, "a")])
    assert await all_tasks(store) == []


async def test_an_idempotency_key_answers_with_the_first_task(store: Store) -> None:
    first = await put(store, idempotency_key="k", payload=1)
    again = (await store.insert([asked(store, idempotency_key="k", payload=1)]))[0]
    assert (again.task_id, again.created) == (first, False)
    await finish_all(store)
    later = (await store.insert([asked(store, idempotency_key="k", payload=1)]))[0]
    assert (later.task_id, later.status, later.created) == (first, Status.COMPLETED, False)
    assert len(await all_tasks(store)) == 1


async def test_an_idempotency_key_with_another_body_is_an_error(store: Store) -> None:
    await put(store, idempotency_key="k", payload=1)
    with pytest.raises(IdempotencyConflict, match="'k'"):
        await put(store, idempotency_key="k", payload=2)
    with pytest.raises(IdempotencyConflict):
        await put(store, idempotency_key="k", payload=1, priority="low")
    assert len(await all_tasks(store)) == 1


async def test_an_idempotency_key_belongs_to_a_type(store: Store) -> None:
    one = await put(store, idempotency_key="k", type="work")
    two = await put(store, idempotency_key="k", type="other")
    assert one != two


async def test_one_key_twice_in_a_batch_is_one_task(store: Store) -> None:
    inserted = await store.insert([asked(store, idempotency_key="k") for _ in range(3)])
    assert len({answer.task_id for answer in inserted}) == 1
    assert [answer.created for answer in inserted] == [True, False, False]
    with pytest.raises(IdempotencyConflict):
        await store.insert(
            [asked(store, idempotency_key="j", payload=n, type="other") for n in range(2)]
        )
    assert len(await all_tasks(store)) == 1


async def test_a_batch_is_all_or_nothing(store: Store) -> None:
    await put(store, "taken", payload="old")
    bad = {
        "id": (asked(store, "taken", payload="new"), DuplicateTask),
        "parent": (asked(store, "b", depends_on=after("missing")), UnknownDependency),
        "cycle": (asked(store, "b", depends_on=after("b")), DependencyCycle),
    }
    head = await store.feed.head()
    for last, error in bad.values():
        with pytest.raises(error):
            await store.insert([asked(store, "good"), last])
    assert [task.id for task in await all_tasks(store)] == ["taken"]
    assert await store.feed.head() == head
    await check_counters(store)


async def test_a_failed_batch_leaves_its_neighbours_alone(store: Store) -> None:
    """Writes that wait together share a commit. One that fails does not affect the others."""
    import asyncio

    await put(store, "taken", payload="old")
    answers = await asyncio.gather(
        *(
            store.insert([asked(store, "taken" if n % 3 == 1 else f"n{n}", payload=n)])
            for n in range(30)
        ),
        return_exceptions=True,
    )
    refused = [n for n, answer in enumerate(answers) if isinstance(answer, HoldfastError)]
    assert refused == [n for n in range(30) if n % 3 == 1]
    assert len(await all_tasks(store)) == 21
    await check_counters(store)


async def test_a_batch_of_many_keeps_its_order(store: Store) -> None:
    ids = await put_plain(store, 250)
    assert [event.task_id for event in await read_all(store)] == ids
    claimed: list[str] = []
    while more := await claim_ids(store, 100):
        claimed += more
    assert claimed == ids


async def test_general_batches_keep_their_order_too(store: Store) -> None:
    group = [asked(store) for _ in range(20)]
    await store.insert(group)
    assert await claim_ids(store, 20) == [submission.task.id for submission in group]


async def test_find_pages_through_everything(store: Store) -> None:
    ids = await put_plain(store, 7)
    await put(store, "other-1", type="other", queue="mail")
    newest = await store.reads.find(limit=3)
    assert [task.id for task in newest] == sorted(["other-1", *ids], reverse=True)[:3]
    assert len(await all_tasks(store)) == 8
    assert [t.id for t in await store.reads.find(type="other")] == ["other-1"]
    assert [t.id for t in await store.reads.find(queue="mail", status=Status.QUEUED)] == ["other-1"]
    assert [t.id for t in await store.reads.find(prefix="other")] == ["other-1"]
    assert await store.reads.find(status=Status.RUNNING) == []
    assert await store.reads.get([]) == {}


async def test_find_by_prefix_returns_ids_with_any_next_character(store: Store) -> None:
    ids = ["a", "a b", "a~b", "aé", "a日", "a\U0001f600", "b", "A"]
    for task_id in ids:
        await put(store, task_id)
    found = [task.id for task in await store.reads.find(prefix="a")]
    assert found == sorted((i for i in ids if i.startswith("a")), reverse=True)
