"""The schedules of a simulated cluster: a plain one, one of a type that not every node knows, and one in a
time zone that one machine has no file for."""

from __future__ import annotations

from typing import Final

from holdfast.queue.queue import Queue
from holdfast.sim.handler_outcomes import NIGHTLY, TICK, knows
from holdfast.sim.node import Node

TICK_SECONDS: Final = 60
NIGHTLY_SECONDS: Final = 15
ZONED: Final = "a zoned one"
"""Before the others by name: what one schedule does to a scheduler, the others feel."""
SCHEDULED: Final = frozenset({TICK, NIGHTLY})


async def put_schedules(node: Node, queue: Queue) -> None:
    """As services do when they start, for the types that they know."""
    await queue.schedule(TICK, f"@every {TICK_SECONDS}", TICK)
    if not knows(node.name, NIGHTLY):
        return
    await queue.schedule(NIGHTLY, f"@every {NIGHTLY_SECONDS}", NIGHTLY)
    await queue.schedule(ZONED, "* * * * *", NIGHTLY, timezone="Europe/Prague")
