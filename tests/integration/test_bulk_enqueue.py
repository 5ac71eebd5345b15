"""`enqueue_many` of many tasks of one type: all or none, with the errors of a single enqueue."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.core.alike import FIRST_PART
from holdfast.errors import InvalidInput, QueueFull, UnserialisablePayload

LARGE = 3 * FIRST_PART
END_TRANSACTIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
"""
"""As the server does with a client that is silent for too long in a transaction."""


@dataclass
class Point:
    x: int


@dataclass
class Checked:
    x: int

    def __post_init__(self) -> None:
        if self.x % FIRST_PART == 0:
            self.slow()

    @staticmethod
    def slow() -> None:
        pass


def queue_of(url: str, **settings: Any) -> TaskQueue:
    queue = TaskQueue(url, **settings)

    @queue.task
    async def double(n: int = 0, at: Point | None = None, more: Any = None) -> int:
        return 2 * n + (at.x if at else 0)

    return queue


def requests(*payloads: object) -> list[dict[str, Any]]:
    return [{"type": "double", "payload": payload} for payload in payloads]


async def test_all_run_with_their_payloads(url: str) -> None:
    queue = queue_of(url)
    async with queue:
        payloads: list[Any] = [{"n": n} for n in range(LARGE)]
        payloads[LARGE - 1] = {"n": 1, "at": Point(5)}  # needs a conversion
        handles = await queue.enqueue_many(requests(*payloads))
        assert len(set(handles)) == LARGE
        assert [handle.created for handle in handles] == [True] * LARGE
        assert [await handles[n].result(timeout=30) for n in (0, 7, LARGE - 2, LARGE - 1)] == [
            0,
            14,
            2 * LARGE - 4,
            7,
        ]


@pytest.mark.parametrize("bad", [0, 1, FIRST_PART, LARGE - 1])
@pytest.mark.parametrize(
    ("payload", "error", "why"),
    [
        ({"m": 1}, InvalidInput, "'m'"),
        ({"n": "1"}, InvalidInput, "argument 'n'"),
        ({"more": [float("nan")]}, UnserialisablePayload, "nan"),
        (7, InvalidInput, "not an object"),
    ],
)
async def test_one_that_is_refused_leaves_nothing(
    url: str, bad: int, payload: Any, error: type[InvalidInput], why: str
) -> None:
    queue = queue_of(url, max_depth=LARGE)
    async with queue.producer():
        payloads: list[Any] = [{"n": n} for n in range(LARGE)]
        payloads[bad] = payload
        with pytest.raises(error, match=why):
            await queue.enqueue_many(requests(*payloads))
        assert await queue.get_queue_size() == 0
        # It does not count for the bound of the queue either.
        payloads[bad] = {"n": bad}
        assert len(await queue.enqueue_many(requests(*payloads))) == LARGE
        payloads[bad] = payload
        with pytest.raises(error, match=why):  # not QueueFull: the request must change in any case
            await queue.enqueue_many(requests(*payloads))
        payloads[bad] = {"n": bad}
        with pytest.raises(QueueFull):
            await queue.enqueue_many(requests(*payloads))
        assert await queue.get_queue_size() == LARGE
    await queue.stop()


async def test_checks_may_take_longer_than_the_server_waits(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The payloads of a part are checked while the server works on the one before. It ends a transaction
    whose client is busy for seconds."""
    queue = TaskQueue(pg_dsn)

    @queue.task
    async def plot(at: Checked) -> None:
        pass

    def end_now() -> None:
        thread = threading.Thread(target=lambda: asyncio.run(end_transactions(pg_dsn)))
        thread.start()
        thread.join()

    monkeypatch.setattr(Checked, "slow", staticmethod(end_now))

    async with queue.producer():
        payloads = [{"type": "plot", "payload": {"at": {"x": n}}} for n in range(50 * FIRST_PART)]
        assert len(await queue.enqueue_many(payloads)) == len(payloads)
        assert await queue.get_queue_size() == len(payloads)


async def end_transactions(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(END_TRANSACTIONS)
    await connection.close()
