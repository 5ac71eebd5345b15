"""The server process: HTTP on uvicorn, and the loops of an engine beside it.

Promises: it is ready when `run` calls `on_ready`; a stop lets running requests end and then closes the
store. It listens on an address that other machines reach only with authentication and TLS.
"""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.address import shown_url
from holdfast.engine.meters import FAMILIES
from holdfast.errors import BadConfig, MissingExtra
from holdfast.metrics import Metrics
from holdfast.queue.queue import Queue

if TYPE_CHECKING:
    import uvicorn

    from holdfast.gateway.rest.app import Mounts
    from holdfast.gateway.settings import ServerSettings

STOP_SECONDS: Final = 10
"""How long a stop waits for running requests."""
BACKLOG: Final = 2_048


class Listening(NamedTuple):
    """Where a server that has started listens."""

    url: str
    host: str
    port: int


def check_extra() -> None:
    """MissingExtra if a package of the extra `gateway` is not installed."""
    for name in ("fastapi", "uvicorn", "httptools", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"the server needs {name}: pip install 'holdfast[gateway]'")


def new_metrics() -> Metrics:
    """The metrics of a server, for its queue."""
    return Metrics(FAMILIES)


class Server:
    """One server on the store of a queue. With `loops`, the engine of the queue runs beside it: sweeper,
    scheduler, and the workers of its handlers."""

    def __init__(
        self,
        queue: Queue,
        settings: ServerSettings,
        *,
        metrics: Metrics | None = None,
        mounts: Mounts | None = None,
        loops: bool = True,
    ) -> None:
        check_extra()
        self._queue = queue
        self._settings = settings
        self._metrics = metrics or new_metrics()
        self._mounts = mounts
        self._loops = loops
        self._server: uvicorn.Server | None = None

    async def run(self, on_ready: Callable[[Listening], None] = lambda _: None) -> None:
        """Serves until `stop`, or until it is cancelled."""
        from holdfast.gateway.gateway import Gateway
        from holdfast.gateway.hub import Hub
        from holdfast.gateway.rest.app import NO_MOUNTS, make_app

        hub = await Hub.open(self._queue, self._metrics)
        try:
            if self._loops:
                await self._queue.start()
            gateway = Gateway(hub, self._settings)
            app = make_app(gateway, self._mounts or NO_MOUNTS)
            self._server = server = _uvicorn(app, self._settings)
            serving = asyncio.create_task(server.serve(), name="holdfast-server")
            try:
                on_ready(await _started(server, serving, self._settings))
                await serving
            finally:
                gateway.is_stopping = True
                server.should_exit = True
                if not serving.done():
                    with suppress(asyncio.CancelledError):
                        await serving
        finally:
            await self._queue.stop()

    def stop(self) -> None:
        """Asks `run` to end. A second call ends it without waiting for running requests."""
        if self._server is not None:
            self._server.force_exit = self._server.should_exit
            self._server.should_exit = True


def _uvicorn(app: Any, settings: ServerSettings) -> uvicorn.Server:
    import uvicorn

    class Quiet(uvicorn.Server):
        """uvicorn without handlers of signals: the caller has them."""

        def install_signal_handlers(self) -> None:
            return

        def capture_signals(self) -> Any:
            return _Nothing()

    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http="httptools",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ssl_ca_certs=settings.client_ca,
        ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
    )
    return Quiet(config)


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


async def _started(
    server: uvicorn.Server, serving: asyncio.Task[None], settings: ServerSettings
) -> Listening:
    """Waits until the server listens. BadConfig if it cannot."""
    while not server.started:
        if serving.done():
            with suppress(SystemExit, OSError):
                serving.result()
            raise BadConfig(
                f"the server cannot listen on {settings.host}:{settings.port}: choose another --port, or "
                "stop the process that has it"
            )
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    shown = f"[{host}]" if ":" in host else host
    return Listening(f"{scheme}://{shown}:{port}{settings.base_path}", host, port)


def store_name(queue: Queue) -> str:
    """The store of a queue, without a password."""
    return shown_url(getattr(queue, "url", "?"))
