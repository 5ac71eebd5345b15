"""Floor of the order store: raw SQLite inserts in batches, WAL and ``synchronous=FULL``.

A row has the bytes that one order has in Holdfast's log, under the same key; nothing is checked.
"""

from __future__ import annotations

import time

from holdfast.orders.logstore.log import record_line
from holdfast.orders.model.book import MemoryBook
from holdfast.orders.model.commands import Moment
from holdfast.orders.model.order import Side
from holdfast.orders.model.requests import place
from proof.bench.subjects.floor_sqlite import connect
from proof.lab.subject import Subject, main

SCHEMA = "create table orders (client_order_id text primary key, body text not null)"


class RawInserts(Subject):
    """As many rows per commit as there are callers."""

    def install(self) -> None:
        """Make the table."""
        connect(self.options.path).execute(SCHEMA)

    def open(self) -> None:
        """One connection."""
        self.conn = connect(self.options.path)

    def op_orders(self, n: int, callers: int) -> dict[str, float]:
        """The rows are prepared before the clock starts."""
        rows = [_row(number, number - number % callers) for number in range(n)]
        started = time.perf_counter()
        for start in range(0, n, callers):
            with self.conn:
                self.conn.executemany(
                    "insert into orders values (?, ?)", rows[start : start + callers]
                )
        return {"rate": n / (time.perf_counter() - started)}


def _row(number: int, first: int) -> tuple[str, str]:
    price = f"{number % 1000 + 1}.25"
    asked = place("BTCUSDT", Side.BUY, "0.5", price, idem_key=f"key-{number:08d}", epoch=None)
    verdict = asked.judge(MemoryBook(), Moment(1.8e9, "", "", number))
    assert verdict.change is not None
    return verdict.answer.client_order_id, record_line(number, verdict.change, first).decode()


if __name__ == "__main__":
    main(RawInserts)
