"""A small HTTP server for scrapers: `/metrics` in the Prometheus text format, and `/healthz`, which answers
as long as the event loop turns.

Promises: needs no further package. A scrape sets the gauges first; if the store does not answer, it gets 503
and no old values. Bounded: connections at once, bytes and seconds of a request, label values.
Never: authenticates. It listens on this machine unless another address is given. It shows names of queues and
types.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from holdfast import __version__
from holdfast.app import http_of
from holdfast.core.text import one_line
from holdfast.engine.meters import FAMILIES, count_hint, describe_build
from holdfast.errors import BadConfig, HoldfastError
from holdfast.metrics import Metrics
from holdfast.queue.queue import Queue

CONNECTIONS_MAX: Final = 32
HEAD_BYTES_MAX: Final = 8_192
REQUEST_SECONDS_MAX: Final = 5.0
TEXT: Final = "text/plain; charset=utf-8"
EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"
REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
log = logging.getLogger("holdfast.metrics")
Reply = tuple[int, str, str]
"""Status, content type and body."""


def metered(queue: Queue) -> Metrics:
    """The metrics of a queue that is not started yet. It gets a meter if it has none."""
    meter = queue.parts.meter
    if meter is None:
        meter = Metrics(FAMILIES)
        queue.parts.use_meter(meter)
    if not isinstance(meter, Metrics):
        raise BadConfig(
            f"the queue reports to a {type(meter).__name__}, which this command cannot show: make the queue "
            "without meter=, or with a holdfast.metrics.Metrics"
        )
    return meter


@asynccontextmanager
async def serving(queue: Queue, metrics: Metrics, host: str, port: int) -> AsyncIterator[int]:
    """Serves the metrics of an open queue. Yields the port."""
    with ExitStack() as ends:
        if http_of(queue) is None:
            resources = await queue.parts.sessions.open()
            describe_build(
                metrics, __version__, "sqlite" if resources.store.one_writer else "postgres"
            )
            ends.callback(resources.bus.subscribe(lambda hint: count_hint(metrics, hint)))
        else:
            describe_build(metrics, __version__, "gateway")
        pages = Scrapes(metrics, queue.parts.stats.measure)
        try:
            server = await asyncio.start_server(pages.connected, host, port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            raise BadConfig(
                f"port {port} of {host} cannot serve metrics: {error.strerror or error}; choose another"
            ) from None
        ends.callback(server.close)
        yield server.sockets[0].getsockname()[1]


class Scrapes:
    """Answers scrapes, one request a connection."""

    def __init__(self, metrics: Metrics, measure: Callable[[], Awaitable[None]]) -> None:
        self._metrics = metrics
        self._measure = measure
        self._connections = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            method, reply = head.partition(b" ")[0], await self._reply(head)
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                writer.write(_message(reply, has_body=method != b"HEAD"))
                await writer.drain()
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError):
            pass  # The scraper is gone, too slow or no scraper: an answer would not be read.
        finally:
            self._connections -= 1
            writer.close()

    async def _reply(self, head: bytes) -> Reply:
        if self._connections > CONNECTIONS_MAX:
            return 503, TEXT, f"more than {CONNECTIONS_MAX} connections at once\n"
        line = head.partition(b"\r\n")[0].split(b" ")
        if len(line) != 3 or not line[2].startswith(b"HTTP/1."):
            return 400, TEXT, "this is an HTTP server\n"
        if line[0] not in (b"GET", b"HEAD"):
            return 405, TEXT, "GET /metrics\n"
        match line[1].partition(b"?")[0]:
            case b"/metrics":
                return await self._scrape()
            case b"/healthz":
                return 200, TEXT, "ok\n"
        return 404, TEXT, "there are /metrics and /healthz\n"

    async def _scrape(self) -> Reply:
        try:
            await self._measure()
        except HoldfastError as error:
            log.warning("a scrape got no metrics: %s", error)
            return 503, TEXT, f"{error.code}: {one_line(str(error))}\n"
        return 200, EXPOSITION, self._metrics.render()


def _message(reply: Reply, *, has_body: bool) -> bytes:
    status, kind, text = reply
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {REASONS.get(status, 'Service Unavailable')}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if has_body else b"")
