"""The speed of the simulator on one core: `python -m proof.bench.simulator`.

Four figures: nodes that only send heartbeats through the network into the store; a cluster of idle
engines; the same cluster with six scheduled tasks a minute and processes that are scaled and replaced;
seeds as they are drawn. In processor time, which depends less on other load of the machine.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable

from holdfast.core.ids import Ids
from holdfast.sim.campaign import Options, run_seed
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.driver import RemoteDriver
from holdfast.sim.loop import NODE, SimLoop
from holdfast.sim.net import Net
from holdfast.sim.node import ManyWriters
from holdfast.sim.scenarios import changes_of
from holdfast.sim.server import NAME, Database
from holdfast.sim.trace import Trace
from holdfast.store.store import Store

NODES = 5
BEAT_SECONDS = 10.0


def heartbeats(hours: float) -> float:
    """Five nodes, each with a durable heartbeat over the network every ten seconds; simulated hours."""
    draw = Draw(1, "heartbeats")
    loop = SimLoop(draw.stream("schedule"))  # type: ignore[abstract]
    trace = Trace(loop.time)
    net = Net(loop, draw.stream("net"), trace)
    database = Database(NodeClock(loop), trace, None)

    async def node(name: str) -> None:
        clock = NodeClock(loop)
        driver = RemoteDriver(name, net, database, clock, loop.time)
        store = Store(driver, ManyWriters(), Ids(draw.stream(name)))
        while True:
            await store.heartbeat(name, "{}", [], 3 * BEAT_SECONDS)
            await clock.sleep(BEAT_SECONDS)

    async def main() -> None:
        await database.open()
        net.join(NAME, 1)
        for n in range(NODES):
            name = f"w{n}"
            net.join(name, 1)
            context = contextvars.Context()
            context.run(NODE.set, name)
            loop.create_task(node(name), context=context)
        await asyncio.sleep(hours * 3600)

    loop.run_until_complete(main())
    loop.close()
    return hours


def idle(hours: float) -> float:
    """Five whole engines and a subscriber, with nothing to do and heartbeats every ten seconds."""
    return run_seed(1, Options(hours=hours, changes=changes_of("idle"))).hours


def busy(hours: float) -> float:
    """The same with schedules, and an operator who scales a process 3.5 times a minute and replaces one 1.5
    times."""
    operated = (*changes_of("idle"), ("schedules", "true"), ("request_seconds", "60"))
    return run_seed(1, Options(hours=hours, changes=operated)).hours


def seeds(count: int) -> float:
    return sum(run_seed(seed, Options(hours=0.05)).hours for seed in range(count))


def measure(what: str, run: Callable[[], float], per: float | None = None) -> None:
    begun = time.process_time()
    hours = run()
    took = time.process_time() - begun
    each = f", {took / per:.2f} s of processor time each" if per else ""
    print(f"{what:45} {hours / took * 60:8,.0f} simulated hours a minute{each}")


if __name__ == "__main__":
    idle(0.01)
    measure("5 nodes with heartbeats every 10 s", lambda: heartbeats(50))
    measure("5 idle engines with heartbeats every 10 s", lambda: idle(2))
    measure("the same with schedules and restarts", lambda: busy(1))
    measure("60 seeds with faults, 3 minutes each", lambda: seeds(60), per=60)
