"""The composition root: the only module that chooses backends.

`TaskQueue("sqlite:///file.db")`, `TaskQueue("sqlite://")` in memory, `TaskQueue("postgresql://...")`,
`TaskQueue("holdfast://gateway:8787", token=...)` without a database. An internal module: applications import
`holdfast.TaskQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.bus.backends import bus_for
from holdfast.clock import Clock, SystemClock
from holdfast.core.address import Scheme, check_address, is_gateway, scheme_of
from holdfast.core.ids import Ids
from holdfast.errors import BadConfig
from holdfast.metrics import Meter
from holdfast.queue.blocking import BlockingQueue
from holdfast.queue.define import Definitions
from holdfast.queue.parts import Parts
from holdfast.queue.queue import Queue
from holdfast.queue.session import Resources
from holdfast.queue.settings import Settings
from holdfast.remote.gateways import gateways_of
from holdfast.store.backends import fresh_ids, sqlite_path, store_for

if TYPE_CHECKING:
    from holdfast.client.http import Http
    from holdfast.store.sqlite.backup import BackupFacts, OnStep

__all__ = ["TaskQueue", "resources_for", "sqlite_path"]
T = TypeVar("T")


class TaskQueue(Queue):
    """A durable task queue on the database of the URL.

    Settings may be given here or to `start`: max_workers, min_workers, default_max_attempts,
    base_retry_delay, max_retry_delay, task_timeout, shutdown_timeout, ... (docs/reference/settings.md).
    `meter` receives the metrics of the queue (docs/reference/metrics.md). With `create=False`, a store that
    does not exist is an error, and an old one is not upgraded. `token` is for the URL of a gateway; several
    gateways of one store may be a list. `redis` is the URL of a Redis that carries hints between processes,
    beside the bus of the store."""

    def __init__(
        self,
        url: str | Sequence[str] = "sqlite://",
        *,
        clock: Clock | None = None,
        meter: Meter | None = None,
        create: bool = True,
        token: str | None = None,
        redis: str | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(url, list | tuple):
            url = ",".join(check_address(part) for part in url)
        url = check_address(url)
        self.url = url
        if is_gateway(url):
            given = Settings().changed(settings)
            super().__init__(remote_parts(url, token, given, clock or SystemClock(), meter))
            return
        if token is not None:
            raise BadConfig("a token is for a gateway: write holdfast://host:8787, or leave it out")
        make = resources_for(
            url, clock or SystemClock(), server_time=clock is None, create=create, redis=redis
        )
        super().__init__(partial(Parts, make, Settings().changed(settings), meter=meter))

    @property
    def sync(self) -> BlockingQueue:
        """The calls of producers and operators for code without an event loop: web applications, scripts,
        plain handlers. `queue.sync.close()` closes its connection."""
        return BlockingQueue(self)


def remote_parts(
    url: str, token: str | None, settings: Settings, clock: Clock, meter: Meter | None = None
) -> Callable[[Definitions], Parts]:
    """A function that makes the parts of a queue behind a gateway. A bad URL is refused at once."""
    gateways = gateways_of(url, token)

    def make(definitions: Definitions) -> Parts:
        from holdfast.remote.parts import RemoteParts

        # The same calls, without a store.
        parts: Any = RemoteParts(gateways, clock, fresh_ids(), settings, definitions, meter=meter)
        return cast("Parts", parts)

    return make


def http_of(queue: Queue) -> Http | None:
    """The connections of a queue behind a gateway; None for a queue on a store."""
    parts: Any = queue.parts
    http: Http | None = getattr(parts, "http", None)
    return http


def use_gateway(
    queue: Queue,
    url: str,
    token: str | None,
    keep_credential: Callable[[str], None] | None = None,
) -> None:
    """Makes a queue that is not open use a gateway in place of its store. Its handlers stay.
    `keep_credential` is called with the credential of a node that a join token has made."""
    make = remote_parts(url, token, queue.settings, SystemClock(), queue.parts.meter)
    queue.parts = make(queue.definitions)
    runtime: Any = queue.parts.runtime
    runtime.keep_credential = keep_credential
    if isinstance(queue, TaskQueue):
        queue.url = url


def resources_for(
    url: str,
    clock: Clock,
    *,
    server_time: bool = True,
    inline: bool = False,
    ids: Ids | None = None,
    create: bool = True,
    redis: str | None = None,
) -> Callable[[], Resources]:
    """A function that makes the resources of an event loop on demand. A bad URL is refused at once.
    All loops of a process share one store. Each loop has its own bus, unless the bus has no connection.
    `redis`: the URL of a Redis that carries hints between processes, beside the bus of the store."""
    make = store_for(url, clock, server_time=server_time, inline=inline, ids=ids, create=create)
    is_sqlite = scheme_of(url) is Scheme.SQLITE

    store = _shared(make)
    local = _shared(lambda: bus_for(url, clock, None, name=""))

    def resources() -> Resources:
        shared = store()
        if is_sqlite and shared.file is None:
            return Resources(shared, local(), clock, shared.ids)
        bus = bus_for(url, clock, shared.file, name=shared.ids.secret(), redis=redis)
        return Resources(shared, bus, clock, shared.ids)

    return resources


def _shared(make: Callable[[], T]) -> Callable[[], T]:
    """A function that returns the same object in every thread. Threads that come at once may make several,
    of which all get one. No lock: a forked child would inherit it locked."""
    made: dict[str, T] = {}

    def get() -> T:
        return made["it"] if made else made.setdefault("it", make())

    return get


async def silence_of_redis(url: str, seconds: float) -> str | None:
    """Why a Redis does not answer within the time, for `holdfast doctor`. None: it does."""
    from holdfast.bus.redis import silence_of

    return await silence_of(url, seconds)


def check_backup(path: str, target: Path, *, overwrite: bool) -> None:
    """Raises if a backup of a SQLite store cannot get this name."""
    from holdfast.store.sqlite.backup_files import check_target

    check_target(path, target, overwrite=overwrite)


def back_up(path: str, target: Path, on_step: OnStep) -> BackupFacts:
    """Copies a SQLite store into a file while other processes use it."""
    from holdfast.store.sqlite import backup

    return backup.back_up(path, target, on_step)


def restore(source: Path, path: str, on_step: OnStep) -> tuple[BackupFacts, Path | None]:
    """Makes a SQLite store what a backup has. Returns also where the replaced store is kept."""
    from holdfast.store.sqlite import backup

    return backup.restore(source, path, on_step)


def check_restore(source: Path, path: str) -> BackupFacts:
    """What a restore would make of a SQLite store. Raises if it cannot."""
    from holdfast.store.sqlite import backup

    return backup.check_restore(source, path)


def look_at_file(path: str) -> BackupFacts:
    """What a SQLite store, or a backup of one, has now."""
    from holdfast.store.sqlite import backup

    return backup.look(path)
