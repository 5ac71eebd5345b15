"""Holdfast's durable order store: orders placed by many callers, each acknowledged after its sync."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Side
from holdfast.primitives.kv import RedisKV
from proof.lab.subject import Subject, main


class Orders(Subject):
    """A log, snapshots and the view in a memory KV, in a new directory."""

    def open(self) -> None:
        """Takes the directory."""
        self.store = DurableOrderStore(RedisKV(), Path(self.options.path).with_suffix(".state"))

    def close(self) -> None:
        """Frees it."""
        self.store.close()

    async def op_orders(self, n: int, callers: int) -> dict[str, float]:
        """Callers that place one order after another; each has its own key."""
        numbers = iter(range(n))

        async def caller() -> None:
            for number in numbers:
                await self.store.aio.place_order(
                    "BTCUSDT", Side.BUY, "0.5", f"{number % 1000 + 1}.25", f"key-{number:08d}"
                )

        begun = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        seconds = time.perf_counter() - begun
        assert len(self.store.orders()) == n
        return {"rate": n / seconds}


if __name__ == "__main__":
    main(Orders)
