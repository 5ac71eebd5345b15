"""`holdfast server`: the gateway of a store, with the loops of an engine beside it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.load import load_queue
from holdfast.cli.logs import LogFormat, log_to_stderr
from holdfast.cli.options import Flag
from holdfast.cli.simulation import NO_FAULT_OPTIONS, FaultOptions, simulation_of
from holdfast.cli.worker.command import LogLevel
from holdfast.cli.worker.signals import INTERRUPTED, Stops
from holdfast.config import FILE_NAME, find_url, read_tables
from holdfast.core.token import TokenKind, make_token
from holdfast.gateway.server import Listening, Server, check_extra, new_metrics, store_name
from holdfast.gateway.settings import ServerSettings, admin_token, server_settings
from holdfast.queue.queue import Queue
from holdfast.store.backends import secret_ids

COLLECTIONS: Final = (50_000, 20, 100)
"""When the collector of garbage looks at young, older and all objects. A server keeps many objects for long:
with the defaults, full collections took more than half of its time with 10,000 agents."""


def server(
    *,
    host: Annotated[str | None, Parameter(help="The address to listen on.")] = None,
    port: Annotated[int | None, Parameter(help="Default: 8787; 0 for any free port.")] = None,
    grpc_port: Annotated[
        int | None,
        Parameter(help="Default: the port after --port; 0 for any free port, -1 for no gRPC."),
    ] = None,
    url: Annotated[
        str | None, Parameter(name=("--url", "--store"), help="The store; made if it is missing.")
    ] = None,
    redis: Annotated[
        str | None, Parameter(help="A Redis between several gateways of one store.")
    ] = None,
    workers: Annotated[
        str | None, Parameter(help="Also run the tasks of MODULE:QUEUE in this process.")
    ] = None,
    no_loops: Annotated[
        Flag, Parameter(help="Only serve: no sweeper, scheduler, workers.")
    ] = False,
    tls_cert: Annotated[str | None, Parameter(help="A certificate in PEM.")] = None,
    tls_key: Annotated[str | None, Parameter(help="Its key.")] = None,
    client_ca: Annotated[
        str | None, Parameter(help="Requires clients to have a certificate of it.")
    ] = None,
    simulated_hosts: Annotated[
        int | None,
        Parameter(help="Also run this many hosts that exist in this process only: sim-0001, ..."),
    ] = None,
    faults: FaultOptions = NO_FAULT_OPTIONS,
    log_level: LogLevel = LogLevel.INFO,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Serve the API of a store until SIGTERM or Ctrl-C.

    Requests need a token: HOLDFAST_ADMIN_TOKEN, one of `holdfast token create`, or the one that is printed
    when HOLDFAST_ADMIN_TOKEN is not set. Without TLS the server listens on this machine only. The address of
    the Control Center is printed with a code that opens it once.
    """
    check_extra()
    simulation = simulation_of(simulated_hosts, faults)
    given = admin_token(os.environ)
    flags = {
        "host": host,
        "port": port,
        "grpc_port": grpc_port,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "client_ca": client_ca,
        "redis": redis,
    }
    tables = read_tables(Path.cwd() / FILE_NAME)
    settings = server_settings(tables, os.environ, {**flags, "admin_token": given})
    printed = None
    if given is None:
        printed = new_admin_token()
        settings = server_settings(tables, os.environ, {**flags, "admin_token": printed})
    log_to_stderr(log_level, settings.redaction(), log_format)
    metrics = new_metrics()
    queue = _queue(workers, url, settings)
    if queue.parts.meter is None:
        queue.parts.use_meter(metrics)
    made = Server(queue, settings, metrics=metrics, loops=not no_loops, simulation=simulation)
    gc.set_threshold(*COLLECTIONS)
    return asyncio.run(_run(made, queue, printed))


def _queue(workers: str | None, url: str | None, settings: ServerSettings) -> Queue:
    """The queue of the application whose tasks also run here, or one on the store."""
    if workers is not None:
        return load_queue(workers)
    store_url = find_url(url, os.environ, Path.cwd()).value
    return TaskQueue(store_url, redis=settings.redis, **settings.queue_settings())


def new_admin_token() -> str:
    """A bootstrap token that counts until its server ends."""
    secret = bytes.fromhex(secret_ids().secret() + secret_ids().secret())
    return make_token(TokenKind.USER, secret).replace("hf_user_", "hf_admin_")


async def _run(made: Server, queue: Queue, printed: str | None) -> int:
    def ready(listening: Listening) -> None:
        port = listening.worker_transports.get("grpc")
        grpc = "" if port is None else f", gRPC on port {port}"
        print(f"holdfast server on {listening.url} (store {store_name(queue)}{grpc})")
        if printed is not None:
            print(f"token: {printed}")
        if listening.login_url is not None:
            print(f"Control Center: {listening.login_url} (counts once, for 10 minutes)")
        sys.stdout.flush()

    return await until_stopped(made, queue, ready)


async def until_stopped(made: Server, queue: Queue, ready: Callable[[Listening], None]) -> int:
    """Runs the server until a signal. The exit code."""
    stops = Stops()
    running = asyncio.create_task(made.run(ready))
    graceful = asyncio.create_task(stops.graceful.wait())
    fast = asyncio.create_task(stops.fast.wait())
    await asyncio.wait({running, graceful}, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        made.stop()
        await asyncio.wait({running, fast}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            made.stop()
            queue.hurry()
    graceful.cancel()
    fast.cancel()
    await running
    return INTERRUPTED if stops.fast.is_set() else 0
