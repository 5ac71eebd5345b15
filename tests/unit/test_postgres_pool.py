"""The connection pool: its counts are right, whichever caller gives up at whichever moment."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from holdfast.errors import NotFound, StoreBusy
from holdfast.store.port import Rank
from holdfast.store.postgres import connection as postgres, pool as pools, watch
from holdfast.store.postgres.direct import IS_KNOWN
from holdfast.store.postgres.pool import ConnectionPool

SIZE = 3


class Line:
    """A connection without a server."""

    def __init__(self) -> None:
        self.is_dead = False
        self.has_no_timer = False
        self.ended = asyncio.Event()

    def is_closed(self) -> bool:
        return self.is_dead

    def get_server_pid(self) -> int:
        return id(self)

    def is_in_transaction(self) -> bool:
        return False

    def terminate(self) -> None:
        self.is_dead = True
        self.ended.set()

    async def close(self, timeout: float) -> None:
        self.is_dead = True


class Lines:
    """Makes connections, slowly and not always; counts the live ones."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.made: list[Line] = []

    async def connect(self, _dsn: str) -> Line:
        await asyncio.sleep(0)
        if self._draw.random() < 0.1:
            raise OSError("no server")
        self.made.append(Line())
        return self.made[-1]

    @property
    def alive(self) -> int:
        return sum(not line.is_dead for line in self.made)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    lines = Lines(random.Random(1))
    monkeypatch.setattr(postgres, "connect", lines.connect)
    return lines


@pytest.mark.parametrize("seed", range(20))
async def test_every_waiter_is_served_within_the_limit(lines: Lines, seed: int) -> None:
    draw, pool, out = random.Random(seed), ConnectionPool("", SIZE), set[int]()

    async def use() -> None:
        connection: Any = await pool.take(rank=draw.choice(list(Rank)))
        out.add(id(connection))
        assert len(out) <= SIZE
        assert lines.alive <= SIZE
        error: BaseException | None = None
        try:
            for _ in range(draw.randrange(3)):
                await asyncio.sleep(0)
            error = draw.choice([None, None, OSError(), NotFound("refused"), ValueError()])
        except asyncio.CancelledError as cancelled:
            error = cancelled
            raise
        finally:
            out.discard(id(connection))
            pool.back(connection, error)

    for _ in range(20):
        users = [asyncio.create_task(use()) for _ in range(12)]
        for _ in range(draw.randrange(4)):
            await asyncio.sleep(0)
        for user in draw.sample(users, 5):
            user.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(*users, return_exceptions=True)
        assert [u.exception() for u in users if not u.cancelled() and not _is_fine(u)] == []
        idle = pool.take_idle()
        waiting = sum(map(len, pool._lines))
        assert (pool._free, waiting) == (SIZE if idle is None else SIZE - 1, 0)
        if idle is not None:
            pool.back(idle)
    await pool.close()
    assert lines.alive == 0


def _is_fine(user: asyncio.Task[None]) -> bool:
    return user.exception() is None or isinstance(user.exception(), OSError)


async def test_waiters_are_served_before_new_callers(lines: Lines) -> None:
    pool = ConnectionPool("", 1)
    first = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    pool.back(first)
    assert pool.take_idle() is None
    assert await waiting is first
    pool.back(first)
    assert pool.take_idle() is first
    pool.back(first)
    await pool.close()


async def test_the_oldest_connection_is_lent_first_however_it_comes_back(lines: Lines) -> None:
    pool = ConnectionPool("", SIZE)
    made = [await pool.take() for _ in range(SIZE)]
    for connection in (made[1], made[0], made[2]):
        pool.back_idle(connection)
    lent: list[Any] = [pool.take_idle() for _ in range(SIZE)]
    assert lent == made
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    pool.back_idle(lent[2])
    assert await waiting is lent[2]
    await pool.close()
    pool.back_idle(lent[0])
    assert lines.made[0].is_dead, "the pool was closed meanwhile"


async def test_a_statement_without_a_timer_is_ended_after_its_time(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.005)
    monkeypatch.setattr(postgres, "COMMAND_SECONDS", 0.02)
    pool = ConnectionPool("", SIZE)
    timed, untimed = [await pool.take() for _ in range(2)]
    lines.made[1].has_no_timer = True
    await asyncio.wait_for(lines.made[1].ended.wait(), 5)
    assert not lines.made[0].is_dead, "its own timer limits it"
    pool.back(timed)
    pool.back(untimed, OSError())
    await pool.close()


