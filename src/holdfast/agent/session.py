"""Which driver may change something on a host that is reached from afar.

It runs on the host without the packages of Holdfast (`keeper.py`), so it uses the standard library only.
A session that was cut off may still be open on the host: its keeper has not seen the end yet. The next
session takes over, and from then on the earlier one changes nothing.

Promises: a change happens only while the session is the newest one; no other takes over meanwhile.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.agent.files import FILE_MODE, FOLDER_MODE

FILE = "session"
ID_BYTES = 200


class SessionEnded(Exception):
    """Another session has taken over."""


class Session:
    """A session of a driver. Making it takes over."""

    def __init__(self, folder: str, id: str) -> None:
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)  # noqa: PTH103
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(os.path.join(folder, FILE), flags, FILE_MODE)  # noqa: PTH118
        self._id = id.encode()
        with self._locked():
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._id, 0)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def held(self) -> Iterator[None]:
        """SessionEnded if another session has taken over."""
        with self._locked():
            if os.pread(self._file, ID_BYTES, 0) != self._id:
                raise SessionEnded("another session has taken over the host")
            yield
