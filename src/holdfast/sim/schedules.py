"""The schedules of a simulated cluster.

One is plain, one has a type that not every node has a handler for, and one is in a time zone that some
machines lack.
"""

from __future__ import annotations

from typing import Final

from holdfast.queue.queue import Queue
from holdfast.sim.handler_outcomes import NIGHTLY, TICK, has_handler
from holdfast.sim.node import Node

TICK_SECONDS: Final = 60
NIGHTLY_SECONDS: Final = 15
ZONED: Final = "a zoned one"
"""Sorts before the other names, so that its failure would affect the schedules after it."""
SCHEDULED: Final = frozenset({TICK, NIGHTLY})


async def put_schedules(node: Node, queue: Queue) -> None:
    """Registers the schedules of the types that this node has a handler for, as a service does at startup."""
    await queue.schedule(TICK, f"@every {TICK_SECONDS}", TICK)
    if not has_handler(node.name, NIGHTLY):
        return
    await queue.schedule(NIGHTLY, f"@every {NIGHTLY_SECONDS}", NIGHTLY)
    await queue.schedule(ZONED, "* * * * *", NIGHTLY, timezone="Europe/Prague")
