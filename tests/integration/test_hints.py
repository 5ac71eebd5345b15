"""Hints through PostgreSQL arrive after their change is visible."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast import Task, TaskQueue
from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED, WORK, Notification, is_of_one
from holdfast.bus.postgres import (
    AT_ONCE,
    CHANNEL,
    PENDING_MAX,
    QUIET_SECONDS,
    WORK_CHANNEL,
    PostgresBus,
)
from holdfast.clock import SystemClock, VirtualClock
from holdfast.queue.session import Resources


@pytest.fixture
async def queue(pg_dsn: str) -> AsyncIterator[TaskQueue]:
    worker, queue = TaskQueue(pg_dsn), TaskQueue(pg_dsn)

    async def work(task: Task) -> None:
        return

    worker.register_handler("work", work)
    async with worker:
        pass  # The type is known to the store now.
    await queue.open()
    yield queue
    await queue.stop()


@pytest.fixture
async def heard(pg_dsn: str) -> AsyncIterator[asyncio.Event]:
    """Set when a hint about work arrives."""
    event = asyncio.Event()

    def receive(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        if str(payload).startswith(WORK):
            event.set()

    listener = await asyncpg.connect(pg_dsn)
    await listener.add_listener(WORK_CHANNEL, receive)
    yield event
    await listener.close()


async def test_a_hint_outside_the_transaction_follows_the_commit(
    queue: TaskQueue, heard: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = await queue.open()
    let_none_ride(resources, monkeypatch)
    done: list[str] = []
    landed, insert = resources.bus.committed, resources.store.insert

    async def inserting(*args: Any, **kwargs: Any) -> Any:
        found = await insert(*args, **kwargs)
        done.append("committed")
        return found

    def landing(ride: Notification) -> None:
        done.append(f"{ride.topic} '{ride.hint}'")
        landed(ride)

    monkeypatch.setattr(resources.store, "insert", inserting)
    monkeypatch.setattr(resources.bus, "committed", landing)
    await queue.enqueue("work")
    async with asyncio.timeout(10):
        await heard.wait()
    assert done == ["committed", "work ''"]


def let_none_ride(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many NOTIFYs a moment ago: the next enqueue has no hint in its transaction, unless it must."""
    monkeypatch.setattr("holdfast.bus.postgres.QUIET_SECONDS", 1e9)
    while resources.bus.notify_in_tx(WORK).hint:
        pass


