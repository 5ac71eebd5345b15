"""What the order store asks of a file system, one named step at a time.

Promises: `write` and `sync` say yes only when the system did; `replace` puts a file in place whole or not
at all, and it is durable when this returns; files are for their owner only. Every step has a name, so that a
test can stop the world, or break the disk, before and after each. Never: retries a failed sync (what is on
disk is not known then).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
DSYNC: Final = getattr(os, "O_DSYNC", 0)
"""One call that writes and syncs: this thread has to wait for the interpreter once, not twice."""
TEMPORARY: Final = ".tmp"
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


class Disk:
    """The real one. A subclass may step in at `step` and `put`."""

    file_mode: int = FILE_MODE
    """Of new files, before the umask; a subclass or an instance may say otherwise."""

    def step(self, name: str, do: Callable[[], T]) -> T:
        """Every touch of the disk passes here, under its name, e.g. 'sync log'."""
        return do()

    def put(self, file: int, data: bytes | memoryview) -> int:
        """One system call; how many bytes it took."""
        return os.write(file, data)

    def open(self, path: Path, what: str) -> int:
        """For appending; a write is on the disk when it returns, where the system can do that in one."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | DSYNC
        return self.step(f"open {what}", lambda: os.open(path, flags))

    def write(self, file: int, data: bytes, what: str) -> None:
        def all_of_it() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[self.put(file, rest) :]

        self.step(f"write {what}", all_of_it)

    def sync(self, file: int, what: str) -> None:
        """Only where `open` could not ask for it."""
        if not DSYNC:
            self.step(f"sync {what}", lambda: os.fsync(file))

    def truncate(self, file: int, size: int, what: str) -> None:
        """Durable too: what was cut off must not come back with the power."""
        self.step(f"truncate {what}", lambda: os.ftruncate(file, size))
        self.step(f"sync cut {what}", lambda: os.fsync(file))

    def is_at(self, file: int, path: Path, what: str) -> bool:
        """Whether the open file is still the one that this path names."""

        def compare() -> bool:
            try:
                return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116
            except FileNotFoundError:
                return False

        return self.step(f"look at {what}", compare)

    def replace(self, path: Path, data: bytes, what: str) -> None:
        """Beside it first, synced; then renamed over it, and the folder synced."""
        beside = path.with_name(path.name + TEMPORARY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = self.step(f"create {what}", lambda: os.open(beside, flags, self.file_mode))
        try:
            self.write(file, data, what)
            self.step(f"sync new {what}", lambda: os.fsync(file))
        finally:
            os.close(file)
        self.step(f"rename {what}", lambda: beside.replace(path))
        self.sync_folder(path.parent, what)

    def remove(self, path: Path, what: str) -> None:
        self.step(f"remove {what}", lambda: path.unlink(missing_ok=True))

    def sync_folder(self, folder: Path, what: str) -> None:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.step(f"sync folder of {what}", lambda: os.fsync(file))
        finally:
            os.close(file)
