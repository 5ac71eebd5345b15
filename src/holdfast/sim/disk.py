"""A disk that loses unsynced writes: a SQLite VFS that tracks which bytes were synced.

Promises: after a power loss each file holds what was synced and a random part of the later writes, one of
them possibly torn. On demand a write finds the disk full, or a sync fails. Files are in a folder of this
run. Never: used outside the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from holdfast.sim.draw import Draw
from holdfast.sim.trace import Trace

SECTOR: Final = 512
LOCK_TIMEOUT: Final = apsw.SQLITE_FCNTL_LOCK_TIMEOUT
COMMITTED: Final = apsw.SQLITE_FCNTL_COMMIT_PHASETWO


class Write(NamedTuple):
    """Bytes that were written and not synced."""

    offset: int
    data: bytes


class Blocks:
    """One file: its synced content and its unsynced changes."""

    def __init__(self) -> None:
        self.safe = bytearray()
        self.loose: list[Write | int] = []
        """Writes, and truncations as the new size, in order."""

    def sync(self) -> None:
        for change in self.loose:
            _apply(self.safe, change)
        self.loose.clear()

    def after_power_loss(self, draw: Draw, trace: Trace) -> bytes:
        """The content after the power loss."""
        content = bytearray(self.safe)
        for change in self.loose:
            if isinstance(change, int) or not draw.chance(0.5):
                continue
            if draw.chance(0.3) and len(change.data) > SECTOR:
                trace.sometimes("torn")
                size = SECTOR * draw.below(len(change.data) // SECTOR)
                _apply(content, Write(change.offset, change.data[:size]))
            else:
                _apply(content, change)
        if self.loose:
            trace.sometimes("unsynced")
        return bytes(content)


def _apply(content: bytearray, change: Write | int) -> None:
    if isinstance(change, int):
        del content[change:]
        return
    end = change.offset + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.offset : end] = change.data


class Disk(apsw.VFS):
    """The disk of one simulated database server."""

    def __init__(self, name: str, folder: Path, draw: Draw, trace: Trace) -> None:
        self.name = name
        self.folder = folder
        self._draw = draw
        self._full, self._sync, self._salt, self._last = (
            draw.stream(name) for name in ("full", "sync", "salt", "last")
        )
        self._trace = trace
        self.files: dict[str, Blocks] = {}
        self.full = 0.0
        """Probability that a write finds the disk full."""
        self.failing = 0.0
        """Probability that a sync fails."""
        self.dying: int | None = None
        """Number of operations until the power fails."""
        self.is_dead = False
        self.has_committed = False
        """Whether SQLite has committed. The checkpoint after a commit can fail without a loss, because the
        log has the data, and SQLite continues. A VFS in Python fails by an exception, though, which reaches
        the caller of the commit."""
        super().__init__(name, "unix")

    @property
    def url(self) -> str:
        """The URL under which SQLite opens the database on this disk."""
        return f"file:{self.folder / 'sim.db'}?vfs={self.name}"

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:  # noqa: N802
        return DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.operate()
        self.files.pop(filename, None)
        super().xDelete(filename, syncdir)

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802
        """WAL salts come from here; they must be determined by the seed."""
        return self._salt.getrandbits(8 * numbytes).to_bytes(numbytes, "little")

    def blocks(self, filename: str) -> Blocks:
        return self.files.setdefault(filename, Blocks())

    def operate(self) -> None:
        """Called by each write and sync; fails when the power fails during it."""
        if self.dying is not None:
            self.dying -= 1
            if self.dying < 0:
                self._trace.sometimes("power-loss-in-a-write")
                self.dying, self.is_dead = None, True
        if self.is_dead:
            raise apsw.IOError("the power has failed")

    def finds_full(self) -> bool:
        if self._full.chance(self.full):
            self._trace.sometimes("disk-full")
            return True
        return False

    def fails_to_sync(self) -> bool:
        if self._sync.chance(self.failing):
            self._trace.sometimes("sync-error")
            return True
        return False

    def syncs_at_last(self) -> bool:
        """Whether a sync during which the power fails is durable although it raised."""
        return self._last.chance(0.5)

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """The disk has space and every sync succeeds."""
        before, self.full, self.failing = (self.full, self.failing), 0.0, 0.0
        try:
            yield
        finally:
            self.full, self.failing = before

    def die(self) -> dict[str, bytes]:
        """The power fails: returns the content of each file afterwards. All operations fail until
        `revive`."""
        self.dying, self.is_dead = None, True
        return {
            name: blocks.after_power_loss(self._draw, self._trace)
            for name, blocks in sorted(self.files.items())
        }

    def revive(self, contents: dict[str, bytes]) -> None:
        """The power is back; the database must be closed."""
        for path in self.folder.iterdir():
            path.unlink()
        self.files.clear()
        for name, content in contents.items():
            Path(name).write_bytes(content)
            self.blocks(name).safe = bytearray(content)
        self.is_dead = False


class DiskFile(apsw.VFSFile):
    """A file of the disk. The real file below it always has all writes."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name or "")
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        disk = self._disk
        disk.operate()
        if disk.finds_full():
            raise apsw.FullError("the simulated disk is full")
        disk.blocks(self._name).loose.append(Write(offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.operate()
        self._disk.blocks(self._name).loose.append(newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        was_dead = self._disk.is_dead
        try:
            self._disk.operate()
        except apsw.IOError:
            if not was_dead and self._disk.syncs_at_last():
                self._disk.blocks(self._name).sync()
            raise
        if self._disk.fails_to_sync():
            raise apsw.IOError("the simulated sync has failed")
        self._disk.blocks(self._name).sync()

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        if op == LOCK_TIMEOUT:  # Nine of ten calls. There is one connection: no lock is waited for.
            return False
        if op == COMMITTED:
            self._disk.has_committed = True
        return super().xFileControl(op, ptr)
