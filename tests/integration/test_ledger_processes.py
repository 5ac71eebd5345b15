"""Concurrent processes, and processes killed at every statement: one effect for each key."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast.primitives.idempotency import Answered, Ledger, State
from proof.lab.processes import start_module
from tests.acceptance.apps import journal
from tests.acceptance.apps.harness import SECONDS
from tests.integration.ledger_app import (
    LEASE_SECONDS,
    call_inside,
    call_outside,
    connected,
)

KEYS = 12
PROCESSES = 3
STATEMENTS_MAX = 8


async def start(*arguments: object) -> asyncio.subprocess.Process:
    return await start_module("tests.integration.ledger_app", *arguments)


async def test_concurrent_processes_have_one_effect_for_each_key(
    shared_url: str, runs: str
) -> None:
    """Three processes with four threads each; later callers wait for the answer."""
    racers = [await start("race", shared_url, runs, KEYS) for _ in range(PROCESSES)]
    async with asyncio.timeout(4 * SECONDS):
        for racer in racers:
            assert racer.stdout is not None
            assert await racer.stdout.readline() == b"ready\n"
        said = await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers))
    assert [out for out, _ in said] == [b"done\n"] * PROCESSES
    acted = Counter(entry.note for entry in journal.read(runs))
    assert acted == Counter({f"key-{n}": 1 for n in range(KEYS)})


@pytest.mark.parametrize("mode", ["outside", "inside"])
async def test_a_caller_killed_at_any_statement_acts_once(
    shared_url: str, runs: str, mode: str
) -> None:
    """kill -9 at the first statement of the call, at the second, and so on until it completes."""
    await make_table(shared_url)
    async with Ledger.connect(shared_url, lease_seconds=LEASE_SECONDS) as ledger:
        await ledger.prune()
        crashing = await start("crash", shared_url, runs, mode, STATEMENTS_MAX)
        async with asyncio.timeout(4 * SECONDS):
            out, _ = await crashing.communicate()
        ends = out.decode().split()
        killed = ends.count("-9")
        assert ends == ["-9"] * killed + ["0"] * (STATEMENTS_MAX - killed)
        assert 4 <= killed < STATEMENTS_MAX, "each statement of the call, and no fewer than it has"
        states: Counter[State | None] = Counter()
        for nth in range(1, STATEMENTS_MAX + 1):
            key = f"{mode}-{nth}"
            entry = await ledger.get("acct", "charge", key)
            states[None if entry is None else entry.state] += 1
            assert await recover(ledger, shared_url, runs, mode, key) == f"charged {key}"
            assert await effects(shared_url, runs, mode, key) == 1
            done = await ledger.get("acct", "charge", key)
            assert done is not None
            assert done.state is State.DONE
        assert states[None] > 0
        assert states[State.DONE] > 0
        if mode == "outside":
            assert states[State.IN_PROGRESS] > 0
        else:
            assert states[State.IN_PROGRESS] == 0, "within a transaction there is nothing between"


async def make_table(url: str) -> None:
    connection = await connected(url)
    creating = connection.execute("CREATE TABLE charges (key text)")
    if not isinstance(connection, apsw.Connection):
        await creating
    await closed(connection)


async def recover(ledger: Ledger, url: str, path: str, mode: str, key: str) -> Any:
    if mode == "outside":
        return await call_outside(ledger, path, key)
    connection = await connected(url)
    try:
        return await call_inside(ledger, connection, key)
    finally:
        await closed(connection)


async def effects(url: str, path: str, mode: str, key: str) -> int:
    if mode == "outside":
        return sum(entry.note == key for entry in journal.read(path))
    connection = await connected(url)
    if isinstance(connection, apsw.Connection):
        rows = connection.execute("SELECT count(*) FROM charges WHERE key = ?", (key,)).fetchall()
        count = int(str(rows[0][0]))
    else:
        count = await connection.fetchval("SELECT count(*) FROM charges WHERE key = $1", key)
    await closed(connection)
    return count


async def closed(connection: apsw.Connection | asyncpg.Connection[asyncpg.Record]) -> None:
    if isinstance(connection, apsw.Connection):
        connection.close()
    else:
        await connection.close()


async def test_a_request_is_the_same_in_every_process(tmp_path: Path) -> None:
    """The fingerprint and the id do not depend on the process that makes them."""
    url, path = f"sqlite:///{tmp_path}/one.db", str(tmp_path / "runs")
    racer = await start("race", url, path, 1)
    await racer.communicate(b"go\n")
    async with Ledger.connect(url) as ledger:
        replay = await ledger.begin("acct", "charge", "key-0", "key-0")
    assert isinstance(replay, Answered)
    assert [line.task_id for line in journal.read(path)] == [replay.entry.id]
