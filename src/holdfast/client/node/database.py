"""The SQLite file of an offline node.

Promises: one process uses it at a time, and only its owner can read it. A process that was forked while it is
open gets Conflict, and writes nothing: its changes would be lost with the locks that it does not have. Every
use after `close` is NotRunning. A disk that is full or cannot be written to is DiskFull or StoreUnavailable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.errors import BadConfig, Conflict, DiskFull, NotRunning, StoreUnavailable
from holdfast.forks import PassiveFollower, follow

MEMORY: Final = ":memory:"


class NodeDatabase(PassiveFollower):
    """An open file. `set_up` makes its tables, in the transaction that takes the lock."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._is_closed = False
        if str(path) != MEMORY:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection: apsw.Connection | None = apsw.Connection(str(path))
        self._inherited: list[object] = []
        """The connection of the parent process; referenced so that it is not closed in this one."""
        follow(self)
        try:
            self._take()
        except apsw.BusyError:
            self.close()
            raise Conflict(
                f"another process uses {path}: a folder belongs to one node at a time"
            ) from None
        except (apsw.NotADBError, apsw.CorruptError) as error:
            self.close()
            raise BadConfig(
                f"{path} is not the database of a node, or it is damaged ({error}): restore the folder, or "
                "use another one"
            ) from None

    def _take(self) -> None:
        self.execute("PRAGMA locking_mode=EXCLUSIVE")
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=FULL")
        # Takes the lock now, and not at the first change.
        self.execute("BEGIN EXCLUSIVE")
        self.execute("COMMIT")

    def start_over(self) -> None:
        """In a forked child."""
        self._inherited.append(self._connection)
        self._connection = None

    def execute(self, text: str, values: tuple[Any, ...] = ()) -> apsw.Cursor:
        with self._translated():
            return self._opened.execute(text, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. One within another is part of it."""
        with self._translated(), self._opened:
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.FullError as error:
            raise DiskFull(
                f"the disk of {self._path} is full and nothing was written: free some space ({error})"
            ) from error
        except (apsw.IOError, apsw.ReadOnlyError) as error:
            raise StoreUnavailable(
                f"{self._path} cannot be written: check the disk and the rights of its folder ({error})"
            ) from error

    def changes(self) -> int:
        """The rows that the last statement changed."""
        return self._opened.changes()

    def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    @property
    def _opened(self) -> apsw.Connection:
        if self._is_closed:
            raise NotRunning("the node is closed: open its folder again with Node.open")
        if self._connection is None:
            raise Conflict(
                f"{self._path} belongs to the process that was forked: open a node after the fork, with "
                "another folder"
            )
        return self._connection
