"""The stores of the cases: a separate PostgreSQL, Redis or SQLite for every run.

PostgreSQL has its default settings. Redis writes an append-only file (its default `everysec`), so that a
crash of the server loses nothing that it has acknowledged. A store may be on a small RAM disk that can be
filled.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import asyncpg

from proof.lab.servers import STOCK, Postgres, Redis, Server

SMALL_DISK_MB = 192
_SPARE = 1 << 20


class Store:
    """What a case may do to a store. An operation that a store does not have raises."""

    def url(self, port: int = 0) -> str:
        """The URL, through another port if given."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        raise NotImplementedError

    def crash(self) -> None:
        """A crash as by a power loss, except for the cache of the disk."""
        raise NotImplementedError

    def start_again(self) -> None:
        """Starts it on the same port with the same data."""
        raise NotImplementedError

    def is_up(self) -> bool:
        return True

    async def kill_connections(self) -> int:
        """Ends every other connection; returns how many."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stops it and removes its data."""


class ServerStore(Store):
    """A server for one run."""

    address = ""

    def __init__(self, server: Server) -> None:
        self._server = server

    def url(self, port: int = 0) -> str:
        return self.address.format(port=port or self.port)

    @property
    def port(self) -> int:
        return self._server.port

    def start_again(self) -> None:
        self._server.start()

    def is_up(self) -> bool:
        return self._server.is_running

    def stop(self) -> None:
        self._server.stop()


class PostgresStore(ServerStore):
    """A cluster with default settings."""

    address = "postgresql://postgres@127.0.0.1:{port}/postgres"

    def __init__(self, folder: Path) -> None:
        super().__init__(Postgres(base=folder, preset=STOCK))
        self._reader: asyncpg.Connection[asyncpg.Record] | None = None

    def crash(self) -> None:
        """SIGQUIT: immediate shutdown, recovery at the next start."""
        self._server.end(signal.SIGQUIT)

    async def _operate(self) -> asyncpg.Connection[asyncpg.Record]:
        """A session of the harness, without the database's limits."""
        unlimited = {"statement_timeout": "0"}
        return await asyncpg.connect(self.url(), timeout=5, server_settings=unlimited)

    async def kill_connections(self) -> int:
        connection = await self._operate()
        try:
            rows = await connection.fetch(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and backend_type = 'client backend'"
            )
        finally:
            await connection.close(timeout=5)
        return len(rows)

    async def set_for_all(self, **settings: str) -> int:
        """Sets defaults of the database, as an operator would. Ends every session, so that no old one is
        left; returns how many."""
        connection = await self._operate()
        try:
            for name, value in settings.items():
                await connection.execute(f"ALTER DATABASE postgres SET {name} = '{value}'")
        finally:
            await connection.close(timeout=5)
        return await self.kill_connections()

    async def hold_snapshot(self) -> None:
        """Opens a reader that never ends."""
        self._reader = await asyncpg.connect(self.url(), timeout=5)
        await self._reader.execute("begin isolation level repeatable read")
        await self._reader.fetch("select count(*) from pg_class")

    async def let_snapshot_go(self) -> None:
        if self._reader is not None:
            await self._reader.close(timeout=5)


class RedisStore(ServerStore):
    """With an append-only file."""

    address = "redis://127.0.0.1:{port}/0"

    def __init__(self, folder: Path) -> None:
        self._redis = Redis("--appendonly", "yes", base=folder)
        super().__init__(self._redis)

    def crash(self) -> None:
        """SIGKILL."""
        self._server.end(signal.SIGKILL)

    async def kill_connections(self) -> int:
        killed = 0
        for kind in ("normal", "pubsub"):
            answer = self._redis.command(f"CLIENT KILL TYPE {kind} SKIPME yes")
            killed += int(answer[1:].split()[0])
        return killed


class SqliteStore(Store):
    """A file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "sqlite"
        self._folder.mkdir()

    def url(self, port: int = 0) -> str:
        return f"sqlite:///{self._folder / 'queue.db'}"

    @property
    def port(self) -> int:
        return 0

    def stop(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


STORES = {"postgres": PostgresStore, "redis": RedisStore, "sqlite": SqliteStore}


class SmallDisk:
    """A RAM disk of a fixed size, filled by a ballast file. Needs the right to mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"size={SMALL_DISK_MB}m,mode=0755",
            "tmpfs",
            str(folder),
        ]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            message = f"a small disk cannot be mounted here: {done.stderr.strip()}"
            raise RuntimeError(message)

    def fill(self) -> None:
        """Fills the disk, and takes space that is freed meanwhile."""
        with (self.folder / "ballast").open("ab", buffering=0) as ballast:
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(b"\0" * _SPARE)
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(b"\0" * 4096)

    def free(self) -> None:
        (self.folder / "ballast").unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)  # noqa: PTH106 - the mount point itself
