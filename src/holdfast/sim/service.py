"""A worker process from its start to its orderly end: its schedules, its operator's wishes, its restarts.

Promises: workers are added and taken away while they work; some processes are stopped in order and replaced,
in a hurry or not. A stop that nothing disturbed leaves nothing running under the old process's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.schedules import put_schedules

WISH_SECONDS: Final = 60.0
"""Between two wishes of the operator of a process."""
HURRY_SECONDS: Final = 3.0


async def serve(
    node: Node, queue: Queue, draw: Draw, *, has_schedules: bool, is_calm: Callable[[], bool]
) -> None:
    """Until the process is replaced; an engine that gives up is an error."""
    while not queue.is_running():
        try:
            await queue.start()
            if has_schedules:
                await put_schedules(node, queue)
        except StoreUnavailable:
            await node.clock.sleep(1.0)
    node.keep(asyncio.create_task(_wish(node, queue, draw, is_calm)))
    failure = await queue.wait_failed()
    raise failure


async def _wish(node: Node, queue: Queue, draw: Draw, is_calm: Callable[[], bool]) -> None:
    """What an operator asks of this process."""
    while True:
        await node.clock.sleep(draw.wait(WISH_SECONDS))
        if is_calm():
            return
        try:
            if draw.chance(0.7):
                await queue.scale_workers(draw.pick((1, 2, -1, -2)))
            else:
                await _replace(node, queue, draw)
        except HoldfastError as error:
            node.cluster.trace.sometimes(f"operator {error.code}")


async def _replace(node: Node, queue: Queue, draw: Draw) -> None:
    """Stops in order; the next process comes a little later."""
    if draw.chance(0.5):
        hurry = node.cluster.loop.call_later(draw.wait(HURRY_SECONDS), queue.hurry)
    else:
        hurry = None
    node.cluster.record.stopping[node.life] = node.cluster.loop.time()
    await queue.stop()
    if hurry is not None:
        hurry.cancel()
    node.retire(draw.wait(2.0))
