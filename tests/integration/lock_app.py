"""A process that holds a lock and writes under its fence on request.

    python -m tests.integration.lock_app URL RESOURCE TTL

Says `held FENCE`; then, for each line on stdin, makes one guarded write and says `written` or `refused`.
"""

from __future__ import annotations

import asyncio
import sys

import apsw
import asyncpg

from holdfast.errors import LeaseLost
from holdfast.primitives.locks import Lease, Locks
from holdfast.store.backends import sqlite_path

TABLE = "CREATE TABLE IF NOT EXISTS protected (who text NOT NULL, fence bigint NOT NULL)"


async def guarded_write(url: str, lease: Lease, who: str) -> None:
    """Writes one row in the transaction that checks the fence."""
    row = (who, lease.fence)
    if url.startswith("sqlite:"):
        file = apsw.Connection(sqlite_path(url))
        file.set_busy_timeout(10_000)
        file.execute("BEGIN IMMEDIATE")
        try:
            await lease.guard(file)
            file.execute("INSERT INTO protected VALUES (?, ?)", row)
            file.execute("COMMIT")
        finally:
            file.close()
        return
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await lease.guard(connection)
            await connection.execute("INSERT INTO protected VALUES ($1, $2)", *row)
    finally:
        await connection.close()


async def run_sql(url: str, text: str) -> list[tuple[object, ...]]:
    if url.startswith("sqlite:"):
        file = apsw.Connection(sqlite_path(url))
        file.set_busy_timeout(10_000)
        try:
            return [tuple(row) for row in file.execute(text)]
        finally:
            file.close()
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(text)]
    finally:
        await connection.close()


async def main(url: str, resource: str, ttl: float) -> None:
    async with Locks.connect(url) as locks:
        lease = await locks.acquire(resource, ttl=ttl, wait=0)
        print("held", lease.fence, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            try:
                await guarded_write(url, lease, "child")
                print("written", flush=True)
            except LeaseLost:
                print("refused", flush=True)
                await lease.lost.wait()
                print("lost", lease.lost.reason, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