async def test_an_enqueue_in_a_transaction_has_its_hint_inside(
    queue: TaskQueue, heard: asyncio.Event, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the caller knows when it commits, so no hint may be sent before or after."""
    resources = await queue.open()
    let_none_ride(resources, monkeypatch)
    hints: list[str] = []
    insert = resources.store.insert

    async def inserting(*args: Any, hint: str, **kwargs: Any) -> Any:
        hints.append(hint)
        return await insert(*args, hint=hint, **kwargs)

    monkeypatch.setattr(resources.store, "insert", inserting)
    connection = await asyncpg.connect(pg_dsn)
    async with connection.transaction():
        await queue.enqueue("work", tx=connection)
        await queue.enqueue_many([{"type": "work"}], tx=connection)
    async with asyncio.timeout(10):
        await heard.wait()
    assert hints == [WORK, WORK]
    await connection.close()


@pytest.mark.parametrize("last", ["at once", "behind another", "owed to a commit"])
async def test_a_stop_sends_the_hints_that_are_left(
    pg_dsn: str, heard: asyncio.Event, last: str
) -> None:
    """A script or a command ends right after its change: a worker must not wait for its poll."""
    bus = PostgresBus(pg_dsn, SystemClock(), "me")
    await bus.start()
    match last:
        case "at once":
            bus.publish(WORK)
        case "behind another":
            echo, first = await asyncpg.connect(pg_dsn), asyncio.Event()
            await echo.add_listener(CHANNEL, lambda *_: first.set())
            bus.publish(FEED)
            await asyncio.wait_for(first.wait(), 10)
            bus.publish(WORK)
            await echo.close()
        case _:
            bus.committed(Notification(WORK, "", 0.0))
    await bus.stop()
    await asyncio.wait_for(heard.wait(), 10)


SCRIPT = """
import sys
from holdfast import TaskQueue

queue = TaskQueue(sys.argv[1])
queue.sync.pause_queue()
queue.sync.resume_queue()  # Its hint waits behind that of the pause.
"""


async def test_a_script_that_ends_without_a_close_sends_its_hints(
    pg_dsn: str, heard: asyncio.Event
) -> None:
    script = await asyncio.create_subprocess_exec(sys.executable, "-c", SCRIPT, pg_dsn)
    assert await script.wait() == 0
    await asyncio.wait_for(heard.wait(), 10)


async def test_a_process_without_workers_gets_no_hint_per_enqueue(
    queue: TaskQueue, heard: asyncio.Event, pg_dsn: str
) -> None:
    received: list[str] = []
    last = asyncio.Event()
    resources = await queue.open()

    def receive(topic: str) -> None:
        received.append(topic)
        last.set()

    resources.bus.subscribe(receive, FEED)
    hinted: list[str] = []
    LocalBus.subscribe(resources.bus, hinted.append)  # type: ignore[arg-type]
    await queue.enqueue("work")
    other = await asyncpg.connect(pg_dsn)
    async with asyncio.timeout(10):
        await heard.wait()
        await other.execute("SELECT pg_notify($1, $2)", CHANNEL, FEED)  # Arrives after all others.
        await last.wait()
    await other.close()
    # A process gets its own hints at once; over the wire only the last one comes.
    assert (received, hinted.count(WORK)) == ([FEED], 0)


async def test_a_listener_gets_only_its_topics() -> None:
    bus, some, every = LocalBus(), list[str](), list[str]()
    bus.subscribe(some.append, FEED)
    end = bus.subscribe(every.append)
    bus.publish(FEED)
    bus.publish(WORK)
    end()
    bus.publish(FEED)
    assert (some, every) == ([FEED, FEED], [FEED, WORK])


@pytest.fixture
def bus() -> tuple[PostgresBus, VirtualClock]:
    """Not connected: its messages collect in the outbox."""
    clock = VirtualClock()
    return PostgresBus("postgresql://nowhere", clock, "me"), clock


def test_notifications_that_are_never_committed_expire(
    bus: tuple[PostgresBus, VirtualClock],
) -> None:
    sender, clock = bus
    for _ in range(PENDING_MAX + 10):
        clock.set(clock.now() + 1.0)
        assert sender.notify_in_tx(WORK).hint
    assert len(sender._pending) == PENDING_MAX


def test_hints_inside_transactions_are_limited_after_a_burst(
    bus: tuple[PostgresBus, VirtualClock],
) -> None:
    sender, clock = bus
    clock.set(clock.now() + 1.0)
    burst = [bool(sender.notify_in_tx(WORK).hint) for _ in range(2 * AT_ONCE)]
    assert burst == [True] * AT_ONCE + [False] * AT_ONCE
    stream = []
    for _ in range(100):
        clock.set(clock.now() + QUIET_SECONDS / 4)
        stream.append(bool(sender.notify_in_tx(WORK).hint))
    assert sum(stream) == 25
    clock.set(clock.now() + 1.0)
    assert [is_of_one(sender.notify_in_tx(WORK, one=one).hint) for one in (True, False)] == [
        *(True, False)
    ]


def shares(
    bus: tuple[PostgresBus, VirtualClock], took: float, pause: float, n: int = 200
) -> tuple[float, float]:
    """One commit after the other, where one with a hint takes this long and one without a millisecond. The
    shares of the commits and of the time that have a hint."""
    sender, clock = bus
    hinted: list[float] = []
    for _ in range(n):
        ride = sender.notify_in_tx(WORK, one=True)
        seconds = took if ride.hint else 0.001
        hinted.append(took if ride.hint else 0.0)
        clock.set(clock.now() + seconds)
        if ride.hint:
            sender.committed(ride)
        clock.set(clock.now() + pause)
    started_at = VirtualClock().now()
    return sum(map(bool, hinted)) / n, sum(hinted) / (clock.now() - started_at)


def test_commits_with_a_hint_that_take_long_become_rare(
    bus: tuple[PostgresBus, VirtualClock],
) -> None:
    """PostgreSQL executes one commit with a NOTIFY at a time: with eight processes and a disk that syncs in
    5 ms each takes 40 ms. A process that only wrote such commits would hold up all."""
    commits, time = shares(bus, took=0.04, pause=0.0)
    assert commits < 0.1
    assert 0.4 < time < 0.6


def test_a_process_that_rests_hints_at_every_commit(bus: tuple[PostgresBus, VirtualClock]) -> None:
    assert shares(bus, took=0.02, pause=0.05)[0] == 1.0


def test_a_single_slow_commit_costs_no_hint(bus: tuple[PostgresBus, VirtualClock]) -> None:
    sender, clock = bus
    for took in (0.005, 2.0, 0.005, 0.005):
        ride = sender.notify_in_tx(WORK, one=True)
        assert ride.hint
        clock.set(clock.now() + took)
        sender.committed(ride)


@pytest.mark.parametrize("first", ["lands", "comes back", "comes back only"])
def test_a_hint_inside_a_transaction_is_received_once(
    bus: tuple[PostgresBus, VirtualClock], first: str
) -> None:
    """Its own hints come back over the wire: also when the caller gave up before they were committed."""
    sender, _ = bus
    heard: list[str] = []
    LocalBus.subscribe(sender, heard.append, WORK)
    ride = sender.notify_in_tx(WORK, one=True)
    for way in {"lands": "lb", "comes back": "bl", "comes back only": "b"}[first]:
        if way == "l":
            sender.committed(ride)
        else:
            sender._receive(None, 1, WORK_CHANNEL, ride.hint)
    assert [is_of_one(hint) for hint in heard] == [True]
    sender._receive(None, 1, WORK_CHANNEL, sender.notify_in_tx(WORK, must=True).hint)
    other = PostgresBus("postgresql://nowhere", VirtualClock(), "another")
    sender._receive(None, 1, WORK_CHANNEL, other.notify_in_tx(WORK).hint)
    assert [hint.split(" ")[0] for hint in heard] == [WORK] * 3
    assert [is_of_one(hint) for hint in heard] == [True, False, False]


@pytest.mark.parametrize("later", ["lands", "began before", "is lost", "is not there"])
async def test_a_hint_follows_unless_a_later_one_covers_it(
    bus: tuple[PostgresBus, VirtualClock], later: str
) -> None:
    """A notification that started before this commit may also have committed before it."""
    sender, clock = bus
    clock.set(clock.now() + 1.0)
    before = sender.notify_in_tx(WORK)
    clock.set(clock.now() + 0.001)
    since = clock.monotonic()
    sender.committed(Notification(WORK, "", since))
    timer = sender._follow
    assert timer is not None
    clock.set(clock.now() + 0.001)
    match later:
        case "lands":
            sender.committed(sender.notify_in_tx(WORK))
        case "began before":
            sender.committed(before)
        case "is lost":
            sender.notify_in_tx(WORK)
        case _:
            pass
    timer.cancel()
    sender._follow_up(WORK, since)
    assert sender._outbox == (set() if later == "lands" else {WORK})
    await sender.stop()


async def test_a_hint_follows_the_commits_behind_the_one_that_covered_those_before(
    bus: tuple[PostgresBus, VirtualClock],
) -> None:
    """The last commit of a burst has no hint, and the hint before it came too early for it."""
    sender, clock = bus
    clock.set(clock.now() + 1.0)
    since = clock.monotonic()
    sender.committed(Notification(WORK, "", since))
    clock.set(clock.now() + 0.001)
    covering = sender.notify_in_tx(WORK)
    sender.committed(covering)
    clock.set(clock.now() + 0.001)
    sender.committed(Notification(WORK, "", clock.monotonic()))
    assert sender._follow is not None
    sender._follow.cancel()
    sender._follow_up(WORK, since)
    assert sender._outbox == set(), "it may be covered until its time is over"
    assert sender._follow is not None
    sender._follow.cancel()
    sender._follow_up(WORK, covering.began)
    assert sender._outbox == {WORK}
    await sender.stop()


async def test_no_hint_follows_a_stream_whose_hints_cover_its_commits(
    bus: tuple[PostgresBus, VirtualClock],
) -> None:
    sender, clock = bus
    clock.set(clock.now() + 1.0)
    since = clock.monotonic()
    for _ in range(50):
        sender.committed(Notification(WORK, "", clock.monotonic()))
        clock.set(clock.now() + 0.001)
        covering = sender.notify_in_tx(WORK, must=True)
        sender.committed(covering)
        assert sender._follow is not None
        sender._follow.cancel()
        sender._follow_up(WORK, since)
        since = covering.began
    assert (sender._outbox, sender._follow) == (set(), None)
    await sender.stop()
