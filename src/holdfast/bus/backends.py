"""Selects the bus for a store.

PostgreSQL uses NOTIFY. The processes that share a SQLite file send each other datagrams and watch the version
of the file. A store in memory belongs to one process and needs no connection. Redis may carry hints as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.bus.local import LocalBus
from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.address import Scheme, scheme_of

if TYPE_CHECKING:
    from redis.asyncio import Redis


class File(Protocol):
    """The part of a file store that a bus needs."""

    path: str

    def version(self) -> int:
        """Changes with every commit of another connection, and of another event loop of this process."""
        ...

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Calls the listener in the running event loop after each commit of this loop that changed data."""
        ...


def bus_for(
    url: str, clock: Clock, file: File | None, *, name: str, redis: str | None = None
) -> Bus:
    """`file` is None for a store in memory. The name must be unique to this bus. `redis`: the URL of a Redis
    that carries hints too."""
    bus = _bus_of_store(url, clock, file, name)
    if redis is None:
        return bus
    from holdfast.bus.redis import RedisBus

    return RedisBus(redis, bus, clock)


def redis_client(url: str) -> Redis:
    """A client of this Redis, which connects when it is used. Raises BadConfig and MissingExtra."""
    from holdfast.bus.redis import client_for

    return client_for(url)


def _bus_of_store(url: str, clock: Clock, file: File | None, name: str) -> Bus:
    if scheme_of(url) is Scheme.POSTGRES:
        from holdfast.bus.postgres import PostgresBus

        return PostgresBus(url, clock, name)
    if file is None:
        return LocalBus()
    from holdfast.bus.file import FileBus
    from holdfast.bus.peers import Peers

    peers = Peers(Path(file.path), name, clock.monotonic)
    return FileBus(file.version, peers, clock, on_commit=file.on_commit)
