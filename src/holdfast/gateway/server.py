"""The server process: HTTP on uvicorn, and the loops of an engine beside it.

Promises: it is ready when `run` calls `on_ready`; a stop lets running requests end and then closes the
store. It listens on an address that other machines reach only with authentication and TLS.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.address import shown_url
from holdfast.core.fleet.rules import FleetHosting
from holdfast.core.token import is_loopback
from holdfast.engine.meters import FAMILIES
from holdfast.errors import BadConfig, MissingExtra
from holdfast.gateway.metrics import FAMILIES as REQUEST_FAMILIES
from holdfast.metrics import Metrics
from holdfast.queue.queue import Queue

if TYPE_CHECKING:
    import uvicorn

    from holdfast.fleet.simulated.site import Simulation
    from holdfast.gateway.gateway import Gateway
    from holdfast.gateway.rest.cut_off import CutOff
    from holdfast.gateway.services import GatewayServices
    from holdfast.gateway.settings import ServerSettings

log = logging.getLogger("holdfast.gateway")
STOP_SECONDS: Final = 3
"""How long a stop waits for running requests. Requests that only wait are answered at once."""
SERVICES_SECONDS: Final = 2.0
"""How long a stop waits for its live connections and its workers to end."""
QUEUE_SECONDS: Final = 5.0
"""How long a stop waits for the store, beside the `shutdown_timeout` of a server that runs tasks."""
BACKLOG: Final = 2_048


class Listening(NamedTuple):
    """Where a server that has started listens."""

    url: str
    host: str
    port: int
    worker_transports: dict[str, int]
    """See `GatewayServices`."""
    login_url: str | None = None
    """Opens the Control Center once, on this machine. None if this machine does not reach the server so."""


def check_extra() -> None:
    """MissingExtra if a package of the extra `gateway` is not installed."""
    for name in ("fastapi", "uvicorn", "httptools", "websockets"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"the server needs {name}: pip install 'holdfast[gateway]'")


def new_metrics() -> Metrics:
    """The metrics of a server, for its queue."""
    from holdfast.fleet.agents.figures import FAMILIES as AGENT_FAMILIES
    from holdfast.fleet.jobs.figures import FAMILIES as JOB_FAMILIES
    from holdfast.fleet.webhooks.figures import FAMILIES as WEBHOOK_FAMILIES
    from holdfast.gateway.feed.metrics import FAMILIES as FEED_FAMILIES
    from holdfast.gateway.figures import FAMILIES as HUB_FAMILIES
    from holdfast.sync.worker.figures import FAMILIES as WORKER_FAMILIES

    return Metrics(
        *(FAMILIES, REQUEST_FAMILIES, FEED_FAMILIES, HUB_FAMILIES, WORKER_FAMILIES),
        *(AGENT_FAMILIES, JOB_FAMILIES, WEBHOOK_FAMILIES),
    )


class Server:
    """One server on the store of a queue. With `loops`, the engine of the queue runs beside it: sweeper,
    scheduler, and the workers of its handlers."""

    def __init__(
        self,
        queue: Queue,
        settings: ServerSettings,
        *,
        metrics: Metrics | None = None,
        loops: bool = True,
        simulation: Simulation | None = None,
        trial: Mapping[str, object] | None = None,
    ) -> None:
        """`simulation`: hosts of the fleet that exist in this process only. `trial`: see
        `GatewayServices`."""
        check_extra()
        self._queue = queue
        self._settings = settings
        self._metrics = metrics or new_metrics()
        self._loops = loops
        self._simulation = simulation
        self._trial = trial
        self._server: uvicorn.Server | None = None
        self._stopping = asyncio.Event()

    async def run(self, on_ready: Callable[[Listening], None] = lambda _: None) -> None:
        """Serves until `stop`, or until it is cancelled."""
        check_certificates(self._settings)
        with closing(
            open_listener(self._settings)
        ) as listener:  # first: a port that is taken is named
            await self._run(listener, on_ready)

    async def _run(self, listener: socket.socket, on_ready: Callable[[Listening], None]) -> None:
        from holdfast.gateway.compose import compose, open_services
        from holdfast.gateway.rest.cut_off import CutOff

        services = await open_services(self._queue, self._settings, self._metrics)
        services.trial = self._trial
        try:
            if self._loops:
                await self._queue.start()
            made = compose(services, self._settings)
            async with AsyncExitStack() as running:
                loops = [services.upkeep.running, services.job_loops.running]
                if services.fleet.rules.hosting is FleetHosting.ENGINE:
                    loops.append(services.ssh.running)
                for part in (
                    services.figures.running,
                    services.bulk.running,
                    *(loops if self._loops else ()),
                    *made.running,
                    *_simulated(services, self._simulation),
                ):
                    await running.enter_async_context(part())
                app = CutOff(made.app(), services.request_id)
                await self._serve(listener, made.gateway, app, running, on_ready)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Stops the engine of the queue. Its parts wait for the store one after the other, each with a bound:
        a store that is away costs no more than one bound here."""
        runs_tasks = self._loops and bool(self._queue.definitions.handlers.types())
        seconds = QUEUE_SECONDS + (self._queue.settings.shutdown_timeout if runs_tasks else 0.0)
        try:
            async with asyncio.timeout(seconds):
                await self._queue.stop()
        except TimeoutError:
            log.warning("the store did not answer within %g s of the stop; leaving it", seconds)

    async def _serve(
        self,
        listener: socket.socket,
        gateway: Gateway,
        app: CutOff,
        running: AsyncExitStack,
        on_ready: Callable[[Listening], None],
    ) -> None:
        """Serves until the server is asked to stop. Services end first: they close their connections, which
        a graceful stop would wait for."""
        started = asyncio.Event()
        self._server = server = _uvicorn(app, self._settings, started)
        serving = asyncio.create_task(server.serve([listener]), name="holdfast-server")
        try:
            await _first(serving, started)
            if started.is_set():
                on_ready(_listening(listener, self._settings, gateway))
            await _first(serving, self._stopping)
        finally:
            gateway.services.stopping.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(SERVICES_SECONDS):
                    await running.aclose()
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving

    def stop(self) -> None:
        """Asks `run` to end. A second call ends it without waiting for running requests."""
        if self._server is not None:
            self._server.force_exit = self._stopping.is_set()
        self._stopping.set()


