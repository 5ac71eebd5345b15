"""The files of backups: what may be replaced, the room on the disk, and a copy that is not finished.

Promises: two processes never write the same copy; a file gets its name when it is on disk. Never: replaces
anything but a file, nor one that may be open as a store.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import BadConfig, Conflict, DiskFull, HoldfastError, StoreUnavailable

PART: Final = ".part"
"""The end of the name of a copy that is not checked yet."""
KEPT: Final = ".before-restore"
"""The end of the name under which a restore keeps the store that it replaces."""
BESIDE: Final = ("", "-wal", "-shm", "-journal")
"""The files of one SQLite database."""
FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Errors of the file system become those of Holdfast. `path`: what is written."""
    try:
        yield
    except HoldfastError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"'{path}' cannot be written: the disk is full; free some space"
            ) from error
        raise BadConfig(
            f"'{path}' cannot be written: {error.strerror}; give another path"
        ) from error


def check_target(path: str, target: Path, *, overwrite: bool) -> None:
    """Raises if a backup of the store at `path` cannot get this name."""
    with file_errors(target):
        if target.is_dir():
            raise BadConfig(f"'{target}' is a folder: add the name of a file")
        check_other(path, target)
        if target.exists() and not target.is_file():
            raise BadConfig(f"'{target}' is no file: give another name")
        if target.exists() and not overwrite:
            raise Conflict(f"'{target}' is there: give another name, or --overwrite")
        _check_not_open(target)
        check_room(Path(path), target.parent)


def check_kept(target: Path, kept: Path) -> None:
    """Raises if the store at `target` cannot be kept under the name `kept`."""
    there = next((name for end in BESIDE if (name := Path(f"{kept}{end}")).exists()), None)
    if target.exists() and there is not None:
        raise Conflict(
            f"'{there}' is there, which an earlier restore has kept: move it away or delete it, then "
            "try again"
        )


def check_other(path: str, other: Path) -> None:
    """Raises if the backup is one of the files of the store."""
    names = {Path(f"{path}{end}").resolve() for end in BESIDE}
    if other.resolve() in names:
        raise BadConfig(f"'{other}' belongs to the store itself: give another file")


def _check_not_open(target: Path) -> None:
    """Raises if SQLite keeps changes of the older file beside it: they would be read as those of the copy."""
    for end in ("-wal", "-journal"):
        if (beside := Path(f"{target}{end}")).exists():
            raise Conflict(
                f"'{beside}' is there: a process has '{target}' open as a store, or was killed when it had. "
                "Give another name, or stop the process and delete both files"
            )


def check_room(source: Path, folder: Path, *, copies: int = 1) -> None:
    """Raises if the disk has no room for copies of a file."""
    if not folder.is_dir():
        raise BadConfig(f"there is no folder '{folder}': create it, or give another path")
    if not source.is_file():
        raise StoreUnavailable(f"there is no file '{source}': check the path")
    needed, free = source.stat().st_size * copies, shutil.disk_usage(folder).free
    if needed > free:
        raise DiskFull(
            f"'{folder}' needs {(needed >> 20) + 1:,} MiB and has {free >> 20:,} MiB free: free some space, "
            "or give a file on another disk"
        )


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """An empty file in which a copy for `target` is made, for this call alone. What has no name at the end is
    removed. Conflict if another process makes a copy for this name."""
    part = target.with_name(target.name + PART)
    number = _taken(part)
    try:
        _remove(part, BESIDE[1:])
        os.ftruncate(number, 0)
        yield part
    finally:
        if _is_open_as(number, part):
            _remove(part, BESIDE)
        os.close(
            number
        )  # Last: it also ends the locks that SQLite has on the file in this process.


def _taken(part: Path) -> int:
    """The number of the open file, which is locked until it is closed."""
    while True:
        number = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_open_as(number, part):
                return number
        except BlockingIOError:
            os.close(number)
            raise Conflict(
                f"another process writes '{part}': wait for its end, or give another name"
            ) from None
        os.close(
            number
        )  # The one before has ended meanwhile, and its file has another name or none.


def _is_open_as(number: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(number), path.stat())
    return False


def publish(part: Path, target: Path) -> None:
    """Gives a copy that is on disk its name."""
    part.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(path: Path, ends: tuple[str, ...]) -> None:
    for end in ends:
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").unlink()
