"""The file system calls of the agent, as named steps.

It runs on the host without the packages of Holdfast, also over SSH (`keeper.py`), so it uses the standard
library only.

Promises: `append` and `replace` return after the data is on the disk. `replace` replaces a file completely or
not at all. Files are accessible by their owner only. Every step has a name, so that a test can crash the
process or fail the disk before each.
Never: retries a failed sync, because what is on the disk is not known then.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

FILE_MODE = 0o600
FOLDER_MODE = 0o700
TEMPORARY = ".tmp"


class Disk:
    """The real file system. A test overrides `step`."""

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        """Every change of the disk passes here with its name, e.g. 'sync journal'."""
        return do()

    def make_folder(self, folder: str) -> None:
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)  # noqa: PTH103

    def append(self, path: str, data: bytes, what: str, *, sync: bool = True) -> None:
        """Adds to a file, and makes it if it is missing."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        try:
            file = os.open(path, flags)
            is_new = False
        except FileNotFoundError:
            file = self.step("create " + what, lambda: os.open(path, flags | os.O_CREAT, FILE_MODE))
            is_new = True
        try:
            self.step("write " + what, lambda: write_all(file, data))
            if sync:
                self.step("sync " + what, lambda: os.fsync(file))
        finally:
            os.close(file)
        if is_new:
            self.sync_folder(os.path.dirname(path), what)  # noqa: PTH120

    def replace(self, path: str, data: bytes, what: str) -> None:
        """Writes and syncs a temporary file, renames it over the target, and syncs the folder."""
        [failure] = self.replace_all([(path, data)], what)
        if failure is not None:
            raise failure

    def replace_all(self, files: list[tuple[str, bytes]], what: str) -> list[OSError | None]:
        """Replaces several files, each with its failure. All are written before the first is synced, so
        that the system syncs them together."""
        failures: list[OSError | None] = [None] * len(files)
        opened: dict[int, int] = {}
        for step in (self._write_beside, self._sync_beside, self._rename, self._sync_place):
            for nth, (path, data) in enumerate(files):
                if failures[nth] is None:
                    try:
                        step(opened, nth, path, data, what)
                    except OSError as error:
                        failures[nth] = error
        for file in opened.values():
            os.close(file)
        return failures

    def _write_beside(
        self, opened: dict[int, int], nth: int, path: str, data: bytes, what: str
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = self.step("create " + what, lambda: os.open(path + TEMPORARY, flags, FILE_MODE))
        opened[nth] = file
        self.step("write " + what, lambda: write_all(file, data))

    def _sync_beside(
        self, opened: dict[int, int], nth: int, path: str, data: bytes, what: str
    ) -> None:
        self.step("sync new " + what, lambda: os.fsync(opened[nth]))

    def _rename(self, opened: dict[int, int], nth: int, path: str, data: bytes, what: str) -> None:
        self.step("rename " + what, lambda: os.rename(path + TEMPORARY, path))  # noqa: PTH104

    def _sync_place(
        self, opened: dict[int, int], nth: int, path: str, data: bytes, what: str
    ) -> None:
        self.sync_folder(os.path.dirname(path), what)  # noqa: PTH120

    def cut(self, path: str, size: int, what: str) -> None:
        """Removes what follows the first `size` bytes, durably."""
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.step("cut " + what, lambda: os.ftruncate(file, size))
            self.step("sync cut " + what, lambda: os.fsync(file))
        finally:
            os.close(file)

    def remove(self, path: str, what: str) -> None:
        """Removes a file, if it is there. A power failure may bring it back."""
        try:
            self.step("remove " + what, lambda: os.unlink(path))  # noqa: PTH108
        except FileNotFoundError:
            pass

    def remove_folder(self, folder: str, what: str) -> None:
        """Removes a folder of files."""
        try:
            names = os.listdir(folder)  # noqa: PTH208
        except FileNotFoundError:
            return
        for name in names:
            self.remove(f"{folder}/{name}", what)
        self.step("remove folder of " + what, lambda: os.rmdir(folder))  # noqa: PTH106

    def sync_folder(self, folder: str, what: str) -> None:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.step("sync folder of " + what, lambda: os.fsync(file))
        finally:
            os.close(file)


def write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def read_file(path: str) -> bytes | None:
    """None: there is no such file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except FileNotFoundError:
        return None


def read_part(path: str, start: int, size: int) -> bytes:
    """At most `size` bytes from `start` on; fewer at the end of the file, none if it is missing."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(file, size, start)
    finally:
        os.close(file)


@functools.cache
def boot_id() -> str:
    """Names the present boot of the machine, which no process outlives. Empty where the system does not name
    it."""
    data = read_file("/proc/sys/kernel/random/boot_id")
    return "" if data is None else data.decode().strip()
