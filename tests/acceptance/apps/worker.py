"""A worker process: `python -m tests.acceptance.apps.worker URL SETTINGS-AS-JSON [TYPE ...]`.

Prints `ready` when it has started. On SIGTERM it stops: it prints `stopping` when it claims no more tasks,
and `stopped` with its statistics at the end.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys

from holdfast.core import claiming
from tests.acceptance.apps.harness import eventually
from tests.acceptance.apps.jobs import make_queue


async def main(url: str, settings: str, *types: str) -> int:
    given = json.loads(settings)
    if poll_seconds := given.pop("poll_seconds", None):
        setattr(claiming, "PUSHED_POLL_SECONDS", poll_seconds)  # noqa: B010 - a constant of the product
    queue = make_queue(url, *types, **given)
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, enough.set)
    await queue.start()
    print("ready", flush=True)
    failed = asyncio.create_task(queue.wait_failed())
    stopped = asyncio.create_task(enough.wait())
    await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        print(f"failed {failed.result()}", flush=True)
        return 1
    failed.cancel()
    engine = queue.parts.sessions.engine
    assert engine is not None
    stop = asyncio.create_task(queue.stop())
    await eventually(lambda: engine.dispatcher.stopping)
    print("stopping", flush=True)
    await stop
    left = {"fenced": engine.completer.fenced, "lost": engine.heartbeat.lost}
    print(f"stopped {json.dumps(left)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
