"""Several instances over one store: schedules, pauses, feeds, results and statistics agree."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from holdfast import Event, Position, Status, Task, TaskQueue
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Feed, Worker, assert_contiguous, whole_feed
from tests.acceptance.apps.jobs import make_queue

SETTINGS: dict[str, Any] = {"lease_seconds": 2.0, "shutdown_timeout": 2.0}


async def test_a_schedule_fires_once_whatever_the_number_of_instances(shared_url: str) -> None:
    """Three instances, a fire every 0.2 s: each fire is one task, never closer than its interval."""
    queues = [make_queue(shared_url, "work", **SETTINGS) for _ in range(3)]
    for queue in queues:
        await queue.start()
    for queue in queues:
        await queue.schedule("often", "@every 0.2", "work", {"value": "tick"})
    feed = Feed(queues[0])
    await feed.until(lambda: len(feed.counts["task.completed"]) >= 6)
    await queues[1].unschedule("often")
    for queue in queues[1:]:
        await queue.stop()
    fired = [event.at for event in feed.seen if event.kind == "task.enqueued"]
    assert min(b - a for a, b in itertools.pairwise(fired)) >= 0.2 - 1e-3
    tasks = [await queues[0].get_task(task_id) for task_id in feed.counts["task.enqueued"]]
    assert {str(task.metadata["schedule"]) for task in tasks if task is not None} == {"often"}
    await feed.close()
    await queues[0].stop()


async def test_a_paused_queue_is_paused_everywhere(shared_url: str) -> None:
    operator = TaskQueue(shared_url)
    async with Worker(shared_url, "work", **SETTINGS) as worker:
        await operator.pause_queue(actor="me", reason="maintenance")
        tasks = [await operator.enqueue("work", {"value": n}) for n in range(5)]
        assert "paused by me: maintenance" in str(await operator.why(tasks[0]))
        async with make_queue(shared_url, "work", **SETTINGS) as here:
            assert here.parts.sessions.engine is not None
            await here.parts.sessions.engine.dispatcher.step()
            await here.parts.sessions.engine.dispatcher.step()
            assert {(await task.get()).status for task in tasks} == {Status.QUEUED}
            await operator.resume_queue(actor="me")
            assert [await task.result(10) for task in tasks] == list(range(5))
        await worker.stop()
    kinds = [event.kind for event in await whole_feed(operator)]
    assert kinds.index("queue.paused") < kinds.index("queue.resumed") < kinds.index("task.started")
    await operator.stop()


async def test_low_priority_is_slow_but_never_starved(url: str) -> None:
    """Endless urgent work; an aged task gets one of ten starts."""
    flood = 0
    enough = asyncio.Event()
    queue = TaskQueue(url, max_workers=2, ageing_seconds=0.1, **SETTINGS)

    async def urgent(task: Task) -> None:
        nonlocal flood
        flood += 1
        await asyncio.sleep(0)
        if not enough.is_set():
            await queue.enqueue_many([{"type": "urgent", "priority": "critical"}] * 2)

    async def humble(task: Task) -> int:
        enough.set()
        return flood

    queue.register_handler("urgent", urgent)
    queue.register_handler("humble", humble)
    async with queue:
        await queue.enqueue_many([{"type": "urgent", "priority": "critical"}] * 200)
        low = await queue.enqueue("humble", {}, priority="low")
        started_before = await low.result(20)
        assert isinstance(started_before, int)
        assert started_before >= 5, "nothing more urgent was started before it"


async def test_the_feed_resumes_exactly_across_processes(shared_url: str) -> None:
    """A reader that stops and resumes in another process sees each event once and in order."""
    producer = make_queue(shared_url, "work", **SETTINGS)
    await producer.start()
    seen: list[Event] = []
    position: Position | str | None = None
    tasks = []
    for size in (1, 7, 50, 3):
        tasks += await producer.enqueue_many({"type": "work"} for _ in range(40))
        reader = TaskQueue(shared_url)
        async with asyncio.timeout(20):
            stream = reader.events(after=position)
            seen += [await anext(stream) for _ in range(size)]
            await stream.aclose()  # type: ignore[attr-defined]
        position = str(seen[-1].position)  # as text, as a client would store it
        await reader.stop()
    for task in tasks:
        await task.wait(20)
    reader = TaskQueue(shared_url)
    seen += [event async for event in reader.events(after=position, follow=False)]
    assert_contiguous(seen)
    assert seen[0].position.offset == 1
    assert [e.position for e in seen] == [e.position for e in await whole_feed(producer)]
    assert sum(event.kind == "task.completed" for event in seen) == 160
    await reader.stop()
    await producer.stop()


async def test_two_gateways_share_one_store(pg_empty_dsn: str) -> None:
    """Either accepts tasks and sees all of them; results reach the process that waits."""
    async with (
        Worker(pg_empty_dsn, "work", max_workers=10, **SETTINGS) as worker,
        make_queue(pg_empty_dsn, "async_life", **SETTINGS) as one,
        make_queue(pg_empty_dsn, "thread_life", **SETTINGS) as two,
    ):

        async def caller(gateway: TaskQueue, n: int) -> object:
            return await (await gateway.enqueue("work", {"value": n})).result(20)

        answers = await asyncio.gather(*(caller((one, two)[n % 2], n) for n in range(200)))
        assert answers == list(range(200))
        first = await one.enqueue("work", {"value": 1}, idempotency_key="k")
        again = await two.enqueue("work", {"value": 1}, idempotency_key="k")
        assert (again, again.created) == (first, False)
        assert await again.result(20) == 1
        assert (await one.get_stats()).completed == (await two.get_stats()).completed
        assert (await one.get_stats()).nodes == 3
        assert [e.position for e in await whole_feed(one)] == [
            e.position for e in await whole_feed(two)
        ]
        await worker.stop()


async def test_many_wait_for_results_while_some_never_come(shared_url: str) -> None:
    """Waiting for 600 tasks that are not due does not hide the one that has ended in another process."""
    producer = TaskQueue(shared_url)
    async with Worker(shared_url, "work", **SETTINGS) as worker:
        late = await producer.enqueue_many({"type": "work", "delay": 3600} for _ in range(600))
        waiting = [asyncio.create_task(task.wait()) for task in late]
        async with Gate() as gate:
            held = await producer.enqueue("work", {"gate": gate.address, "name": "x", "value": 1})
            await gate.arrived(1)
            result = asyncio.create_task(held.result(5))
            await asyncio.sleep(0)
            gate.open()
            assert await result == 1
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await worker.stop()
    await producer.stop()
