"""A process that makes idempotent calls, and may be killed at any statement.

    python -m tests.integration.ledger_app race URL JOURNAL KEYS
    python -m tests.integration.ledger_app crash URL JOURNAL MODE COUNT

`crash` forks COUNT children one after the other. The first is killed by SIGKILL at its first statement (BEGIN
and COMMIT count), the second at its second, and so on; how each ended is printed: -9, or 0 when it had
fewer statements. MODE: `outside` acts in a file, `inside` in a table of the same database and transaction.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import asyncpg

from holdfast.primitives.idempotency import BlockingLedger, EntryLease, Ledger
from tests.acceptance.apps import journal

LEASE_SECONDS = 0.2
REQUEST = {"amount": 5}


def act_outside(path: str, lease: EntryLease) -> str:
    """An external system that stores effects by id; later attempts ask it first."""
    if lease.attempt > 1 and any(entry.task_id == lease.id for entry in journal.read(path)):
        return f"charged {lease.entry_key.key}"
    journal.write(path, "acted", lease.id, lease.entry_key.key)
    return f"charged {lease.entry_key.key}"


# -- race --------------------------------------------------------------------------------------------------


def race(url: str, path: str, keys: str) -> None:
    """Four threads go through the keys in different orders, and wait for each other's answers."""

    def act(lease: EntryLease) -> str:
        journal.write(path, "acted", lease.id, lease.entry_key.key)
        return f"charged {lease.entry_key.key}"

    with BlockingLedger.connect(url) as ledger, ThreadPoolExecutor(4) as pool:
        ledger.prune()
        print("ready", flush=True)
        sys.stdin.readline()
        names = [f"key-{n}" for n in range(int(keys))]

        def go(shift: int) -> list[str]:
            turned = names[shift:] + names[:shift]
            return [ledger.run("acct", "charge", key, key, act, wait=30.0) for key in turned]

        for answers in pool.map(go, (0, 3, 5, 7)):
            assert sorted(answers) == sorted(f"charged {key}" for key in names)
    print("done", flush=True)


# -- crash -------------------------------------------------------------------------------------------------


class Countdown:
    def __init__(self) -> None:
        self.left = -1

    def tick(self) -> None:
        if self.left > 0:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def count_statements(countdown: Countdown) -> None:
    """Every statement of every connection of this process, those of the driver included."""

    def trace(_cursor: object, _text: str, _bindings: object) -> bool:
        countdown.tick()
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    plain = asyncpg.connect

    async def connect(*args: Any, **options: Any) -> Any:
        connection = await plain(*args, **options)
        connection.add_query_logger(lambda _query: countdown.tick())
        return connection

    asyncpg.connect = connect


def crash(url: str, path: str, mode: str, count: str) -> None:
    """Forks before any thread or event loop exists."""
    for nth in range(1, int(count) + 1):
        child = os.fork()
        if child == 0:
            asyncio.run(call_and_die(url, path, mode, nth))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


async def call_and_die(url: str, path: str, mode: str, nth: int) -> None:
    countdown = Countdown()
    count_statements(countdown)
    key = f"{mode}-{nth}"
    async with Ledger.connect(url, lease_seconds=LEASE_SECONDS) as ledger:
        tx = await connected(url) if mode == "inside" else None
        countdown.left = nth
        if tx is not None:
            await call_inside(ledger, tx, key)
        else:
            await call_outside(ledger, path, key)


async def call_outside(ledger: Ledger, path: str, key: str) -> Any:
    async def effect(lease: EntryLease) -> str:
        return act_outside(path, lease)

    return await ledger.run("acct", "charge", key, REQUEST, effect, wait=10.0)


async def connected(url: str) -> Any:
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        return connection
    return await asyncpg.connect(url)


async def call_inside(ledger: Ledger, tx: Any, key: str) -> Any:
    if isinstance(tx, apsw.Connection):

        async def write(lease: EntryLease) -> str:
            tx.execute("INSERT INTO charges VALUES (?)", (key,))
            return f"charged {key}"

        tx.execute("BEGIN IMMEDIATE")
        answer = await ledger.run("acct", "charge", key, REQUEST, write, tx=tx)
        tx.execute("COMMIT")
        return answer

    async def insert(lease: EntryLease) -> str:
        await tx.execute("INSERT INTO charges VALUES ($1)", key)
        return f"charged {key}"

    async with tx.transaction():
        return await ledger.run("acct", "charge", key, REQUEST, insert, tx=tx)


if __name__ == "__main__":
    if sys.argv[1] == "race":
        race(*sys.argv[2:])
    else:
        crash(*sys.argv[2:])
