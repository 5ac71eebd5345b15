"""`holdfast metrics`: an exporter for a store that no gateway serves."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.logs import LogFormat, log_to_stderr
from holdfast.cli.scrapes import metered, serving
from holdfast.cli.session import check_exists, shown_store
from holdfast.cli.worker.command import LogLevel
from holdfast.cli.worker.signals import INTERRUPTED, Stops
from holdfast.config import find_url
from holdfast.core.redaction import Redaction

PORT = 9100


def metrics(
    *,
    port: Annotated[int, Parameter(help="0 for any free port.")] = PORT,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    url: Annotated[str | None, Parameter(name=("--url", "--store"), help="The store.")] = None,
    log_level: LogLevel = LogLevel.INFO,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Serve the metrics of a store at /metrics until SIGTERM or Ctrl-C.

    It shows what the store knows: numbers of tasks, their age, dead letters, the feed. Counters and durations
    are of the process that does the work: a worker with --metrics-port, or a server.
    """
    log_to_stderr(log_level, Redaction(), log_format)
    found = find_url(url, os.environ, Path.cwd())
    check_exists(found)
    return asyncio.run(_run(TaskQueue(found.value, create=False), host, port))


async def _run(queue: TaskQueue, host: str, port: int) -> int:
    stops = Stops()
    figures = metered(queue)
    try:
        await queue.open()
        async with serving(queue, figures, host, port) as listening:
            shown = f"[{host}]" if ":" in host else host
            where = f"http://{shown}:{listening}/metrics"
            print(f"holdfast metrics on {where} (store {shown_store(queue.url)})")
            sys.stdout.flush()
            await stops.graceful.wait()
    finally:
        await queue.stop()
    return INTERRUPTED if stops.fast.is_set() else 0
