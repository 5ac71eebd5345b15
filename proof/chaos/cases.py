"""The cases: the fault of each, and the stores that it applies to.

A function calls `stage.strike()` when its fault begins and `stage.heal()` when it is over.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from proof.chaos.plan import LEASE_SECONDS
from proof.chaos.stage import Stage
from proof.chaos.stores import PostgresStore

POSTGRES = frozenset({"postgres"})
SERVERS = POSTGRES | {"redis"}
EVERYWHERE = SERVERS | {"sqlite"}
HOLDFAST = frozenset({"holdfast-pg", "holdfast-sqlite"})

DOWN_SECONDS = 1.0
CUT_SECONDS = 5.0
SLOW_SECONDS = 8.0
LATENCY_SECONDS = 0.1
BYTES_PER_SECOND = 256 * 1024
FULL_SECONDS = 8.0
REFILL_SECONDS = 0.2
STOPPED_BEYOND_SECONDS = 4.0
OPEN_BEYOND_SECONDS = 2.0
KILLS = 10
LOST_ANSWERS = 20
LOST_APART_SECONDS = 0.25
TIME_LIMIT = "5ms"
"""Shorter than a commit or a wait for a row may take."""


async def nothing(_stage: Stage) -> None:
    """The cleanup of most cases: nothing."""


@dataclass(frozen=True)
class Case:
    """A named fault."""

    name: str
    title: str
    stores: frozenset[str]
    strike: Callable[[Stage], Awaitable[None]]
    clean_up: Callable[[Stage], Awaitable[None]] = nothing
    """Cleanup after the load."""
    needs_proxy: bool = False
    needs_small_disk: bool = False
    subjects: frozenset[str] = frozenset()
    """The subjects that take part; empty: all."""
    is_burst: bool = False
    """Whether draining takes long."""


async def restart(stage: Stage) -> None:
    """The server crashes under load and is started again a second later."""
    stage.strike()
    stage.store.crash()
    await asyncio.sleep(DOWN_SECONDS)
    stage.store.start_again()
    stage.heal()


async def kill_once(stage: Stage) -> None:
    """Every connection to the server is killed, once."""
    stage.strike()
    stage.notes["connections_killed"] = await stage.store.kill_connections()
    stage.heal()


async def kill_repeatedly(stage: Stage) -> None:
    """Every connection to the server is killed, each second for ten seconds."""
    stage.strike()
    killed = 0
    for _ in range(KILLS):
        killed += await stage.store.kill_connections()
        await asyncio.sleep(1.0)
    stage.notes["connections_killed"] = killed
    stage.heal()


async def old_reader(stage: Stage) -> None:
    """A reader holds its snapshot while thousands of jobs come and go, so no dead row can be removed. The
    rate is measured while it still holds the snapshot."""
    assert isinstance(stage.store, PostgresStore)
    stage.strike()
    await stage.store.hold_snapshot()
    stage.call("burst", n=stage.plan.churn)
    stage.heal()


async def end_reader(stage: Stage) -> None:
    assert isinstance(stage.store, PostgresStore)
    await stage.store.let_snapshot_go()


async def burst(stage: Stage) -> None:
    """A burst of jobs on top of the steady load."""
    stage.strike()
    stage.call("burst", n=stage.plan.burst)
    stage.heal()


async def worker_kill(stage: Stage) -> None:
    """One of two workers is killed with jobs running, and not started again."""
    stage.strike()
    stage.workers[0].kill()
    stage.removed += 1
    stage.heal()


async def zombie(stage: Stage) -> None:
    """One of two workers is stopped with jobs running for longer than its lease, and then continued."""
    stage.strike()
    stage.workers[0].signal(signal.SIGSTOP)
    await asyncio.sleep(LEASE_SECONDS + STOPPED_BEYOND_SECONDS)
    stage.workers[0].signal(signal.SIGCONT)
    stage.heal()


async def disk_full(stage: Stage) -> None:
    """The disk of the store is full for some seconds. The ballast file also takes space that is freed
    meanwhile. A server that gave up is started again after the disk has room."""
    stage.strike()
    for _ in range(int(FULL_SECONDS / REFILL_SECONDS)):
        stage.disk.fill()
        await asyncio.sleep(REFILL_SECONDS)
    stage.disk.free()
    if not stage.store.is_up():
        stage.notes["server_gave_up"] = 1
        stage.store.start_again()
    stage.heal()


async def cut(stage: Stage) -> None:
    """The network between workers and server is cut for some seconds: RST, new connections refused."""
    stage.strike()
    stage.notes["connections_cut"] = stage.proxy.links
    stage.proxy.cut()
    await asyncio.sleep(CUT_SECONDS)
    stage.proxy.heal()
    stage.heal()


async def half_open(stage: Stage) -> None:
    """All connections of the workers go silent and stay open; new ones work."""
    stage.strike()
    stage.notes["connections_frozen"] = stage.proxy.links
    stage.proxy.freeze()
    stage.heal()


async def slow(stage: Stage) -> None:
    """The network between workers and server is slow for some seconds: latency and low bandwidth."""
    stage.strike()
    stage.proxy.slow(latency_seconds=LATENCY_SECONDS, bytes_per_second=BYTES_PER_SECOND)
    await asyncio.sleep(SLOW_SECONDS)
    stage.proxy.heal()
    stage.heal()


async def answer_lost(stage: Stage) -> None:
    """Repeatedly, a statement of a worker reaches the server, which commits it; then the connection is
    reset before the answer arrives."""
    stage.strike()
    for _ in range(LOST_ANSWERS):
        stage.proxy.lose_answer()
        await asyncio.sleep(LOST_APART_SECONDS)
    stage.notes["answers_lost"] = stage.proxy.swallowed
    stage.heal()


async def open_transaction(stage: Stage) -> None:
    """A caller enqueues in its own transaction, which holds a limit and has running jobs as parents. The
    transaction stays open for longer than a lease."""
    stage.strike()
    stage.notes |= stage.call("hold", seconds=LEASE_SECONDS + OPEN_BEYOND_SECONDS)
    stage.heal()


async def isolation(stage: Stage) -> None:
    """The database makes serializable the default isolation of all sessions."""
    await _set_for_all(stage, default_transaction_isolation="serializable")


async def time_limits(stage: Stage) -> None:
    """The database limits statements and idle transactions to a few milliseconds."""
    await _set_for_all(
        stage, statement_timeout=TIME_LIMIT, idle_in_transaction_session_timeout=TIME_LIMIT
    )


async def _set_for_all(stage: Stage, **settings: str) -> None:
    assert isinstance(stage.store, PostgresStore)
    stage.strike()
    stage.notes["connections_killed"] = await stage.store.set_for_all(**settings)
    stage.heal()


CASES: tuple[Case, ...] = (
    Case("restart", "server crashed and started again", SERVERS, restart),
    Case("kill-once", "all connections killed once", SERVERS, kill_once),
    Case(
        "kill-repeatedly", "all connections killed each second, 10 times", SERVERS, kill_repeatedly
    ),
    Case(
        "old-reader",
        "idle-in-transaction reader holds an old snapshot",
        POSTGRES,
        old_reader,
        end_reader,
    ),
    Case("burst", "burst on top of a steady load", EVERYWHERE, burst, is_burst=True),
    Case("worker-kill", "worker kill -9, not restarted", EVERYWHERE, worker_kill),
    Case("zombie", "worker stopped beyond its lease, then continued", EVERYWHERE, zombie),
    Case("disk-full", "disk of the store full", EVERYWHERE, disk_full, needs_small_disk=True),
    Case("cut", "network cut (RST) between workers and server", SERVERS, cut, needs_proxy=True),
    Case("half-open", "connections go silent but stay open", SERVERS, half_open, needs_proxy=True),
    Case("slow", "network slow: 100 ms and 256 KiB/s", SERVERS, slow, needs_proxy=True),
    Case(
        "answer-lost",
        "commits whose answers are lost with their connections",
        POSTGRES,
        answer_lost,
        needs_proxy=True,
    ),
    Case(
        "open-transaction",
        "a caller's transaction with an enqueue stays open",
        POSTGRES,
        open_transaction,
        subjects=HOLDFAST,
    ),
    Case(
        "isolation",
        "the database's default isolation becomes serializable",
        POSTGRES,
        isolation,
    ),
    Case(
        "time-limits",
        "the database's time limits become a few milliseconds",
        POSTGRES,
        time_limits,
        subjects=HOLDFAST,
    ),
)
