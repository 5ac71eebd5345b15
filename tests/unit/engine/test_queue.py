"""The queue over the engine: why, events, dead letters, dependencies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Context, Event, Position, Status, Task, TaskQueue
from holdfast.core.command import Instruction, Reassign
from holdfast.errors import (
    BadConfig,
    BatchTooLarge,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    UnknownType,
)
from holdfast.testing import Harness, harness
from tests.statements import execute


async def echo(task: Task) -> object:
    return task.payload


async def broken(task: Task) -> None:
    raise ValueError(f"broken {task.payload}")


async def codes(queue: TaskQueue, task_id: str) -> list[str]:
    return [reason.code for reason in (await queue.why(task_id)).reasons]


async def test_why_names_what_blocks_a_task(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    queue.register_handler("broken", broken, max_attempts=1)
    gate = asyncio.Event()

    async def hold(task: Task) -> None:
        await gate.wait()

    queue.register_handler("hold", hold, key_concurrency=1, rate=None)
    queue.register_handler("rated", echo, rate="1/h")
    async with harness(queue, max_workers=3, task_timeout=None) as h:
        await h.run_until_idle()
        parent = await queue.enqueue("echo", delay=50)
        child = await queue.enqueue("echo", depends_on=[parent])
        assert await codes(queue, parent) == ["not-due"]
        assert await codes(queue, child) == ["dependency"]
        assert parent in str(await queue.why(child))
        first = await queue.enqueue("hold", key="k")
        second = await queue.enqueue("hold", key="k")
        await h.run_until_idle()
        assert await codes(queue, first) == ["running"]
        assert await codes(queue, second) == ["limit-full"]
        assert first in (await queue.why(second)).reasons[0].data["holders"]
        await queue.enqueue("rated")
        await h.run_until_idle()
        rated = await queue.enqueue("rated")
        await h.run_until_idle()
        assert await codes(queue, rated) == ["rate"]
        await queue.pause_queue("default", actor="ann", reason="deploy")
        paused = await queue.enqueue("echo")
        assert "queue-paused" in await codes(queue, paused)
        assert "ann: deploy" in str(await queue.why(paused))
        await queue.resume_queue("default")
        elsewhere = await queue.enqueue("echo", queue="elsewhere")
        assert await codes(queue, elsewhere) == ["queue-unserved"]
        dead = await queue.enqueue("broken")
        await h.run_until_idle()
        assert await codes(queue, dead) == ["dead"]
        assert await codes(queue, paused) == ["completed"]
        await queue.pause_task(first, actor="bob", reason="look")
        assert await codes(queue, first) == ["paused"]
        gate.set()
        with pytest.raises(NotFound):
            await queue.why("missing")


async def test_why_names_holds_reservations_and_runs_without_progress(queue: TaskQueue) -> None:
    gate = asyncio.Event()

    async def slow(task: Task) -> None:
        await gate.wait()

    queue.register_handler("echo", echo)
    queue.register_handler("slow", slow, progress_timeout=5.0)
    async with harness(queue, task_timeout=None) as h:
        await h.run_until_idle()
        held = await queue.enqueue("echo", delay=50)
        await queue.pause_task(held, actor="ann", reason="not yet")
        assert await codes(queue, held) == ["on-hold", "not-due"]
        assert "held by ann: not yet" in str(await queue.why(held))
        await queue.resume_task(held)
        assert await codes(queue, held) == ["not-due"]
        store = (await queue.open()).store
        await store.apply([Instruction(held, Reassign("ann", "node-b", 60.0))])
        assert await codes(queue, held) == ["assigned", "not-due"]
        stuck = await queue.enqueue("slow")
        await h.run_until_idle()
        await h.advance(15.0)
        assert await codes(queue, stuck) == ["stuck"]
        gate.set()
        await h.run_until_idle()
        assert (await queue.wait_task(stuck)).status is Status.COMPLETED


async def test_why_says_when_no_node_has_a_handler(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    async with harness(queue) as h:
        await h.run_until_idle()
        handle = await queue.enqueue("echo", delay=100)
        resources = await queue.open()
        await execute(resources.store, "forget_node", id=h.engine.config.node)
        assert await codes(queue, handle) == ["not-due", "no-handler"]


async def test_events_arrive_in_order_and_resume(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    kinds: list[Event] = []
    async with harness(queue) as h:
        before = await queue.enqueue("echo", "before")
        queue.on_event(kinds.append)
        await queue.enqueue("echo", "after")
        await h.run_until_idle()
        offsets = [event.position.offset for event in kinds]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert [e.kind for e in kinds if e.task_id != before] == [
            *("task.enqueued", "task.started", "task.completed")
        ]
        middle = kinds[1].position
        rest = [event async for event in queue.events(middle, follow=False)]
        assert rest == kinds[2:]


async def test_a_failing_event_handler_loses_nothing(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.register_handler("echo", echo)
    kinds: list[str] = []

    async def listen(event: Event) -> None:
        kinds.append(event.kind)
        raise RuntimeError("in the listener")

    async with harness(queue) as h:
        stop = queue.on_event(listen)
        await queue.enqueue("echo")
        await h.run_until_idle()
        assert kinds == ["task.enqueued", "task.started", "task.completed"]
        stop()
        await queue.enqueue("echo")
        await h.run_until_idle()
        assert len(kinds) == 3
        await stop()
        assert not queue.parts.sessions.here.subscriptions.tasks
    assert "an event handler failed" in caplog.text


async def test_a_subscriber_that_fell_behind_the_feed_goes_on(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.register_handler("echo", echo)
    kinds: list[str] = []
    gate = asyncio.Event()

    async def listen(event: Event) -> None:
        kinds.append(str(event.task_id))
        await gate.wait()

    async with harness(queue) as h:
        queue.on_event(listen)
        first = await queue.enqueue("echo")
        await h.run_until_idle()
        await queue.enqueue_many(
            [{"type": "echo"}] * 600
        )  # more than a page: the rest is not read yet
        await h.run_until_idle()
        resources = await queue.open()
        await resources.store.prune(before=0, dead_before=0, feed_before=resources.clock.now() + 1)
        last = await queue.enqueue("echo")
        gate.set()
        await h.run_until_idle()
        assert kinds[0] == first
        assert kinds[-1] == last
    assert "missed events and continues" in caplog.text


async def test_a_subscriber_waits_out_an_outage(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.register_handler("echo", echo)
    kinds: list[str] = []
    back = asyncio.Event()

    def listen(event: Event) -> None:
        kinds.append(event.kind)

    async with harness(queue) as h:
        resources = await queue.open()
        head = resources.store.feed.head
        tries = 0

        async def flaky() -> Position:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise StoreUnavailable("away")
            back.set()
            return await head()

        monkeypatch.setattr(resources.store.feed, "head", flaky)
        queue.on_event(listen)
        await back.wait()
        await queue.enqueue("echo")
        await h.run_until_idle()
    assert kinds[0] == "task.enqueued"


async def dead_letters(queue: TaskQueue, h: Harness, count: int) -> list[str]:
    handles = [await queue.enqueue("broken", n) for n in range(count)]
    await h.run_until_idle()
    assert {(await handle.get()).status for handle in handles} == {Status.FAILED}
    return list(handles)


async def test_dead_letters_are_grouped_edited_and_replayed(queue: TaskQueue) -> None:
    fixed = False

    async def mend(task: Task) -> object:
        if not fixed:
            raise ValueError(f"broken {task.payload}")
        return task.payload

    queue.register_handler("broken", mend, max_attempts=1)
    async with harness(queue) as h:
        ids = await dead_letters(queue, h, 5)
        groups = await queue.get_dead_groups()
        assert [(group.count, group.type) for group in groups] == [(5, "broken")]
        assert "broken" in groups[0].error
        assert {task.id for task in await queue.get_dead_tasks()} == set(ids)
        assert len(await queue.get_dead_tasks(limit=2, offset=4)) == 1
        assert len(await queue.get_dead_tasks(fingerprint=groups[0].fingerprint)) == 5
        fixed = True
        assert (await queue.replay_dead_task(ids[0], payload="mended")).payload == "mended"
        with pytest.raises(IllegalTransition, match="only a dead letter"):
            await queue.replay_dead_task(ids[0])
        with pytest.raises(NotFound):
            await queue.replay_dead_task("missing")
        await h.run_until_idle()
        assert (await queue.get_task(ids[0])).result == "mended"  # type: ignore[union-attr]
        assert await queue.replay_dead(type="broken", rate=2.0, dry_run=True) == 4
        started_at = h.now()
        assert await queue.replay_dead(type="broken", rate=2.0) == 4
        await h.advance(10)
        done = [task for task in await h.tasks("broken") if task.id != ids[0]]
        starts = sorted((task.started_at or 0.0) - started_at for task in done)
        assert starts == pytest.approx([0.0, 0.5, 1.0, 1.5])
        assert (await queue.get_stats()).dead_letter_count == 0


async def test_discarded_dead_letters_stay_discarded(queue: TaskQueue) -> None:
    queue.register_handler("broken", broken, max_attempts=1)
    async with harness(queue) as h:
        ids = await dead_letters(queue, h, 4)
        assert await queue.discard_dead(limit=1, actor="ann") == 1
        assert await queue.discard_dead() == 3
        assert {(await queue.get_task(i)).status for i in ids} == {Status.ABORTED}  # type: ignore[union-attr]
        assert await queue.get_dead_tasks() == []


@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf")])
async def test_a_replay_with_a_bad_delay_is_refused(queue: TaskQueue, delay: float) -> None:
    queue.register_handler("broken", broken, max_attempts=1)
    async with harness(queue) as h:
        task_id = (await dead_letters(queue, h, 1))[0]
        with pytest.raises(InvalidInput, match="delay"):
            await queue.replay_dead_task(task_id, delay=delay)
        assert (await queue.get_task(task_id)).status is Status.FAILED  # type: ignore[union-attr]


async def test_a_child_reads_its_parents(queue: TaskQueue) -> None:
    async def add(task: Task, ctx: Context) -> int:
        parents = await ctx.parents()
        return sum(parent.result for parent in parents.values())

    queue.register_handler("echo", echo)
    queue.register_handler("add", add)
    async with harness(queue) as h:
        parents = [await queue.enqueue("echo", n) for n in (1, 2, 3)]
        child = await queue.enqueue("add", depends_on=parents)
        assert await queue.get_dependents(parents[0]) == [child]
        await h.run_until_idle()
        assert await child.result() == 6


async def test_bad_calls_are_typed_errors(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    async with harness(queue) as h:
        with pytest.raises(UnknownType, match=r"'nothing'.*known: echo"):
            await queue.enqueue("nothing")
        with pytest.raises(BatchTooLarge):
            await queue.enqueue_many([{"type": "echo"}] * 10_001)
        with pytest.raises(InvalidInput, match="no type"):
            await queue.enqueue_many([{"payload": 1}])
        with pytest.raises(InvalidInput, match="list of task ids"):
            await queue.enqueue("echo", depends_on="abc")
        with pytest.raises(InvalidInput, match="policy"):
            await queue.enqueue("echo", depends_on={"a": "maybe"})
        with pytest.raises(InvalidInput, match="limit is 0"):
            await queue.find_tasks(limit=0)
        with pytest.raises(InvalidInput, match="timeout"):
            await queue.enqueue("echo", timeout=-1)
        handle = await queue.enqueue("echo", delay=5)
        with pytest.raises(IllegalTransition):
            await queue.resume_task(handle)
        with pytest.raises(NotFound):
            await queue.resume_task("missing")
        assert len(await h.tasks()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"max_workers": 0},
        {"max_workers": "many"},
        {"max_workers": 2.5},
        {"min_workers": 5, "max_workers": 2},
        {"base_retry_delay": -1},
        {"task_timeout": 0},
        {"lease_seconds": 0},
        {"max_depth": -1},
        {"max_age": -1.0},
        {"keep_done": -1.0},
        {"keep_dead": "long"},
        {"keep_events": float("nan")},
        {"queues": "default"},
        {"nonsense": 1},
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadConfig):
        TaskQueue("sqlite://", **settings)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"timeout": -1},
        {"retry_delay": -1.0},
        {"max_retry_delay": float("nan")},
        {"max_deaths": 0},
        {"rate": "often"},
        {"rate": "5/0s"},
        {"concurrency": 0},
        {"burst": 0, "rate": "1/s"},
        {"isolation": "magic"},
        {"isolation": "thread"},
    ],
    ids=str,
)
def test_bad_definitions_are_refused(queue: TaskQueue, options: dict[str, object]) -> None:
    async def work() -> None: ...

    with pytest.raises(BadConfig):
        queue.task(**options)(work)  # type: ignore[call-overload]


async def test_queues_and_nodes_are_listed(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    async with harness(queue) as h:
        await queue.enqueue("echo")
        with pytest.raises(NotFound, match=r"'other'.*known: default"):
            await queue.pause_queue("other")
        await queue.enqueue("echo", queue="other")
        await queue.pause_queue("other", actor="mira", reason="a look")
        views = {view.name: view for view in await queue.get_queues()}
        assert views["default"].counts == {"queued": 1}
        assert not views["default"].is_paused
        assert (views["other"].is_paused, views["other"].paused_by) == (True, "mira")
        [node] = await queue.get_nodes()
        assert node.types == ["echo"]
        resources = await queue.open()
        await execute(resources.store, "join_node", id="gone", now=0.0, info_json="{}")
        assert [listed.id for listed in await queue.get_nodes()] == [node.id]
        assert {listed.id for listed in await queue.get_nodes(live=False)} == {"gone", node.id}
        assert (await queue.get_stats()).nodes == 1
        await h.run_until_idle()
