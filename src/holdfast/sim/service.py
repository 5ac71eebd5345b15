"""The main of a simulated worker: starts the queue, registers schedules, scales and restarts.

Promises: workers are added and removed at run time; some processes stop gracefully or fast and are
replaced. An undisturbed stop leaves no running task of the old process.
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

HURRY_SECONDS: Final = 3.0


async def serve(
    node: Node,
    queue: Queue,
    draw: Draw,
    *,
    request_seconds: float,
    has_schedules: bool,
    is_calm: Callable[[], bool],
) -> None:
    """Runs until the process is replaced. Raises when the engine fails. `request_seconds`: the mean time
    between two requests of an operator."""
    while not queue.is_running():
        try:
            await queue.start()
            if has_schedules:
                await put_schedules(node, queue)
        except StoreUnavailable:
            await node.clock.sleep(1.0)
    node.keep(asyncio.create_task(_operate(node, queue, draw, request_seconds, is_calm)))
    failure = await queue.wait_failed()
    raise failure


async def _operate(
    node: Node,
    queue: Queue,
    draw: Draw,
    request_seconds: float,
    is_calm: Callable[[], bool],
) -> None:
    """Scales the workers or replaces the process, at random times."""
    while True:
        await node.clock.sleep(draw.wait(request_seconds))
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
    """Stops the process; the next one starts a little later."""
    if draw.chance(0.5):
        hurry = node.cluster.loop.call_later(draw.wait(HURRY_SECONDS), queue.hurry)
    else:
        hurry = None
    node.cluster.record.stopping[node.life] = node.cluster.loop.time()
    await queue.stop()
    if hurry is not None:
        hurry.cancel()
    node.retire(draw.wait(2.0))
