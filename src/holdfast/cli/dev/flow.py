"""The work that keeps coming while `holdfast dev` runs: enqueued as an application does it."""

from __future__ import annotations

import itertools
import logging
from typing import Final

from holdfast.app import TaskQueue
from holdfast.clock import Clock
from holdfast.errors import HoldfastError

EVERY_SECONDS: Final = 1.5
WAITING_MAX: Final = 200
"""No more work comes while this many tasks wait, e.g. because their queue is paused."""
SLOW_EVERY: Final = 5
ORDER_EVERY: Final = 4
IMPORT_EVERY: Final = 100
TEMPLATES: Final = ("receipt", "welcome", "invoice", "reminder")
log = logging.getLogger("holdfast.dev")


async def flow(queue: TaskQueue, clock: Clock) -> None:
    """Until it is cancelled."""
    for n in itertools.count(1):
        await clock.sleep(EVERY_SECONDS)
        try:
            await _more(queue, n)
        except HoldfastError as error:
            log.debug("no new work of the sample: %s", error)


async def _more(queue: TaskQueue, n: int) -> None:
    if await queue.get_queue_size() > WAITING_MAX:
        return
    mail = {"to": f"customer.{n}@example.com", "template": TEMPLATES[n % len(TEMPLATES)]}
    await queue.enqueue("email.send", {**mail, "slow": n % SLOW_EVERY == 0})
    if n % ORDER_EVERY == 1:
        order = {"order": f"A-{1000 + n}"}
        charged = await queue.enqueue("order.charge", order, priority="high")
        packed = await queue.enqueue("order.pack", order, depends_on=[charged.id])
        await queue.enqueue("order.ship", order, depends_on=[packed.id])
    if n % IMPORT_EVERY == 0:
        await queue.enqueue("catalogue.import", {"catalogue": f"supplier {n // IMPORT_EVERY}"})
