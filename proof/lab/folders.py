"""Scratch folders. Each is named after its process, so that a later run can remove what a killed run
left."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import tempfile
from pathlib import Path

PREFIX = "holdfast-lab-"
MEMORY = Path("/dev/shm")
TMPFS_BYTES_MIN = 1 << 30
RAM_FILESYSTEMS = {"tmpfs", "ramfs"}


@functools.cache
def server_user() -> tuple[int, int]:
    """The user that runs the servers: the current one, or `nobody` for root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return os.getuid(), os.getgid()
    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def own_prefix() -> str:
    """The prefix of this process's folders."""
    return f"{PREFIX}{os.getpid()}-"


def make_folder(name: str, base: Path | None = None) -> Path:
    """A new folder of the servers' user in `base`, or in `scratch()`."""
    folder = Path(tempfile.mkdtemp(prefix=f"{own_prefix()}{name}-", dir=base or scratch()))
    os.chown(folder, *server_user())
    return folder


@functools.cache
def scratch() -> Path:
    """tmpfs if it has room, else the system's folder for temporary files; swept once."""
    is_usable = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > TMPFS_BYTES_MIN
    base = MEMORY if is_usable else Path(tempfile.gettempdir())
    sweep(base)
    return base


def data_dir(chosen: Path | None = None) -> Path:
    """A new folder on a real disk, accessible to the servers' user."""
    candidates = [chosen] if chosen else [Path(tempfile.gettempdir()), Path("/var/tmp")]
    for base in candidates:
        if base.is_dir() and filesystem_of(base) not in RAM_FILESYSTEMS:
            sweep(base)
            folder = Path(tempfile.mkdtemp(prefix=own_prefix(), dir=base))
            folder.chmod(0o755)
            return folder
    raise RuntimeError("no folder on a real disk found for the data; name one with --data-dir")


def sweep(base: Path) -> None:
    """Removes the folders of processes that have ended."""
    for folder in base.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def filesystem_of(path: Path) -> str:
    """Type of the file system that holds `path` (`ext4`, `tmpfs`, …; `?` if unknown)."""
    best, kind = "", "?"
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            mount, fstype = line.split()[1:3]
            inside = f"{path.resolve()}/".startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, fstype
    return kind
