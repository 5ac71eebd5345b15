"""The tasks of the sample: a shop that sends mail, ships orders, imports its catalogue and closes its months.

Promises: a handler runs for a few seconds at most, except the import, which goes on from its checkpoint.
What fails here fails as it would in an application: by an error that the handler raises.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.app import TaskQueue
from holdfast.clock import Clock, SystemClock
from holdfast.engine.context import Context
from holdfast.locks import Locks

WORKERS: Final = 8
SHUTDOWN_SECONDS: Final = 1.0
LEASE_SECONDS: Final = 15.0
LOCK_SECONDS: Final = 30.0
IMPORT_STEPS: Final = 60
STEP_SECONDS: Final = 2.0
DECISION_SECONDS: Final = 86_400.0
PARTNER: Final = "partner.example"
"""Mail to this domain goes through a relay that can be down."""


class Shop:
    """What the handlers work with."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        """`url`: the store, for locks."""
        self.clock: Clock = clock or SystemClock()
        self._url = url
        self.is_relay_down = False

    async def send(
        self, ctx: Context, to: str, template: str = "receipt", slow: bool = False
    ) -> str:
        """Sends a mail. A slow recipient does not answer at the first attempt."""
        await ctx.output(f"{template} to {to}\n")
        await self.clock.sleep(0.4)
        if self.is_relay_down and to.endswith(PARTNER):
            raise ConnectionError("smtp.relay.internal:587 does not answer")
        if slow and ctx.attempt == 1:
            raise TimeoutError(f"{to.partition('@')[2]} did not accept the mail within 30 s")
        return f"sent to {to}"

    async def step(
        self, ctx: Context, order: str, seconds: float = 1.0, declined: bool = False
    ) -> str:
        """One step of an order. A card can be declined: then a replay does not help."""
        await ctx.progress(0.5, f"order {order}")
        if declined:
            raise PermissionError(f"card of order {order} was declined by its bank")
        await self.clock.sleep(seconds)
        return order

    async def bring_in(self, ctx: Context, catalogue: str, products: int = 12_000) -> int:
        """A long import: one at a time. A new attempt goes on where the last one has saved."""
        async with (
            Locks.connect(self._url) as locks,
            locks.hold("catalogue", ttl=LOCK_SECONDS, wait=IMPORT_STEPS * STEP_SECONDS),
        ):
            return await self._bring_in(ctx, catalogue, products)

    async def _bring_in(self, ctx: Context, catalogue: str, products: int) -> int:
        first = int(ctx.saved or 0)
        for nth in range(first, IMPORT_STEPS):
            await self.clock.sleep(STEP_SECONDS)
            done = products * (nth + 1) // IMPORT_STEPS
            await ctx.output(f"{catalogue}: {done:,} of {products:,} products\n")
            await ctx.progress((nth + 1) / IMPORT_STEPS, f"{done:,} of {products:,}")
            if nth % 10 == 9:
                await ctx.save(nth + 1)
        return products

    async def report(self, name: str) -> str:
        """A report."""
        await self.clock.sleep(1.0)
        return name

    async def close_month(self, ctx: Context, month: str) -> str:
        """Asks a person about a difference. It holds no worker while it waits."""
        answer = await ctx.decide(
            f"Close {month} with a difference of 12.40 EUR?",
            options=["close anyway", "book a correction", "leave it open"],
            deadline=DECISION_SECONDS,
            default="leave it open",
            data={"debit": "118204.10", "credit": "118191.70", "difference": "12.40 EUR"},
        )
        return str(answer.choice)


def sample_queue(url: str, shop: Shop | None, **settings: Any) -> TaskQueue:
    """The queue of the server. Without a shop it has no handlers."""
    queue = TaskQueue(
        url,
        max_workers=WORKERS,
        lease_seconds=LEASE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
        base_retry_delay=2.0,
        **settings,
    )
    if shop is not None:
        queue.task(name="email.send", queue="mail", max_attempts=3)(shop.send)
        for name in ("order.charge", "order.pack", "order.ship"):
            queue.task(name=name, queue="orders")(shop.step)
        queue.task(name="catalogue.import", max_attempts=5, timeout=None)(shop.bring_in)
        queue.task(name="report.render", queue="reports")(shop.report)
        queue.task(name="ledger.close-month", max_attempts=3)(shop.close_month)
    return queue
