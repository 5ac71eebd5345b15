"""Schedules: events, the node that fires, and schedules that a node cannot evaluate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.core import schedule as rules
from holdfast.core.event import Event
from holdfast.core.ids import Ids
from holdfast.core.schedule import CODE, REMOTE, SILENT_SECONDS, Schedule
from holdfast.core.submit import Submission
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.engine.scheduler import ANNOUNCE_SECONDS, FORGET_SECONDS, Scheduler
from holdfast.errors import Conflict, NotFound, UnknownType, VersionConflict
from holdfast.queue.by import By
from holdfast.store.feed import Page
from holdfast.store.port import Dialect
from holdfast.store.script import Script
from holdfast.store.scripts import schedules
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import all_tasks, asked, fresh
from tests.statements import execute, query


def every(
    name: str,
    seconds: float = 60.0,
    *,
    owner: str | None = None,
    project: str = DEFAULT_PROJECT,
    **changed: str,
) -> Schedule:
    fields = {"spec": f"@every {seconds:g}", "timezone": "UTC", "type": "work"} | changed
    return Schedule(
        name,
        fields["type"],
        "default",
        fields["spec"],
        fields["timezone"],
        "{}",
        2,
        0.0,
        owner=owner,
        project=project,
    )


async def put(store: Store, schedule: Schedule) -> bool:
    return await store.run(
        lambda dialect, ids, now: schedules.put(dialect, ids, now, schedule=schedule, actor="ann")
    )


async def put_unchecked(store: Store, schedule: Schedule, next_at: float) -> None:
    """Stores a schedule of a newer version, whose spec this version cannot parse."""
    fields = {name: getattr(schedule, name) for name in schedule.__struct_fields__}
    del fields["fired_at"], fields["paused"], fields["version"]
    await execute(store, "put_schedule", **fields | {"next_at": next_at})


async def row(store: Store, name: str) -> Schedule | None:
    schedules = [Schedule(*values) for values in await query(store, "schedules")]
    return next((schedule for schedule in schedules if schedule.name == name), None)


async def events(store: Store) -> list[Event]:
    page = await store.feed.read(None)
    assert isinstance(page, Page)
    return page.events


class Node:
    """A scheduler on a store, with the types and schedules of its code."""

    def __init__(
        self,
        store: Store,
        clock: VirtualClock,
        code: Sequence[Schedule] = (),
        knows: str = "work",
        has: str = "",
    ) -> None:
        """`knows`: the types that the store knows. `has`: those with a handler in the node's code."""
        self.store = store
        self.knows = knows
        self.scheduler = Scheduler(
            *(clock, store, self.make, lambda: None, lambda: code),
            has_type=lambda name: name in has.split(),
        )

    async def make(self, schedule: Schedule, now: float) -> Submission:
        if schedule.type not in self.knows.split():
            raise UnknownType(f"no node has registered a handler for type '{schedule.type}'")
        return asked(self.store, type=schedule.type)

    async def tick(self) -> float:
        return await self.scheduler.step()


async def test_every_change_of_a_schedule_has_its_event(store: Store, clock: VirtualClock) -> None:
    assert await put(store, every("s"))
    assert not await put(store, every("s"))  # Nothing has changed, so there is no event.
    assert await put(store, every("s", 30))

    def pause(dialect: Dialect, ids: Ids, now: float) -> Script[Schedule]:
        return schedules.pause(dialect, ids, now, name="s", actor="ann", reason="noisy")

    def resume(dialect: Dialect, ids: Ids, now: float) -> Script[Schedule]:
        return schedules.resume(dialect, ids, now, name="s", actor="bob")

    node = Node(store, clock)
    clock.set(clock.now() + 31)
    await node.tick()
    for _ in range(2):
        assert (await store.run(pause)).paused == 1
    clock.set(clock.now() + 1_000)
    await node.tick()
    resumed = await store.run(resume)
    assert await store.run(resume) == resumed
    assert (resumed.paused, resumed.next_at) == (
        0,
        clock.now() + 30,
    )  # Missed fires are not repeated.
    await store.run(
        lambda dialect, ids, now: schedules.remove(
            dialect, ids, now, name="s", actor="ann", reason="done"
        )
    )
    changes = [event for event in await events(store) if event.kind.startswith("schedule.")]
    assert [event.kind.removeprefix("schedule.") for event in changes] == [
        *("put", "put", "fired", "paused", "resumed", "removed")
    ]
    assert {event.schedule for event in changes} == {"s"}
    assert (changes[3].actor, changes[3].reason, changes[4].actor) == ("ann", "noisy", "bob")
    [task] = await all_tasks(store)
    assert changes[2].task == task.id
    for verb in (pause, resume):
        with pytest.raises(NotFound, match="'s'"):
            await store.run(verb)


