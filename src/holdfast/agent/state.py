"""The state folder of an agent: who may use it, and who the agent is.

    agent.lock       locked (flock) by the one agent that uses the folder
    identity.json    host, credential; readable by its owner only
    journal/         what the agent has promised (`journal.py`)
    runs/            output and exit records of commands (`supervisor.py`)

Promises: two agents never use one folder; the lock of a dead one is free. The identity is whole after a
crash at any moment. A folder of another user is refused, because its owner decides what the agent runs; one
that was not made for an agent is refused too, unless it is empty or only its owner may use it.
Never: the credential in a log or repr; follows a link in place of the lock.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

from holdfast.agent.files import FILE_MODE, FOLDER_MODE, Disk
from holdfast.errors import BadConfig, Conflict

LOCK: Final = "agent.lock"
IDENTITY: Final = "identity.json"
OF_FILE_SYSTEM: Final = "lost+found"
"""What an empty volume has."""
ROOT_FOLDER: Final = Path("/var/lib/holdfast-agent")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the agent is."""

    host: str
    host_id: str
    credential: str
    gateway: str = ""
    """Where it was enrolled, for the reader."""

    def __repr__(self) -> str:
        return f"Identity(host={self.host!r}, host_id={self.host_id!r})"


def default_folder(home: Path, *, is_root: bool) -> Path:
    """Where the state is without `--state`."""
    return ROOT_FOLDER if is_root else home / ".local" / "state" / "holdfast-agent"


class StateFolder:
    """One folder, locked by this process from `take` to `leave`."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self.path = path
        self._disk = disk or Disk()
        self._lock: int | None = None

    @property
    def journal(self) -> Path:
        return self.path / "journal"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    def take(self) -> None:
        """Conflict if another agent uses the folder. BadConfig if it cannot be used."""
        try:
            self.path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            self._check_ours()
            # Commands may write secrets: nothing here is for others.
            self.path.chmod(FOLDER_MODE)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(self.path / LOCK, flags, FILE_MODE)
        except OSError as error:
            raise BadConfig(
                f"the state folder {self.path} cannot be used: {error.strerror}; give another one as "
                "--state, or start the agent as its owner"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise Conflict(
                f"another agent uses {self.path} (process {holder}): a host has one agent; stop it, or give "
                "another folder as --state"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def _check_ours(self) -> None:
        """BadConfig for a folder that is not this agent's to change."""
        found = self.path.stat()
        if found.st_uid != os.geteuid():
            raise BadConfig(
                f"the state folder {self.path} belongs to another user (id {found.st_uid}), who could "
                "replace what the agent runs: give another one as --state, or start the agent as its owner"
            )
        names = {path.name for path in self.path.iterdir()} - {OF_FILE_SYSTEM}
        if not found.st_mode & 0o077 or not names or names & {LOCK, IDENTITY}:
            return
        raise BadConfig(
            f"the state folder {self.path} has files that are not of an agent, and others may use it: give "
            "an empty folder, or a new one, as --state"
        )

    def leave(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def identity(self) -> Identity | None:
        """None: the agent is not enrolled yet."""
        path = self.path / IDENTITY
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadConfig(f"{path} cannot be read: {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=Identity)
        except msgspec.DecodeError as error:
            raise BadConfig(
                f"{path} is not an identity: {error}; restore it, or remove it and enrol the host again"
            ) from None

    def keep(self, identity: Identity) -> None:
        """Writes the identity, whole or not at all."""
        data = msgspec.json.format(msgspec.json.encode(identity)) + b"\n"
        self._disk.replace(str(self.path / IDENTITY), data, "identity")
