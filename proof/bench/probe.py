"""Counts and timestamps of handlers, cheap and alike for every subject and process.

Each worker process appends 16-byte records to its own memory-mapped file; the measuring side
reads the headers while the work runs and the records afterwards. ``time.monotonic_ns`` is one clock
for all processes of a Linux machine. A hit costs about a microsecond.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import threading
import time
from pathlib import Path
from typing import NamedTuple

from proof.lab.subject import probe_folder

SLOTS = 2_500_000
HEADER = 16
RECORD = struct.Struct("<qq")
COUNT = struct.Struct("<q")
CPU_LOOPS = 70_000
"""About two milliseconds of pure Python."""
SLOW_SECONDS = 3.0
BLOCK_SECONDS = 600.0
KINDS = ("noop", "cpu", "stamp", "slow", "block")


class _Writer:
    """The mapped file of this process; made at the first hit, and again after a fork."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.map: mmap.mmap | None = None
        self.count = 0

    def hit(self, value: int) -> None:
        now = time.monotonic_ns()
        with self.lock:
            if self.map is None:
                self.map = self._open()
            RECORD.pack_into(self.map, HEADER + self.count * 16, now, value)
            self.count += 1
            COUNT.pack_into(self.map, 0, self.count)

    def _open(self) -> mmap.mmap:
        path = probe_folder() / f"{os.getpid()}-{time.monotonic_ns()}.hits"
        with path.open("wb+") as file:
            file.truncate(HEADER + SLOTS * 16)
            return mmap.mmap(file.fileno(), 0)


_writer = _Writer()


def _after_fork() -> None:
    global _writer
    _writer = _Writer()


os.register_at_fork(after_in_child=_after_fork)


def _note(word: str, number: int) -> None:
    line = f"{word} {number} {time.monotonic_ns()}\n".encode()
    fd = os.open(probe_folder() / "runs.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)


def run(kind: str, arg: int) -> None:
    """Body of every synchronous handler."""
    if kind == "noop":
        _writer.hit(0)
    elif kind == "stamp":
        _writer.hit(time.monotonic_ns() - arg)
    elif kind == "cpu":
        total = 0
        for number in range(CPU_LOOPS):
            total += number
        _writer.hit(0)
    else:
        _note("start", arg)
        time.sleep(SLOW_SECONDS if kind == "slow" else BLOCK_SECONDS)
        _note("end", arg)


async def run_async(kind: str, arg: int) -> None:
    """Body of every asynchronous handler: as :func:`run`, sleeping without blocking the loop."""
    if kind in ("slow", "block"):
        _note("start", arg)
        await asyncio.sleep(SLOW_SECONDS if kind == "slow" else BLOCK_SECONDS)
        _note("end", arg)
    else:
        run(kind, arg)


class Hit(NamedTuple):
    """One finished handler: when, and its value (latency in ns for ``stamp``)."""

    at: int
    value: int


class Run(NamedTuple):
    """One line of a slow handler: ``start`` or ``end``, task number, when."""

    word: str
    number: int
    at: int


class Reader:
    """The measuring side."""

    def __init__(self, path: Path) -> None:
        """Read below ``path``."""
        self.path = path

    def count(self) -> int:
        """Handlers finished so far, all processes together."""
        total = 0
        for path in self.path.glob("*.hits"):
            with path.open("rb") as file:
                head = file.read(8)
            total += COUNT.unpack(head)[0] if len(head) == 8 else 0
        return total

    def hits(self) -> list[Hit]:
        """All records in order of time."""
        found: list[Hit] = []
        for path in self.path.glob("*.hits"):
            with path.open("rb") as file:
                head = file.read(HEADER)
                if len(head) == HEADER:
                    data = file.read(COUNT.unpack(head[:8])[0] * 16)
                    found += [Hit(*record) for record in RECORD.iter_unpack(data)]
        return sorted(found)

    def runs(self) -> list[Run]:
        """All lines of slow handlers."""
        try:
            lines = (self.path / "runs.log").read_text().splitlines()
        except FileNotFoundError:
            return []
        parts = [line.split() for line in lines]
        return [Run(word, int(number), int(at)) for word, number, at in parts]

    def clear(self) -> None:
        """Deletes all records (between two measurements, with no worker alive)."""
        for path in self.path.glob("*"):
            path.unlink()
