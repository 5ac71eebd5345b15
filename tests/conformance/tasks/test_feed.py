"""The feed and the counters: order, gaps, resuming from any position, pruning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Complete, Edit, Instruction
from holdfast.core.event import Position
from holdfast.core.task import Status
from holdfast.store.feed import Page, Reset, ResetReason, Skimmed
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.tasks.helpers import (
    all_tasks,
    asked,
    check_counters,
    claim,
    claim_one,
    complete,
    failing,
    finish_all,
    fresh,
    get,
    kill,
    kinds,
    order,
    put,
    put_plain,
    read_all,
    runner_says,
)


async def test_an_empty_feed(store: Store) -> None:
    head = await store.feed.head()
    assert head.offset == 0
    page = await store.feed.read(None)
    assert isinstance(page, Page)
    assert (page.events, page.position, page.head) == ([], head, head)
    assert await store.feed.counters() == []
    assert await store.feed.history("unknown") == []


async def test_offsets_are_contiguous_and_in_order(store: Store) -> None:
    await put_plain(store, 3)
    for task in await claim(store, 2):
        await complete(store, task)
    await put_plain(store, 2)
    events = await read_all(store)
    assert [event.position.offset for event in events] == list(range(1, 10))
    assert (await store.feed.head()).offset == 9
    assert len({event.position.epoch for event in events}) == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 500])
async def test_pages_of_any_size_give_the_same_feed(store: Store, limit: int) -> None:
    for size in (5, 1, 3):
        await put_plain(store, size)
    await finish_all(store)
    whole = await read_all(store)
    assert await read_all(store, limit=limit) == whole
    page = await store.feed.read(None, limit)
    assert isinstance(page, Page)
    assert len(page.events) == min(limit, len(whole))


async def test_a_reader_resumes_from_any_position(store: Store) -> None:
    await put_plain(store, 4)
    await finish_all(store)
    whole = await read_all(store)
    for n, event in enumerate(whole):
        assert await read_all(store, event.position) == whole[n + 1 :]


async def test_a_reader_gets_more_records_than_one_page_holds(store: Store) -> None:
    for n in range(70):
        await put(store, f"{n:02}")
    assert [event.task_id for event in await read_all(store)] == [f"{n:02}" for n in range(70)]


async def test_a_position_that_cannot_go_on_is_reset_with_a_reason(store: Store) -> None:
    await put_plain(store, 3)
    head = await store.feed.head()
    ahead = await store.feed.read(Position(head.epoch, head.offset + 1))
    assert isinstance(ahead, Reset)
    assert (ahead.reason, ahead.head, ahead.oldest.offset) == (ResetReason.AHEAD, head, 0)
    other = await store.feed.read(Position("elsewhere", 1))
    assert isinstance(other, Reset)
    assert other.reason is ResetReason.EPOCH
    assert [e.position.offset for e in await read_all(store, other.oldest)] == [1, 2, 3]


async def test_the_history_of_one_task(store: Store, clock: VirtualClock) -> None:
    ids = await put_plain(store, 3)
    for task in await claim(store, 3):
        await runner_says(store, task, failing())
    clock.set(clock.now() + 10)
    await finish_all(store)
    history = await store.feed.history(ids[1])
    assert [event.kind for event in history] == [
        *("task.enqueued", "task.started", "task.failed", "task.started", "task.completed")
    ]
    assert {event.task_id for event in history} == {ids[1]}
    whole = {event.position: event for event in await read_all(store)}
    assert all(whole[event.position] == event for event in history)


async def test_a_long_history_keeps_its_end(store: Store) -> None:
    await put(store, "a")
    for n in range(120):
        await order(store, "a", Edit("ann", str(n)))
    history = await store.feed.history("a")
    assert len(history) >= 90
    assert history[-1].position == await store.feed.head()


async def test_counters_follow_everything(store: Store, clock: VirtualClock) -> None:
    await put_plain(store, 4, priority="low")
    await put_plain(store, 3, queue="mail", type="other")
    await check_counters(store)
    for n, task in enumerate(await claim(store, 5, queues=("default", "mail"))):
        match n:
            case 0:
                await complete(store, task)
            case 1:
                await runner_says(store, task, failing(final=True))
            case 2:
                await runner_says(store, task, failing())
            case _:
                await order(store, task.id, Abort("ann"))
        await check_counters(store)
    clock.set(clock.now() + 100)
    await finish_all(store)
    await check_counters(store)


async def test_long_results_are_stored_in_the_task_only(store: Store) -> None:
    ids = await put_plain(store, 2)
    long = '"' + "x" * 10_000 + '"'
    for task in await claim(store, 2):
        await complete(store, task, long if task.id == ids[0] else '{"a":[1,"\\u0000ü"]}')
    ends = {e.task_id: e for e in await read_all(store) if e.kind == "task.completed"}
    assert ends[ids[0]].data["result_omitted"] is True
    assert (await get(store, ids[0])).result == "x" * 10_000
    assert ends[ids[1]].data["result"] == {"a": [1, "\x00ü"]}
    assert (await get(store, ids[1])).result == {"a": [1, "\x00ü"]}


# -- pruning ---------------------------------------------------------------------------------------


async def prune(store: Store, clock: VirtualClock, age: float, limit: int = 1000) -> int:
    before = clock.now() - age
    return await store.prune(
        before=before, dead_before=before - 1000, feed_before=before, limit=limit
    )


async def test_pruning_removes_tasks_that_ended_long_ago(store: Store, clock: VirtualClock) -> None:
    await put(store, "old")
    await finish_all(store)
    await put(store, "dead")
    await kill(store, "dead")
    await put(store, "waiting")
    clock.set(clock.now() + 100)
    await put(store, "young", priority="high")
    await complete(store, await claim_one(store))
    assert await prune(store, clock, 50) > 0
    assert {task.id for task in await all_tasks(store)} == {"dead", "waiting", "young"}
    await check_counters(store)
    clock.set(clock.now() + 1100)
    await prune(store, clock, 50)
    assert {task.id for task in await all_tasks(store)} == {"waiting"}
    await check_counters(store)


async def test_pruning_takes_batches(store: Store, clock: VirtualClock) -> None:
    await put_plain(store, 10)
    await finish_all(store)
    clock.set(clock.now() + 100)
    assert await store.reads.find(status=Status.COMPLETED, limit=100) != []
    gone = await store.prune(before=clock.now(), dead_before=0.0, feed_before=0.0, limit=4)
    assert gone == 4
    assert len(await all_tasks(store)) == 6
    await check_counters(store)


async def test_a_reader_of_what_was_pruned_is_reset(store: Store, clock: VirtualClock) -> None:
    await put(store, "a")
    await put(store, "b")
    early = (await read_all(store))[0].position
    clock.set(clock.now() + 100)
    await put(store, "c")
    head = await store.feed.head()
    await store.prune(before=0.0, dead_before=0.0, feed_before=clock.now() - 50)
    reset = await store.feed.read(early)
    assert isinstance(reset, Reset)
    assert (reset.reason, reset.oldest.offset, reset.head) == (ResetReason.PRUNED, 2, head)
    assert [event.task_id for event in await read_all(store, reset.oldest)] == ["c"]
    assert [event.task_id for event in await read_all(store)] == ["c"]
    assert await kinds(store, "a") == []
    await check_counters(store)


async def test_the_head_is_never_pruned(store: Store, clock: VirtualClock) -> None:
    await put_plain(store, 3)
    head = await store.feed.head()
    clock.set(clock.now() + 1000)
    for _ in range(3):
        await store.prune(before=0.0, dead_before=0.0, feed_before=clock.now())
    assert await store.feed.head() == head
    page = await store.feed.read(head)
    assert isinstance(page, Page)
    await put(store, "next")
    assert [e.position.offset for e in await read_all(store, head)] == [4]
    await check_counters(store)


async def test_pruning_keeps_records_that_are_not_counted_yet(
    store: Store, clock: VirtualClock
) -> None:
    await put_plain(store, 5)
    clock.set(clock.now() + 1000)
    await put_plain(store, 1)
    await store.prune(before=0.0, dead_before=0.0, feed_before=clock.now())
    await check_counters(store)


# -- state and event are one transaction -------------------------------------------------------------


@pytest.mark.parametrize("verb", ["insert", "plain insert", "claim", "finish", "apply", "sweep"])
async def test_without_its_record_nothing_is_written(
    bench: Bench, clock: VirtualClock, verb: str
) -> None:
    store = await bench.open()
    await put_plain(store, 4)
    running = await claim(store, 2)
    if verb == "sweep":
        clock.set(clock.now() + 100)
    before = await all_tasks(store)
    await bench.sql("ALTER TABLE holdfast_feed RENAME TO holdfast_feed_away")
    orders = [Instruction(task.id, Complete("1"), fence=task.fence) for task in running]
    attempts: dict[str, Callable[[], Awaitable[object]]] = {
        "insert": lambda: store.insert([asked(store), asked(store)]),
        "plain insert": lambda: store.insert([fresh(store), fresh(store)]),
        "claim": lambda: claim(store, 2),
        "finish": lambda: store.finish(list(zip(running, orders, strict=True))),
        "apply": lambda: store.apply(orders),
        "sweep": lambda: store.sweep(),
    }
    with pytest.raises(Exception, match="holdfast_feed"):
        await attempts[verb]()
    await bench.sql("ALTER TABLE holdfast_feed_away RENAME TO holdfast_feed")
    assert await all_tasks(store) == before
    await check_counters(store)
    assert len(await read_all(store)) == 6
    await attempts[verb]()
    assert await all_tasks(store) != before


async def test_skimming_passes_events_and_finds_kinds(store: Store) -> None:
    start = await store.feed.head()
    await put_plain(store, 3)
    (task,) = await claim(store, 1)
    await complete(store, task)
    prefixes = ("task.comp", "task.started", "token.", "default")
    answer = await store.feed.skim(start, 100, prefixes)
    assert isinstance(answer, Skimmed)
    assert answer.position == answer.head == await store.feed.head()
    assert answer.prefixes == {"task.comp", "task.started"}
    again = await store.feed.skim(answer.position, 100, prefixes)
    assert again == Skimmed(answer.head, answer.head, frozenset())


async def test_skimming_is_bounded_and_goes_on(store: Store) -> None:
    start = await store.feed.head()
    await put_plain(store, 5)
    (task,) = await claim(store, 1)
    await complete(store, task)
    at, found = start, set[str]()
    offsets = []
    while True:
        answer = await store.feed.skim(at, 3, ("task.completed",))
        assert isinstance(answer, Skimmed)
        at = answer.position
        offsets.append(at.offset)
        found |= answer.prefixes
        if at == answer.head:
            break
    assert offsets == [3, 6, 7]
    assert found == {"task.completed"}


async def test_skimming_finds_the_other_kind_of_a_record(store: Store) -> None:
    """A value of a user that looks like the start of an event does not hide it."""
    await put_plain(store, 2)
    first, second = await claim(store, 2)
    start = await store.feed.head()
    await store.apply(
        [
            Instruction(first.id, Complete('["task.completed"]', 0.0), fence=first.fence),
            Instruction(second.id, Abort("user:ann")),
        ]
    )
    kinds_now = [event.kind for event in (await store.feed.read(start)).events]  # type: ignore[union-attr]
    assert kinds_now[0] == "task.completed"
    answer = await store.feed.skim(start, 100, ("task.aborted", "task.completed", "token."))
    assert isinstance(answer, Skimmed)
    assert answer.prefixes == {"task.aborted", "task.completed"}


async def test_skimming_from_a_position_that_is_gone_is_a_reset(store: Store) -> None:
    head = await store.feed.head()
    answer = await store.feed.skim(Position(head.epoch, head.offset + 1), 10, ())
    assert isinstance(answer, Reset)
    assert answer.reason is ResetReason.AHEAD
