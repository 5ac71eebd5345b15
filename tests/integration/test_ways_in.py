"""Every way to enqueue: handlers of every kind, code without an event loop, forked children."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from multiprocessing.connection import Connection

import pytest

from holdfast import Context, Status, TaskQueue
from holdfast.errors import (
    InvalidInput,
    NotRunning,
    NotSupported,
    QueueStopping,
    WaitTimeout,
    WrongLoop,
)
from scripts.queue_fronts import written
from tests.integration.ways_app import badly, greet, make

FORK = multiprocessing.get_context("fork")


def test_the_blocking_queue_is_written_from_the_queue() -> None:
    for path, text in written().items():
        assert path.read_text("utf-8") == text, "run python scripts/queue_fronts.py"


@pytest.mark.parametrize("kind", ["in_loop", "in_thread", "in_process"])
async def test_a_handler_of_every_kind_enqueues(url: str, kind: str) -> None:
    async with make(url) as queue:
        ids = await (await queue.enqueue(kind, {"name": "ann"})).result(60)
        tasks = [await queue.wait_task(task_id, 60) for task_id in ids]
        assert [task.result for task in tasks] == ["hello ann?", "hello ann!", "hello ann!"]
        assert [task.priority.name for task in tasks] == ["NORMAL", "HIGH", "LOW"]
        assert await queue.get_dependents(ids[0]) == sorted(ids[1:])


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_wrong_follow_ups_get_typed_errors(shared_url: str, isolation: str) -> None:
    wrong = {
        "argument": ("InvalidInput", "cannot be called like this"),
        "option": ("InvalidInput", "no option 'dealy'"),
        "task": ("InvalidInput", "3 is not a task type"),
        "type": ("UnknownType", "'unknown'"),
        "value": ("UnserialisablePayload", "argument 'name'"),
    }
    if isolation == "process":
        wrong["transaction"] = ("InvalidInput", "in its own transaction")
    queue = TaskQueue(shared_url)
    queue.task(name="greet")(greet.function)
    queue.task(name="badly", isolation="process" if isolation == "process" else "thread")(
        badly.function
    )
    async with queue:
        for how, (name, text) in wrong.items():
            found = await (await queue.enqueue("badly", {"how": how})).result(60)
            assert found[0] == name, found
            assert text in found[1]


async def test_a_handler_enqueues_while_its_worker_stops(url: str) -> None:
    """Its task is completed, and the new task waits for the next worker."""
    queue = TaskQueue(url)
    entered, go = asyncio.Event(), asyncio.Event()

    @queue.task
    async def last(n: int) -> int:
        return n

    async def first(ctx: Context) -> str:
        entered.set()
        await go.wait()
        return (await ctx.enqueue(last, 5)).id

    task = queue.task(first)
    await queue.start()
    handle = await task.enqueue()
    await entered.wait()
    stopping = asyncio.create_task(queue.stop())
    while True:
        try:
            await last.enqueue(1)
        except QueueStopping:
            break
    go.set()
    await stopping
    if url == "sqlite://":
        return  # The database has ended with the queue.
    async with queue:
        task_id = (await queue.wait_task(handle.id, 30)).result
        assert (await queue.wait_task(task_id, 30)).result == 5


def test_code_without_an_event_loop(shared_url: str) -> None:
    """Producer and operator calls, from several threads, with workers elsewhere in the process."""
    queue = make(shared_url)
    greeting = queue.task(name="greeting", max_attempts=1)(greet.function)
    handle = greeting.enqueue_sync("ann", mark=".")
    assert (handle.created, handle.status, handle.get().payload) == (
        True,
        Status.QUEUED,
        {"name": "ann", "mark": "."},
    )
    with pytest.raises(WaitTimeout):
        handle.result(timeout=0.01)
    with pytest.raises(InvalidInput, match="missing a required argument: 'name'"):
        greeting.enqueue_sync()
    with pytest.raises(NotSupported, match="in your transaction"):
        greeting.options(tx=object()).enqueue_sync("ann")
    with pytest.raises(NotSupported, match="in your transaction"):
        queue.sync.enqueue("greeting", {"name": "ann"}, tx=object())
    others = queue.sync.enqueue_many([greeting.request("bob"), greeting.request("eve")])
    assert queue.sync.get_queue_size() == 3
    assert queue.sync.cancel(others[1], reason="enough").status is Status.ABORTED
    assert greeting.options(delay=60).enqueue_sync("late").cancel().status is Status.ABORTED
    queue.sync.pause_queue(reason="test")
    assert [view.is_paused for view in queue.sync.get_queues()] == [True]
    queue.sync.resume_queue()
    kinds = [event.kind for event in queue.sync.events(follow=False)]
    assert kinds.count("task.enqueued") == 4
    found: list[str] = []

    def work() -> None:
        found.append(greeting.enqueue_sync("tom").result(30))

    threads = [threading.Thread(target=work) for _ in range(4)]

    async def serve() -> None:
        async with queue:
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join, 30)

    asyncio.run(serve())
    assert found == ["hello tom!"] * 4
    assert handle.result() == "hello ann."
    queue.sync.close()
    assert queue.sync.get_stats().completed == 6  # a later call opens it again
    queue.sync.close()
    queue.sync.close()


async def test_a_blocking_call_in_an_event_loop_is_refused(queue_url: str) -> None:
    queue = make(queue_url)
    greeting = queue.task(name="greeting")(greet.function)
    for call in (
        lambda: greeting.enqueue_sync("ann"),
        lambda: queue.sync.get_stats(),
        lambda: queue.sync.events(),
        lambda: queue.sync.close(),
    ):
        with pytest.raises(WrongLoop, match=r"await task\.enqueue"):
            call()
    await asyncio.to_thread(lambda: greeting.enqueue_sync("ann"))
    assert await queue.get_queue_size() == 1
    await asyncio.to_thread(queue.sync.close)
    await queue.stop()


@pytest.fixture
def queue_url(tmp_path: object) -> str:
    return f"sqlite:///{tmp_path}/queue.db"


async def test_a_producer_opens_and_closes_any_number_of_times(shared_url: str) -> None:
    queue = make(shared_url)
    greeting = queue.task(name="greeting")(greet.function)
    for _ in range(3):
        async with queue.producer() as producer:
            assert producer is queue
            assert not queue.is_running()
            async with queue.producer():
                await greeting.enqueue("ann")
            await greeting.enqueue("ann")
        with pytest.raises(NotRunning):
            await greeting.enqueue("ann")
    async with queue.producer():
        async with queue:
            assert queue.is_running()
        assert not queue.is_running()
        assert await queue.get_queue_size() <= 6
    async with queue:
        async with queue.producer():
            pass
        assert queue.is_running()
        assert await (await greeting.enqueue("bob")).result(30) == "hello bob!"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("used", [False, True])
def test_a_forked_child_enqueues(shared_url: str, used: bool) -> None:
    """As in a server that loads the application before it forks, with and without a call before."""
    queue = make(shared_url)
    greeting = queue.task(name="greeting")(greet.function)
    if used:
        greeting.enqueue_sync("parent")
    ours, theirs = FORK.Pipe()

    def work(pipe: Connection) -> None:
        pipe.send(greeting.enqueue_sync("child"))
        queue.sync.close()

    children = [FORK.Process(target=work, args=(theirs,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    names = {ours.recv() for _ in children}
    assert {type(name) for name in names} == {str}
    assert {queue.sync.get_task(name).payload["name"] for name in names} == {"child"}  # type: ignore[union-attr]
    assert greeting.enqueue_sync("parent").created
    assert queue.sync.get_queue_size() == (4 if used else 3)
    queue.sync.close()
