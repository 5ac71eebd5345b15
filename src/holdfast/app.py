"""The composition root: the one place that picks backends.

`TaskQueue("sqlite:///file.db")`, `TaskQueue("sqlite://")` in memory, `TaskQueue("postgresql://...")`.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from holdfast.clock import Clock, SystemClock
from holdfast.core.ids import Ids
from holdfast.errors import BadConfig, MissingExtra
from holdfast.queue.backend import Backend
from holdfast.queue.queue import Queue
from holdfast.queue.settings import Settings

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


class TaskQueue(Queue):
    """A durable task queue on the database that the URL names.

    Settings may be given here or to `start`: max_workers, min_workers, default_max_attempts,
    base_retry_delay, max_retry_delay, task_timeout, shutdown_timeout, ... (docs/reference/settings.md).
    """

    def __init__(
        self, url: str = "sqlite://", *, clock: Clock | None = None, **settings: Any
    ) -> None:
        self.url = url
        make = backend_for(url, clock or SystemClock(), server_time=clock is None)
        super().__init__(make, Settings().changed(settings), name=url)


def backend_for(
    url: str,
    clock: Clock,
    *,
    server_time: bool = True,
    inline: bool = False,
    ids: Ids | None = None,
) -> Callable[[], Backend]:
    """A function that makes the backend when it is needed; a bad URL is refused at once."""
    source = ids or Ids(random.Random(random.SystemRandom().getrandbits(128)))
    if url.startswith("sqlite:"):
        path = sqlite_path(url)
        return lambda: _sqlite(path, clock, source, inline=inline)
    if url.startswith(POSTGRES_SCHEMES):
        _need_postgres()
        return lambda: _postgres(url, clock, source, server_time=server_time)
    raise BadConfig(
        f"'{url}' is not a database that holdfast knows: use sqlite:///path/to/file.db, sqlite:// (in "
        "memory) or postgresql://user@host/database"
    )


def sqlite_path(url: str) -> str:
    """sqlite:// is memory, sqlite:///x.db relative, sqlite:////x.db absolute."""
    rest = url.removeprefix("sqlite:")
    if rest in ("", "//", "///"):
        return ""
    if not rest.startswith("///"):
        raise BadConfig(
            f"'{url}' is not a SQLite URL: write sqlite:///file.db or sqlite:////absolute/file.db"
        )
    return unquote(rest[3:])


def _sqlite(path: str, clock: Clock, ids: Ids, *, inline: bool) -> Backend:
    from holdfast.bus.file import WatchedBus
    from holdfast.bus.local import LocalBus
    from holdfast.store.sqlite.dialect import SqliteDialect
    from holdfast.store.sqlite.driver import SqliteDriver
    from holdfast.store.store import Store

    driver = SqliteDriver(path, clock, inline=inline)
    bus = WatchedBus(driver.version) if path and not inline else LocalBus()
    return Backend(Store(driver, SqliteDialect(), ids), bus, clock, ids)


def _need_postgres() -> None:
    if importlib.util.find_spec("asyncpg") is None:
        raise MissingExtra("PostgreSQL needs asyncpg: pip install 'holdfast[postgres]'")


def _postgres(url: str, clock: Clock, ids: Ids, *, server_time: bool) -> Backend:
    from holdfast.bus.postgres import PostgresBus
    from holdfast.store.postgres.dialect import PostgresDialect
    from holdfast.store.postgres.driver import PostgresDriver
    from holdfast.store.store import Store

    driver = PostgresDriver(url, clock, server_time=server_time)
    return Backend(Store(driver, PostgresDialect(), ids), PostgresBus(url, clock), clock, ids)
