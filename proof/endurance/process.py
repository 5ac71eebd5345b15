"""One process of a run: ``python -m proof.endurance.process worker|mixed|feeder|embedded|flood``.

Prints its figures as JSON lines on stdout: counts that only the process itself knows. Ends when its stdin
is closed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time

from proof.endurance import app, mixed

TELL_SECONDS = float(os.environ.get("ENDURANCE_TELL", "5"))
ROUND_SECONDS = float(os.environ.get("ENDURANCE_ROUND", "1"))
BACKLOG = int(os.environ.get("ENDURANCE_BACKLOG", "0"))
COLLECT = os.environ.get("ENDURANCE_COLLECT", "1") == "1"
"""Runs a garbage collection first where memory is judged."""
BATCH = 1_000
seen = {"rounds": 0, "events": 0, "errors": 0, "enqueued": 0}


def state() -> dict[str, float]:
    """Counts of live objects in this process."""
    if COLLECT:
        gc.collect()
    counts: dict[str, float] = {
        **seen,
        "ran": app.ran["noop"],
        "blocks": sys.getallocatedblocks(),
        "tasks": len(asyncio.all_tasks()),
        "threads": len(sys._current_frames()),
    }
    engine = app.queue.parts.sessions.engine
    if engine is not None:
        counts["restarts"] = engine.supervisor.restarts
    return counts


async def tell() -> None:
    """Prints figures until the end."""
    while True:
        print(json.dumps(state()), flush=True)
        await asyncio.sleep(TELL_SECONDS)


async def subscribe() -> None:
    """One subscriber that stays for the whole run."""

    def count(_: object) -> None:
        seen["events"] += 1

    app.queue.on_event(count)
    await app.queue.open()


async def rounds() -> None:
    """Mixed load at a fixed pace; a failed round is counted and logged."""
    while True:
        begun = time.monotonic()
        try:
            await asyncio.wait_for(mixed.round_of(seen["rounds"]), 120)
        except Exception as error:
            seen["errors"] += 1
            print(f"round {seen['rounds']}: {error!r}", file=sys.stderr, flush=True)
        seen["rounds"] += 1
        await asyncio.sleep(max(0.0, begun + ROUND_SECONDS - time.monotonic()))


async def feed() -> None:
    """Keeps a backlog of at least this many no-op tasks."""
    while True:
        waiting = await app.queue.get_queue_size()
        if waiting >= BACKLOG:
            await asyncio.sleep(0.05)
            continue
        await app.queue.enqueue_many([app.noop.request(n) for n in range(BATCH)])
        seen["enqueued"] += BATCH


async def run(role: str) -> None:
    jobs = [tell()]
    if role in ("worker", "embedded", "flood"):
        await app.queue.start()
    if role in ("mixed", "embedded"):
        await subscribe()
        jobs.append(rounds())
    if role in ("feeder", "flood"):
        await app.queue.open()
        jobs.append(feed())
    running = [asyncio.create_task(job) for job in jobs]
    gone = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([gone, *running], return_when=asyncio.FIRST_COMPLETED)
    for job in running:
        job.cancel()
    for ended in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    await app.queue.stop()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(sys.argv[1]))