async def test_fired_and_enqueued_are_one_transaction(store: Store, clock: VirtualClock) -> None:
    await put(store, every("s"))
    clock.set(clock.now() + 61)
    await Node(store, clock).tick()
    kinds = [event.kind for event in await events(store)]
    assert kinds == ["schedule.put", "task.enqueued", "schedule.fired"]


@pytest.mark.parametrize("trouble", ["no zone files", "a newer version's spec", "unknown type"])
async def test_a_schedule_that_cannot_be_evaluated_affects_no_other(
    store: Store,
    clock: VirtualClock,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await put(store, every("b"))
    match trouble:
        case "no zone files":
            await put(store, every("a", spec="* * * * *", timezone="Europe/Prague"))
        case "unknown type":
            await put(store, every("a", type="elsewhere"))
        case _:
            await put_unchecked(store, every("a", spec="@lunar 3"), clock.now())

    def without(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    node = Node(store, clock)
    before = await row(store, "a")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        if trouble == "no zone files":
            patch.setattr(rules, "ZoneInfo", without)
        for _ in range(5):
            clock.set(clock.now() + 61)
            await node.tick()
    assert node.scheduler.fired == 5
    assert list(node.scheduler.skipped) == ["a"]
    assert len([record for record in caplog.records if "'a'" in record.getMessage()]) == 1
    assert await row(store, "a") == before  # Unchanged, for nodes that can evaluate it.
    if trouble != "a newer version's spec":
        able = Node(store, clock, knows="work elsewhere")
        await able.tick()
        assert (able.scheduler.fired, able.scheduler.skipped) == (1, {})


async def test_a_later_version_of_the_code_removes_a_schedule_that_it_does_not_have(
    store: Store, clock: VirtualClock
) -> None:
    names = ("tick", "held")
    code = [every(name, owner=CODE) for name in names]
    old, new = Node(store, clock, code), Node(store, clock, has="work")
    await old.tick()
    await store.schedules.pause("held", By("ann"))
    for _ in range(4):  # Both versions run: neither removes what the other has.
        clock.set(clock.now() + SILENT_SECONDS - 1)
        await old.tick()
        await new.tick()
    assert all([await row(store, name) for name in names])
    clock.set(clock.now() + SILENT_SECONDS + 1)
    await Node(store, clock).tick()  # Another service: it has neither the schedule nor its type.
    assert await row(store, "tick") is not None
    await new.tick()
    assert await row(store, "tick") is None
    assert await row(store, "held") is not None, "a pause is kept"
    clock.set(clock.now() + FORGET_SECONDS + 1)
    await new.tick()
    assert await row(store, "held") is None


async def test_a_schedule_is_run_now_whatever_its_time(store: Store, clock: VirtualClock) -> None:
    await put(store, every("s", 30))
    await store.schedules.pause("s", By("ann"))
    before = await row(store, "s")
    made = asked(store, type="work")
    inserted = await store.schedules.run("s", made, By("ann", "missed"))
    assert inserted.created
    assert await row(store, "s") == before
    fired = [event for event in await events(store) if event.kind == "schedule.fired"]
    assert [(event.data["task"], event.data["actor"], event.reason) for event in fired] == [
        (made.task.id, "ann", "missed")
    ]
    with pytest.raises(NotFound, match="there is no schedule 'other'"):
        await store.schedules.run("other", asked(store, type="work"), By("ann"))


async def test_a_backfill_makes_one_task_for_each_time(store: Store) -> None:
    await put(store, every("s", 30))
    before = await row(store, "s")

    def for_times(*times: str) -> list[Submission]:
        return [fresh(store, idempotency_key=f"s@{each}") for each in times]

    first = await store.schedules.backfill("s", for_times("1", "2"), By("ann", "missed"))
    again = await store.schedules.backfill("s", for_times("2", "3"), By("ben"))
    assert [each.created for each in (*first, *again)] == [True, True, False, True]
    assert again[0].task_id == first[1].task_id
    assert await row(store, "s") == before
    fired = [event for event in await events(store) if event.kind == "schedule.fired"]
    assert [(event.data["task"], event.data["actor"], event.reason) for event in fired] == [
        (first[0].task_id, "ann", "missed"),
        (first[1].task_id, "ann", "missed"),
        (again[1].task_id, "ben", ""),
    ]
    with pytest.raises(NotFound, match="there is no schedule 'other'"):
        await store.schedules.backfill("other", for_times("1"), By("ann"))


async def test_a_schedule_of_the_code_fires_only_where_the_code_has_it(
    store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tick = every("tick", owner=CODE)
    old, new = Node(store, clock, [tick]), Node(store, clock)
    await old.tick()
    for _ in range(3):
        clock.set(clock.now() + 61)
        await new.tick()
        await old.tick()
    assert (old.scheduler.fired, new.scheduler.fired) == (3, 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):  # The last node with this code has gone.
            clock.set(clock.now() + SILENT_SECONDS)
            await new.tick()
    assert new.scheduler.fired == 0
    assert [record.getMessage()[:30] for record in caplog.records] == [
        "schedule 'tick' does not fire:"
    ]
    again = Node(store, clock, [tick])  # An old version starts again: one fire for all missed ones.
    await again.tick()
    assert again.scheduler.fired == 1
    clock.set(clock.now() + FORGET_SECONDS + 1)
    await asyncio.gather(new.tick(), Node(store, clock).tick())
    assert await row(store, "tick") is None
    removed = [event for event in await events(store) if event.kind == "schedule.removed"]
    assert [(event.schedule, event.reason) for event in removed] == [
        ("tick", "it has left the code")
    ]


async def test_a_schedule_of_a_remote_worker_fires_while_it_is_announced(
    store: Store, clock: VirtualClock
) -> None:
    """Any node fires it. A node with the database that has the code goes first."""
    remote, node = every("tick", owner=REMOTE, project="p"), Node(store, clock)
    await store.schedules.put(remote, actor="node:w")
    for _ in range(4):
        clock.set(clock.now() + 61)
        await node.tick()
    assert node.scheduler.fired == 2  # Then it is silent.
    await store.schedules.put(remote, actor="node:w")
    await node.tick()
    assert node.scheduler.fired == 3
    await store.schedules.put(replace(remote, project="other"), actor="node:x")
    assert (await store.reads.schedules())[0].project == "p"
    await store.schedules.put(every("tick", owner=CODE, project="p"), actor=CODE)
    await store.schedules.put(remote, actor="node:w")
    assert (await store.reads.schedules())[0].owner == CODE
    clock.set(clock.now() + SILENT_SECONDS + 1)
    await store.schedules.put(remote, actor="node:w")
    assert (await store.reads.schedules())[0].owner == REMOTE
    with pytest.raises(Conflict):
        await store.schedules.put(every("tick", project="p"), actor="user:ann")


async def test_a_schedule_has_a_version_and_a_project(store: Store, clock: VirtualClock) -> None:
    await store.schedules.put(every("tick"), actor="ann")
    node = Node(store, clock)
    clock.set(clock.now() + 61)
    await node.tick()
    assert node.scheduler.fired == 1
    assert (await store.reads.schedules())[0].version == 1
    for expected in (0, 2):
        with pytest.raises(VersionConflict) as refused:
            await store.schedules.pause("tick", By("ann", expected_version=expected))
        assert refused.value.current == {"version": 1}
    assert (await store.schedules.pause("tick", By("ann", expected_version=1))).version == 2
    assert (await store.schedules.pause("tick", By("ann"))).version == 2
    assert (await store.schedules.resume("tick", By("ann", expected_version=2))).version == 3
    with pytest.raises(VersionConflict):
        await store.schedules.put(every("tick", spec="@daily"), actor="ann", expected_version=2)
    await store.schedules.put(every("tick", spec="@daily"), actor="ann", expected_version=3)
    assert (await store.reads.schedules())[0].version == 4
    with pytest.raises(Conflict):
        await store.schedules.put(every("tick", project="other"), actor="ann")
    with pytest.raises(VersionConflict):
        await store.schedules.remove("tick", By("ann", expected_version=3))
    await store.schedules.remove("tick", By("ann", expected_version=4))


async def test_a_queue_has_a_version(store: Store) -> None:
    pause, resume = store.upkeep.pause_queue, store.upkeep.resume_queue
    with pytest.raises(VersionConflict):
        await pause("mail", actor="ann", reason="", expected_version=1)
    assert await store.reads.queues() == []
    await pause("mail", actor="ann", reason="", expected_version=0)
    with pytest.raises(VersionConflict) as refused:
        await resume("mail", actor="ann", expected_version=0)
    assert refused.value.current == {"version": 1}
    await resume("mail", actor="ann", expected_version=1)
    await resume("mail", actor="ann", expected_version=2)
    with pytest.raises(VersionConflict):
        await resume("mail", actor="ann", expected_version=1)
    assert (await store.reads.queues())[0].version == 2


async def test_a_schedule_of_the_code_is_put_while_running_and_keeps_its_pause(
    store: Store, clock: VirtualClock
) -> None:
    code: list[Schedule] = []
    node = Node(store, clock, code)
    await node.tick()
    code.append(every("tick", owner=CODE))
    await node.tick()
    assert await row(store, "tick") is not None
    await store.run(
        lambda dialect, ids, now: schedules.pause(
            dialect, ids, now, name="tick", actor="ann", reason=""
        )
    )
    await put(store, every("tick", 30, owner=CODE))
    schedule = await row(store, "tick")
    assert schedule is not None
    assert (schedule.paused, schedule.spec) == (1, "@every 30")
    with pytest.raises(Conflict, match="belongs to the code"):
        await put(store, every("tick"))


async def specs(store: Store, clock: VirtualClock, *nodes: Node) -> list[str]:
    """Returns the spec in force after each tick of these nodes."""
    specs = []
    for _ in range(10):
        clock.set(clock.now() + ANNOUNCE_SECONDS + 1)
        for node in nodes:
            await node.tick()
        current = await row(store, "tick")
        assert current is not None
        specs.append(current.spec)
    return specs


async def test_a_definition_that_no_running_node_has_gives_way(
    store: Store, clock: VirtualClock
) -> None:
    """During a roll-out an old node starts last, restores its definition, and then ends."""
    old = Node(store, clock, [every("tick", 7_200, owner=CODE)])
    new = Node(store, clock, [every("tick", 3_600, owner=CODE)])
    await new.tick()
    await old.tick()
    assert set(await specs(store, clock, new, old)) == {"@every 7200"}, "the last start decides"
    assert (await specs(store, clock, new))[-1] == "@every 3600"
    put_again = [event for event in await events(store) if event.kind == "schedule.put"]
    assert len(put_again) == 3, "definitions do not alternate"
    await old.tick()
    assert set(await specs(store, clock, new, old)) == {"@every 3600"}


async def test_a_changed_definition_of_a_running_node_is_put(
    store: Store, clock: VirtualClock
) -> None:
    code = [every("tick", 60, owner=CODE)]
    node = Node(store, clock, code)
    await node.tick()
    for changed in (every("tick", 30, owner=CODE), every("tick", 30, owner=CODE, type="other")):
        code[0] = changed
        await node.tick()
        schedule = await row(store, "tick")
        assert schedule is not None
        assert (schedule.spec, schedule.type) == (changed.spec, changed.type)


async def test_a_schedule_made_at_run_time_stays_without_any_code(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, every("s"))
    node = Node(store, clock)
    clock.set(clock.now() + 2 * FORGET_SECONDS)
    await node.tick()
    assert node.scheduler.fired == 1
