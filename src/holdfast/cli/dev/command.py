"""`holdfast dev`: the command."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.commands.server import new_admin_token, until_stopped
from holdfast.cli.dev.handlers import Shop, sample_queue
from holdfast.cli.logs import LogFormat, log_to_stderr
from holdfast.cli.options import Flag
from holdfast.cli.problem import Usage
from holdfast.cli.worker.command import LogLevel
from holdfast.clock import SystemClock
from holdfast.core.address import is_gateway
from holdfast.fleet.simulated.faults import SimulatedFaults
from holdfast.fleet.simulated.site import HOSTS_MAX, Simulation
from holdfast.gateway.server import Listening, Server, check_extra, new_metrics, store_name
from holdfast.gateway.settings import ServerSettings, admin_token

HOSTS: Final = 1_000
BROKEN: Final = 0.01
"""Of simulated hosts: commands that start services fail there."""
STATE_VARIABLE: Final = "XDG_STATE_HOME"
PREFIX: Final = "dev-"
STORE: Final = "holdfast.db"
log = logging.getLogger("holdfast.dev")
GUEST: Final = "holdfast.cli.dev.guest:queue"


def dev(
    *,
    port: Annotated[int, Parameter(help="0 for any free port.")] = 8787,
    url: Annotated[
        str | None, Parameter(name=("--url", "--store"), help="A store to use, and to keep.")
    ] = None,
    keep: Annotated[Flag, Parameter(help="Keep the store that it makes.")] = False,
    empty: Annotated[Flag, Parameter(help="Without the sample: no tasks, no hosts.")] = False,
    hosts: Annotated[int, Parameter(help="How many simulated hosts; 0 for none.")] = HOSTS,
    open: Annotated[Flag, Parameter(help="Open the Control Center in the browser.")] = False,
    log_level: LogLevel = LogLevel.WARNING,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Try Holdfast: store, gateway, workers, simulated hosts and the Control Center in one process.

    The sample is real: its tasks run here, its people have tokens, its jobs run on simulated hosts. It
    listens on this machine only. Without --url the store is a SQLite file that is removed at the end, unless
    --keep is given. Ctrl-C stops it.
    """
    check_extra()
    if not 0 <= hosts <= HOSTS_MAX:
        raise Usage(f"--hosts is {hosts}: give 0 to {HOSTS_MAX}")
    if url is not None and is_gateway(url):
        raise Usage("--url is the store that it serves: give a file or a database")
    token = admin_token(os.environ) or new_admin_token()
    settings = ServerSettings(port=port, grpc_port=-1, admin_token=token)
    log_to_stderr(log_level, settings.redaction(), log_format)
    if log_level in (LogLevel.WARNING, LogLevel.ERROR):
        # Tasks of the sample fail on purpose: the pages show it.
        logging.getLogger("holdfast.tasks").setLevel(logging.CRITICAL)
    with _folder(keep=keep, has_url=url is not None) as folder:
        metrics = new_metrics()
        store = url or f"sqlite:///{folder / STORE}"
        shop = None if empty else Shop(store)
        queue = sample_queue(store, shop, meter=metrics)
        simulated = 0 if empty else hosts
        simulation = None
        if simulated:
            simulation = Simulation(hosts=simulated, faults=SimulatedFaults(broken=BROKEN))
        trial = {"sample": not empty, "hosts": simulated, "store": store_name(queue)}
        made = Server(queue, settings, metrics=metrics, simulation=simulation, trial=trial)
        is_kept = keep or url is not None
        trying = Trying(queue, shop, token, folder, hosts=simulated, is_kept=is_kept, opens=open)
        return asyncio.run(trying.run(made))


@contextmanager
def _folder(*, keep: bool, has_url: bool) -> Iterator[Path]:
    """A new folder for this run. What it has to keep stays: its store, unless another one is used."""
    state = Path(os.environ.get(STATE_VARIABLE) or Path.home() / ".local" / "state") / "holdfast"
    state.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=state))
    try:
        yield folder
    finally:
        if has_url or not keep:
            shutil.rmtree(folder, ignore_errors=True)


class Trying:
    """One run: says where it is, makes the sample, and lets work flow until the server stops."""

    def __init__(
        self,
        queue: TaskQueue,
        shop: Shop | None,
        token: str,
        folder: Path,
        *,
        hosts: int,
        is_kept: bool,
        opens: bool,
    ) -> None:
        self._queue, self._shop, self._token, self._folder = queue, shop, token, folder
        self._hosts, self._is_kept, self._opens = hosts, is_kept, opens
        self._beside: list[asyncio.Task[None]] = []

    async def run(self, made: Server) -> int:
        """The exit code."""
        try:
            return await until_stopped(made, self._queue, self._ready)
        finally:
            for task in self._beside:
                task.cancel()
            await asyncio.gather(*self._beside, return_exceptions=True)

    def _ready(self, listening: Listening) -> None:
        end = "" if self._is_kept else " (removed at the end; --keep keeps it)"
        print(f"holdfast dev on {listening.url}")
        print(f"  open    {listening.login_url}")
        print("          (counts once, for 10 minutes)")
        print(f"  store   {store_name(self._queue)}{end}")
        print(f"  shell   export HOLDFAST_GATEWAY={listening.url} HOLDFAST_TOKEN={self._token}")
        print("  then    holdfast stats")
        print(f"          holdfast worker {GUEST}")
        print("          holdfast enqueue hello name=you --wait")
        print("  stop    ctrl C", flush=True)
        if self._opens and listening.login_url is not None:
            self._start(_browse(listening.login_url))
        if self._shop is not None:
            self._start(self._live(listening.url, self._shop))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        self._beside.append(asyncio.create_task(work))

    async def _live(self, url: str, shop: Shop) -> None:
        from holdfast.cli.dev.flow import flow
        from holdfast.cli.dev.sample import Sample

        clock = SystemClock()
        begun = clock.monotonic()
        folder = self._folder / "nodes"
        sample = Sample(url, self._token, self._queue, shop, clock=clock, folder=folder)
        try:
            is_new = await sample.fill(hosts=self._hosts)
        except Exception:
            log.exception("the sample is not complete")
        else:
            text = f"made in {clock.monotonic() - begun:.1f} s" if is_new else "goes on"
            print(f"  sample  {text}", flush=True)
        await flow(self._queue, clock)


async def _browse(url: str) -> None:
    import webbrowser

    if not await asyncio.to_thread(webbrowser.open, url):
        print("there is no browser to open: use the link above", file=sys.stderr, flush=True)
