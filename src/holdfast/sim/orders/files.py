"""A disk for the order store that tracks what was synced: see `holdfast.orders.logstore.disk.Disk`.

Promises: after a power loss the directory holds what was synced. Of later writes it holds a random part
(the last one torn at any byte, or without some sectors). Of renames and removals after the last sync of
the folder it holds a prefix. On demand a write finds no space, or fails, or the process is killed in the
middle of a step. The real files always have what a live process would read.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from holdfast.orders.logstore.disk import TEMPORARY, Disk
from holdfast.sim.blocking_thread import Killed
from holdfast.sim.disk import SECTOR, Blocks, Write, _apply
from holdfast.sim.draw import Draw
from holdfast.sim.trace import Trace

T = TypeVar("T")
MARK: Final = "orders.mark"
Move = tuple[str, str, int | None]
"""(from, to, file): a new name, a rename, or (without `to`) a removal in the folder."""


class Files(Disk):
    """The disk of one simulated trader's machine."""

    def __init__(self, folder: Path, draw: Draw, trace: Trace) -> None:
        self.folder = folder
        self._draw = draw
        self._trace = trace
        self._blocks: dict[int, Blocks] = {}
        self._file_of: dict[int, int] = {}
        """The simulated number of a file, by its system number."""
        self._names: dict[str, int] = {}
        """What the folder holds at least after a power loss."""
        self._moves: list[Move] = []
        self._path = folder
        self._written = 0
        self.full = 0.0
        self.failing = 0.0
        self.dying: tuple[int, str] | None = None
        """(remaining operations, crash or power)"""
        self.is_dead = False
        self.when_dying: Callable[[str], None] = lambda _: None
        self.before_trouble: Callable[[], None] = lambda: None

    # -- called by the product
    # -----------------------------------------------------------------------

    def step(self, name: str, do: Callable[[], T]) -> T:
        is_sync = name.startswith("sync new")
        self._operate()
        if is_sync and self._draw.chance(self.failing):
            self._trace.sometimes("orders-sync-error")
            raise OSError(errno.EIO, "the simulated sync has failed")
        done = do()
        self._note(name)
        self._operate()
        return done

    def put(self, file: int, data: bytes | memoryview) -> int:
        known, at = self._known(file), os.fstat(file).st_size
        blocks, whole = self._blocks[known], bytes(data)
        self._written = known
        if self._draw.chance(self.full):
            part = self._draw.below(len(whole))
            blocks.loose.append(Write(at, whole[:part]))
            super().put(file, whole[:part])
            self._trace.sometimes("orders-disk-full")
            raise OSError(errno.ENOSPC, "the simulated disk is full")
        blocks.loose.append(Write(at, whole))
        try:
            self._operate()
        except Killed:
            super().put(file, whole[: self._draw.below(len(whole) + 1)])
            raise
        super().put(file, whole)
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DSYNC:
            if self._draw.chance(self.failing):
                self.before_trouble()
                blocks.loose.clear()  # the system has dropped what it could not write
                self._trace.sometimes("orders-sync-error")
                raise OSError(errno.EIO, "the simulated write has failed")
            blocks.sync()
        return len(whole)

    def truncate(self, file: int, size: int, what: str) -> None:
        self._blocks[self._known(file)].loose.append(size)
        super().truncate(file, size, what)

    def replace(self, path: Path, data: bytes, what: str) -> None:
        self._path = path
        super().replace(path, data, what)

    def remove(self, path: Path, what: str) -> None:
        self._path = path
        super().remove(path, what)

    # -- durability
    # -----------------------------------------------------------------------------------

    def _note(self, name: str) -> None:
        """Updates the durable state after a finished step."""
        beside = self._path.with_name(self._path.name + TEMPORARY)
        match name.split():
            case ["create", _]:
                number = len(self._blocks) + 1
                self._blocks[number] = Blocks()
                self._file_of[beside.stat().st_ino] = number
                self._moves.append(("", beside.name, number))
            case ["rename", _]:
                self._moves.append((beside.name, self._path.name, None))
            case ["remove", _]:
                self._moves.append((self._path.name, "", None))
            case ["sync", "folder", *_]:
                for move in self._moves:
                    _move(self._names, move)
                self._moves.clear()
            case ["sync", *_]:
                self._blocks[self._written].sync()

    def _known(self, file: int) -> int:
        return self._file_of[os.fstat(file).st_ino]

    def _operate(self) -> None:
        if self.dying is not None:
            left, kind = self.dying
            self.dying = (left - 1, kind)
            if left <= 0:
                self.dying, self.is_dead = None, True
                self._trace.sometimes(f"orders-{kind}-in-a-write")
                self.before_trouble()
                self.when_dying(kind)
        if self.is_dead:
            raise Killed

    def lose_power(self) -> None:
        """Loses a part of what is not durable. The files must be closed."""
        names = dict(self._names)
        for move in self._moves[: self._draw.below(len(self._moves) + 1)]:
            _move(names, move)
        found = {name: self._survived(number) for name, number in sorted(names.items())}
        mark = self.folder / MARK
        if mark.exists() and self._draw.chance(0.7):
            found[MARK] = mark.read_bytes()
        for path in sorted(self.folder.iterdir()):
            path.unlink()
        self._blocks.clear()
        self._file_of.clear()
        self._names.clear()
        self._moves.clear()
        for name, content in found.items():
            path = self.folder / name
            path.write_bytes(content)
            if name != MARK:
                number = self._names[name] = len(self._blocks) + 1
                self._blocks[number] = Blocks()
                self._blocks[number].safe = bytearray(content)
                self._file_of[path.stat().st_ino] = number

    def _survived(self, number: int) -> bytes:
        blocks = self._blocks[number]
        found = bytearray(blocks.safe)
        for change in blocks.loose:
            if isinstance(change, int):
                if self._draw.chance(0.5):
                    _apply(found, change)
            elif self._draw.chance(0.7):
                self._trace.sometimes("orders-torn")
                _apply(found, self._torn(change))
        return bytes(found)

    def _torn(self, write: Write) -> Write:
        """Its beginning, or, because a disk writes in any order, all of it without some sectors."""
        size = len(write.data)
        if self._draw.chance(0.5):
            return Write(write.offset, write.data[: self._draw.below(size + 1)])
        left = bytearray(write.data)
        for sector in range(write.offset // SECTOR, (write.offset + size) // SECTOR + 1):
            if self._draw.chance(0.5):
                begin = max(0, sector * SECTOR - write.offset)
                end = min(size, (sector + 1) * SECTOR - write.offset)
                left[begin:end] = bytes(end - begin)
        return Write(write.offset, bytes(left))

    def revive(self) -> None:
        """Allows the next process to work."""
        self.dying, self.is_dead = None, False

    def heal(self) -> None:
        """Ends all faults."""
        self.full = self.failing = 0.0
        self.dying = None


def _move(names: dict[str, int], move: Move) -> None:
    before, after, number = move
    if number is None:
        number = names.pop(before, None)
    if after and number is not None:
        names[after] = number
