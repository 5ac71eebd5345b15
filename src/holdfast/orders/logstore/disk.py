"""The file system calls of the order store, as named steps.

Promises: `write` and `sync` return only when the system confirmed them. `replace` replaces a file
completely or not at all, and is durable when it returns. Files are readable by their owner only. Every
step has a name, so that a test can crash the process or fail the disk before and after each.
Never: retries a failed sync, because what is on the disk is not known then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
DSYNC: Final = getattr(os, "O_DSYNC", 0)
"""One call that writes and syncs: the thread waits for the interpreter lock once, not twice."""
TEMPORARY: Final = ".tmp"
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


class Disk:
    """The real file system. A subclass may override `step` and `put`."""

    file_mode: int = FILE_MODE
    """Mode of new files, before the umask; a subclass or an instance may set another."""

    def step(self, name: str, do: Callable[[], T]) -> T:
        """Every access to the disk passes here with its name, e.g. 'sync log'."""
        return do()

    def put(self, file: int, data: bytes | memoryview) -> int:
        """One system call; returns how many bytes it wrote."""
        return os.write(file, data)

    def open(self, path: Path, what: str) -> int:
        """Opens for appending. Writes are synchronous if the system supports it."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | DSYNC
        return self.step(f"open {what}", lambda: os.open(path, flags))

    def write(self, file: int, data: bytes, what: str) -> None:
        def all_of_it() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[self.put(file, rest) :]

        self.step(f"write {what}", all_of_it)

    def sync(self, file: int, what: str) -> None:
        """Syncs, if `open` could not make writes synchronous."""
        if not DSYNC:
            self.step(f"sync {what}", lambda: os.fsync(file))

    def truncate(self, file: int, size: int, what: str) -> None:
        """Truncates durably: what was cut off must not come back after a power failure."""
        self.step(f"truncate {what}", lambda: os.ftruncate(file, size))
        self.step(f"sync cut {what}", lambda: os.fsync(file))

    def is_at(self, file: int, path: Path, what: str) -> bool:
        """Whether the open file is still the one at this path."""

        def compare() -> bool:
            try:
                return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116
            except FileNotFoundError:
                return False

        return self.step(f"look at {what}", compare)

    def replace(self, path: Path, data: bytes, what: str) -> None:
        """Writes and syncs a temporary file, renames it over the target, and syncs the folder."""
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
