"""One worker process: runs a queue until it is asked to stop.

Promises: exit code 0 after a graceful stop, 130 after a fast one, 1 after a failure of the engine; uses
uvloop when it is installed. Nothing left after the stop keeps the process (`ending.py`). Never: hides why
the engine ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, TypeAlias

from holdfast.app import sqlite_path, use_gateway
from holdfast.cli.load import load_queue
from holdfast.cli.problem import report
from holdfast.cli.scrapes import metered, serving
from holdfast.cli.session import shown_store
from holdfast.cli.worker import ending
from holdfast.cli.worker.signals import INTERRUPTED, PARENT_VARIABLE, Stops
from holdfast.clock import SystemClock
from holdfast.core.address import Scheme, is_gateway, scheme_of
from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import BadConfig, EngineFailed, HoldfastError
from holdfast.queue.queue import Queue

GATEWAY_SECONDS_MAX: Final = 10.0
"""The longest pause before a worker that starts tries its gateway again."""
Link: TypeAlias = tuple[str | None, str | None, Callable[[str], None] | None]
"""A gateway, its token, and what keeps the credential that a join token has made."""
NO_LINK: Final[Link] = (None, None, None)
log = logging.getLogger("holdfast.worker")


def serve(
    target: str,
    settings: dict[str, Any],
    link: Link = NO_LINK,
    scraped: tuple[str, int] | None = None,
) -> int:
    """Loads the queue and runs it in this process, with its store or through a gateway. `scraped`: address
    and port of its metrics."""
    queue = load_queue(target)
    gateway, token, keep_credential = link
    if gateway is not None:
        use_gateway(queue, gateway, token, keep_credential)
    if PARENT_VARIABLE in os.environ:
        _check_shared(target, queue)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            code = runner.run(_run(target, queue, settings, scraped))
        except Exception as error:
            code = report(error, [])
        ending.begin(code, runner.get_loop())
    return code


def _check_shared(target: str, queue: Queue) -> None:
    """Refuses an in-memory store: each process would have another one."""
    url = getattr(queue, "url", "")
    if scheme_of(url) is Scheme.SQLITE and not sqlite_path(url):
        raise BadConfig(
            f"the store of '{target}' is in memory, where only one process sees it: give the queue the "
            "URL of a file or of PostgreSQL, or run one process"
        )


async def _run(
    target: str, queue: Queue, settings: dict[str, Any], scraped: tuple[str, int] | None
) -> int:
    stops = Stops()
    metrics = None if scraped is None else metered(queue)
    if not await _started(queue, settings, stops):
        return 0
    if not queue.definitions.handlers.types():
        await queue.stop()
        raise BadConfig(f"'{target}' has no tasks: define some with @queue.task in its module")
    async with AsyncExitStack() as beside:
        if scraped is not None and metrics is not None:
            try:
                port = await beside.enter_async_context(serving(queue, metrics, *scraped))
            except BadConfig:
                await queue.stop()
                raise
            log.info("metrics on http://%s:%d/metrics", scraped[0], port)
        failure = await _work(queue, settings, stops)
    if failure is not None:
        raise failure
    log.info("stopped")
    return INTERRUPTED if stops.fast.is_set() else 0


async def _work(queue: Queue, settings: dict[str, Any], stops: Stops) -> EngineFailed | None:
    """Runs tasks until a stop or a failure, which it returns."""
    types = queue.definitions.handlers.types()
    url = str(getattr(queue, "url", "?"))
    log.info(
        "ready: pid %d, %s %s, tasks %s",
        os.getpid(),
        "gateway" if is_gateway(url) else "store",
        shown_store(url),
        ", ".join(types),
    )
    await _warn_of_queues(queue, settings.get("queues") or ())
    failure = await _until_stopped(queue, stops)
    await _stop(queue, stops)
    return failure


async def _warn_of_queues(queue: Queue, given: Sequence[str]) -> None:
    """Names queues that no type uses and the store does not know: probably a slip of the pen."""
    types = {handler.config.queue for handler in queue.definitions.handlers}
    missing = sorted(set(given) - types)
    if not missing:
        return
    with suppress(HoldfastError):
        missing = sorted(set(missing) - {row.name for row in await queue.parts.queues.list()})
        for name in missing:
            known = ", ".join(sorted(types))
            log.warning(
                "queue '%s' does not exist: no task is in it, and the types here use %s",
                name,
                known,
            )


async def _started(queue: Queue, settings: dict[str, Any], stops: Stops) -> bool:
    """Starts the queue. Waits for a gateway that does not answer yet. False: asked to stop meanwhile."""
    clock, attempt = SystemClock(), 0
    while True:
        try:
            await queue.start(**settings)
            return True
        except GatewayUnavailable as error:
            seconds = min(2.0**attempt, GATEWAY_SECONDS_MAX)
            log.warning("waiting for the gateway, next try in %g s: %s", seconds, error)
            if await clock.wait(stops.graceful, seconds):
                await queue.stop()
                return False
            attempt += 1


async def _until_stopped(queue: Queue, stops: Stops) -> EngineFailed | None:
    """Waits for a stop signal or a failure of the engine, and returns the failure."""
    requested = asyncio.create_task(stops.graceful.wait())
    failed = asyncio.create_task(queue.wait_failed())
    done, pending = await asyncio.wait({requested, failed}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return failed.result() if failed in done else None


async def _stop(queue: Queue, stops: Stops) -> None:
    """Stops gracefully; a second signal stops fast."""
    stopping = asyncio.create_task(queue.stop())
    fast = asyncio.create_task(stops.fast.wait())
    await asyncio.wait({stopping, fast}, return_when=asyncio.FIRST_COMPLETED)
    fast.cancel()
    if not stopping.done():
        queue.hurry()
    await stopping


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
