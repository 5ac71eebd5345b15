"""Orders in PostgreSQL: callers that lock many orders lock them in one order, so they never deadlock."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import asyncpg

from holdfast.orders.sqlstore.blocking import SqlOrderStore
from tests.looks import look_again

LINE = {"symbol": "BTCUSDT", "side": "BUY", "qty": "1", "price": "100", "state": "OPEN"}
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
FREE = "SELECT client_order_id FROM holdfast_order ORDER BY 1 FOR UPDATE SKIP LOCKED"


async def test_cancel_all_locks_by_name_like_every_other_call(pg_dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    lines = [json.dumps({"client_order_id": name, **LINE}) for name in ("z", "m", "a")]
    path.write_text("\n".join(lines))
    store = await asyncio.to_thread(SqlOrderStore, pg_dsn)
    assert await asyncio.to_thread(store.import_orders_jsonl, path) == 3
    one, two = await asyncpg.connect(pg_dsn), await asyncpg.connect(pg_dsn)
    canceled: list[str] = []
    thread = threading.Thread(target=lambda: canceled.extend(store.cancel_all_open()))
    async with one.transaction():
        await one.execute("SELECT 1 FROM holdfast_order WHERE client_order_id = 'm' FOR UPDATE")
        thread.start()
        while not await two.fetchval(WAITING):
            await look_again()
        async with two.transaction():
            free = [row[0] for row in await two.fetch(FREE)]
    assert free == ["z"], "a was locked before it waited for m"
    await asyncio.to_thread(thread.join)
    assert canceled == ["z", "m", "a"], "oldest first"
    await asyncio.to_thread(store.close)
    await one.close()
    await two.close()
