"""The composition root: the one place that picks backends.

`TaskQueue("sqlite:///file.db")`, `TaskQueue("sqlite://")` in memory, `TaskQueue("postgresql://...")`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.bus.backends import bus_for
from holdfast.clock import Clock, SystemClock
from holdfast.core.ids import Ids
from holdfast.queue.backend import Backend
from holdfast.queue.queue import Queue
from holdfast.queue.settings import Settings
from holdfast.store.backends import sqlite_path, store_for

__all__ = ["TaskQueue", "backend_for", "sqlite_path"]


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
        super().__init__(make, Settings().changed(settings))


def backend_for(
    url: str,
    clock: Clock,
    *,
    server_time: bool = True,
    inline: bool = False,
    ids: Ids | None = None,
) -> Callable[[], Backend]:
    """A function that makes the backend when it is needed; a bad URL is refused at once."""
    make = store_for(url, clock, server_time=server_time, inline=inline, ids=ids)

    def backend() -> Backend:
        store = make()
        bus = bus_for(url, clock, store.file, name=store.ids.secret())
        return Backend(store, bus, clock, store.ids)

    return backend