def test_the_version_of_asyncpg_is_known() -> None:
    """Otherwise an enqueue takes the longer way. Look at `direct.py` before you add one."""
    assert IS_KNOWN


async def test_callers_leave_an_engine_its_connections(lines: Lines) -> None:
    pool = ConnectionPool("", 5)
    engine = [await pool.take(rank=Rank.LOOPS) for _ in range(3)]
    callers = [await pool.take() for _ in range(2)]
    caller, late = (
        asyncio.create_task(pool.take(rank=rank)) for rank in (Rank.CALLERS, Rank.LOOPS)
    )
    await asyncio.sleep(0)
    pool.back(callers[0])
    engine.append(await late)  # Served first, although the caller came before.
    for each in engine[:3]:
        pool.back(each)  # The engine had four of five: with the first, the caller has its share.
    callers[0] = await caller
    assert pool.take_idle() is None
    assert pool.take_idle(rank=Rank.LOOPS) is not None
    pool.back(callers[0])
    assert pool.take_idle() is not None
    await pool.close()


async def test_the_oldest_idle_connection_is_taken(lines: Lines) -> None:
    pool = ConnectionPool("", 3)
    made = [await pool.take() for _ in range(3)]
    for n in (1, 0, 2):
        pool.back(made[n])
    for each in made:
        assert await pool.take() is each
    for each in made:
        pool.back(each)
    await pool.close()


@pytest.mark.parametrize(
    ("error", "is_kept"), [(None, True), (NotFound("no"), True), (OSError(), False)]
)
async def test_a_broken_connection_is_not_handed_out_again(
    lines: Lines, error: Exception | None, is_kept: bool
) -> None:
    pool = ConnectionPool("", 2)
    one, two = await pool.take(), await pool.take()
    pool.back(two)
    pool.back(one, error)
    # When one connection is dead, idle ones most likely are too.
    assert (lines.alive == 2) == is_kept
    await pool.close()


async def test_runners_leave_the_loops_their_connections_and_come_before_callers(
    lines: Lines,
) -> None:
    pool = ConnectionPool("", 5)
    pool.back(await pool.take(rank=Rank.LOOPS))
    callers = [await pool.take() for _ in range(2)]
    assert pool.take_idle() is None
    runner = await pool.take(rank=Rank.RUNNERS)
    caller, late = (
        asyncio.create_task(pool.take(rank=rank)) for rank in (Rank.CALLERS, Rank.RUNNERS)
    )
    loops = [await pool.take(rank=Rank.LOOPS) for _ in range(2)]
    assert not late.done()  # The last two were reserved.
    pool.back(callers[0])
    assert await late is callers[0]
    pool.back(runner)
    assert await caller is runner  # The loops have two, the runners one.
    for each in (callers[0], callers[1], runner, *loops):
        pool.back(each)
    await pool.close()


@pytest.mark.parametrize("rank", Rank)
async def test_the_wait_for_a_connection_has_a_limit(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, rank: Rank
) -> None:
    monkeypatch.setattr(pools, "WAIT_SECONDS", 0.01)
    pool = ConnectionPool("", 1)
    only = await pool.take()
    async with asyncio.timeout(5):
        with pytest.raises(StoreBusy, match="fewer calls at once"):
            await pool.take(rank=rank)
    pool.back(only)
    assert await pool.take(rank=rank) is only
    pool.back(only)
    await pool.close()


async def test_a_close_waits_once_for_a_server_that_does_not_answer(lines: Lines) -> None:
    pool = ConnectionPool("", SIZE)
    for connection in [await pool.take() for _ in range(SIZE)]:
        pool.back(connection)
    closing = 0
    all_closing = asyncio.Event()

    async def close(timeout: float) -> None:
        nonlocal closing
        closing += 1
        if closing == SIZE:
            all_closing.set()
        await all_closing.wait()

    for line in lines.made:
        line.close = close  # type: ignore[method-assign]
    await asyncio.wait_for(pool.close(), 30.0)