def _simulated(
    services: GatewayServices, simulation: Simulation | None
) -> tuple[Callable[[], AbstractAsyncContextManager[None]], ...]:
    """The simulated hosts, which speak to the agents' door of this server."""
    if simulation is None:
        return ()
    from holdfast.fleet.simulated.site import SimulatedFleet

    run_id = services.ids.token()
    return (
        SimulatedFleet(
            services.store,
            services.agents,
            services.clock,
            simulation,
            run_id=run_id,
            runs=services.fleet.rules.hosting is FleetHosting.ENGINE,
        ).running,
    )


async def _first(serving: asyncio.Task[None], event: asyncio.Event) -> None:
    """Waits until the event is set or the server has ended."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _uvicorn(app: Any, settings: ServerSettings, started: asyncio.Event) -> uvicorn.Server:
    import uvicorn

    from holdfast.gateway.feed.feed import PONG_SECONDS
    from holdfast.gateway.feed.protocol import FeedProtocol

    class Quiet(uvicorn.Server):
        """uvicorn without handlers of signals, which the caller has. It says when it accepts connections."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

        def install_signal_handlers(self) -> None:
            return

        def capture_signals(self) -> Any:
            return _Nothing()

    config = uvicorn.Config(
        app,
        http="httptools",
        ws=FeedProtocol,
        ws_per_message_deflate=False,
        ws_max_size=settings.frame_bytes,
        ws_ping_interval=settings.ping_seconds,
        ws_ping_timeout=PONG_SECONDS,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ssl_ca_certs=settings.client_ca,
        ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
    )
    return Quiet(config)


def check_certificates(settings: ServerSettings) -> None:
    """BadConfig, with the name of the file, for one that the server cannot read or use."""
    files = (settings.tls_cert, settings.tls_key, settings.client_ca)
    for name in files:
        try:
            if name is not None:
                Path(name).read_bytes()
        except OSError as error:
            raise BadConfig(f"the server cannot read {name}: {error.strerror}") from None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if settings.tls_cert is not None:
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
        if settings.client_ca is not None:
            context.load_verify_locations(settings.client_ca)
    except ssl.SSLError as error:
        names = ", ".join(name for name in files if name is not None)
        raise BadConfig(
            f"the server cannot use {names}: {error.reason or error}; give a certificate and its key in PEM"
        ) from None


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def open_listener(settings: ServerSettings) -> socket.socket:
    """A socket at the address. BadConfig if it cannot be had. Connections inherit TCP_NODELAY: without it, an
    answer of two writes on a kept connection waits for the client's delayed acknowledgement, about 40 ms."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (settings.host, settings.port), family=family, backlog=BACKLOG
        )
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise BadConfig(
            f"the server cannot listen on {settings.host}:{settings.port} ({error.strerror}): choose another "
            "--port, or stop the process that has it"
        ) from None


def _listening(listener: socket.socket, settings: ServerSettings, gateway: Gateway) -> Listening:
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{port}{settings.base_path}"
    login_url = None
    if is_loopback(host):
        code = gateway.logins.open(gateway.services.clock.monotonic())
        login_url = f"{url}/login?code={code}"
    return Listening(url, host, port, gateway.services.worker_transports, login_url)


def store_name(queue: Queue) -> str:
    """The store of a queue, without a password."""
    return shown_url(getattr(queue, "url", "?"))
