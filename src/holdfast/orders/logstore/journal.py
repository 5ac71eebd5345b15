"""The log and the snapshots of one state directory.

Promises: lines are on the disk when `append` returns. When it raises, none of them counts; if what is on
the disk is not known, the journal accepts no more.
Never: decides; interprets a change; writes a record whose number is not the next.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from holdfast.errors import NotRunning
from holdfast.metrics import Meter
from holdfast.orders import metrics as measured
from holdfast.orders.errors import FULL, CorruptState, StoreFailed, disk_error, unknown_state
from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.snapshot import FORMAT, Snapshot, SnapshotHead
from holdfast.orders.logstore.statedir import Found, StateDir, hold
from holdfast.orders.model.book import Contents, MemoryBook
from holdfast.store.backends import fresh_ids

logger: Final = logging.getLogger("holdfast.orders")
NOT_WRITTEN: Final = FULL | {errno.EFBIG}
"""Errors that say that the disk is full. Then it is known what was written."""
ROTATE_BYTES: Final = 16 * 1024 * 1024
"""A log file is rewritten once at every start, so its size is bounded."""


class Journal:
    """Used by one process, in one thread at a time (the group commit ensures it)."""

    def __init__(
        self, folder: Path, *, disk: Disk, timer: Callable[[], float], meter: Meter
    ) -> None:
        self._disk = disk
        self._timer = timer
        self._meter = meter
        self._place = StateDir(folder, disk)
        self._file: int | None = None
        self._path = folder
        """Size of the current log file."""
        self._size = 0
        self._failure: StoreFailed | None = None
        self._is_midway = False
        """Set while the files change. If it is still set later, an interrupt came in between."""
        self._saved_at: float | None = None
        self.lineage = ""
        self.seq = 0
        """The last record on the disk."""
        self.bytes_since_snapshot = 0
        self.sync_seconds = 0.0
        """Moving average of the time of a write."""

    def open(self, book: MemoryBook) -> None:
        """Locks the directory and loads its durable state into the book."""
        self._place.take()
        try:
            found = self._place.recover(lambda: fresh_ids().token() + fresh_ids().token())
            _fill(book, found)
            self._path = self._place.mend(found)
            self._file = self._disk.open(self._path, "log")
            hold(self._file, self._place.folder)
            self._size = os.fstat(self._file).st_size
        except OSError as error:
            raise disk_error(error, f"the state in {self._place.folder} cannot be read") from error
        self.lineage, self.seq = found.lineage, found.seq
        self.bytes_since_snapshot = found.log_bytes
        self._mark()
        self._tell(found)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._place.leave()

    def check_writable(self) -> None:
        if self._failure is not None:
            raise StoreFailed(*self._failure.args) from self._failure

    def fail(self, error: StoreFailed) -> None:
        """Accepts no more records."""
        self._failure = self._failure or error

    def append(self, first: int, lines: Sequence[bytes]) -> None:
        """Writes and syncs records `first`, `first` + 1 …; they are durable when this returns."""
        self._check_whole()
        if self._file is None:
            raise NotRunning("the order store was closed: open a new one")
        if first != self.seq + 1:
            self.fail(
                StoreFailed(
                    f"record {first} is not the next of the order log, {self.seq + 1} is: nothing was "
                    "written; open the store again"
                )
            )
            self.check_writable()
        if self._size >= ROTATE_BYTES:
            self._next_file()
        data = b"".join(lines)
        begun = self._timer()
        self._is_midway = True
        self._write(self._file, data)
        self._size += len(data)
        self.seq += len(lines)
        self.bytes_since_snapshot += len(data)
        self._is_midway = False
        self._mark()
        took = self._timer() - begun
        self.sync_seconds += 0.1 * (took - self.sync_seconds)
        self._meter.observe(measured.SYNC_SECONDS, took)
        self._meter.count(measured.BATCHES)
        self._meter.count(measured.RECORDS, len(lines))
        self._meter.gauge(measured.LOG_BYTES, self.bytes_since_snapshot)

    def _write(self, file: int, data: bytes) -> None:
        try:
            self._disk.write(file, data, "log")
            self._disk.sync(file, "log")
        except OSError as error:
            if error.errno not in NOT_WRITTEN:
                self._failure = unknown_state(error, "a write of the order log")
                raise self._failure from error
            self._cut_back(error)
            self._is_midway = False
            raise disk_error(error, "the order log cannot be written") from error
        self._check_place(file)

    def _check_place(self, file: int) -> None:
        """A write counts only if it is in the file that the next process will read."""
        try:
            is_there = self._disk.is_at(file, self._path, "log")
        except OSError as error:
            self._failure = unknown_state(error, "a look at the order log")
            raise self._failure from error
        if not is_there:
            self.fail(
                StoreFailed(
                    f"{self._path} is not the file that this store writes: the state directory was moved, "
                    "removed or replaced under it, and nothing of this write was acknowledged; put it "
                    "back and open the store again"
                )
            )
            self.check_writable()

    def _check_whole(self) -> None:
        """Called by the one thread that changes the files."""
        if self._is_midway:
            self.fail(StoreFailed("an interrupt stopped a write: open the store again"))
        self.check_writable()

    def save(self, contents: Contents, seq: int, now: float) -> Path:
        """Writes a snapshot of everything up to record `seq`."""
        self.check_writable()
        begun = self._timer()
        head = SnapshotHead(
            format=FORMAT,
            lineage=self.lineage,
            seq=seq,
            orders=len(contents.orders),
            answered=len(contents.answered),
            freeze=contents.freeze,
            saved_at=now,
        )
        snapshot = Snapshot(head=head, orders=contents.orders, answered=contents.answered)
        try:
            path, size = self._place.save(snapshot)
        except OSError as error:
            raise disk_error(error, "the snapshot cannot be saved") from error
        self._saved_at = now
        self._meter.gauge(measured.SNAPSHOT_SAVED_AT, now)
        self._meter.gauge(measured.SNAPSHOT_ORDER_COUNT, len(contents.orders))
        self._meter.gauge(measured.SNAPSHOT_BYTES, size)
        self._meter.observe(measured.SNAPSHOT_SECONDS, self._timer() - begun)
        self.measure_age(now)
        return path

    def rotate(self, now: float) -> None:
        """Continues in a new log file, and removes files that the snapshots have replaced."""
        self._next_file()
        self.bytes_since_snapshot = 0
        self._meter.gauge(measured.LOG_BYTES, 0.0)
        self.measure_age(now)
        try:
            self._place.compact()
        except OSError as error:
            raise disk_error(error, "old log files cannot be removed") from error

    def _next_file(self) -> None:
        """Not allowed after a write with an unknown result: its record number may be taken."""
        self._check_whole()
        assert self._file is not None
        self._is_midway = True
        path = self._place.log_path(self.seq + 1)
        try:
            self._place.start_log(self.lineage, self.seq + 1)
            following = self._disk.open(path, "log")
        except OSError as error:
            if path.exists():  # Both files would contain the next record.
                self._failure = unknown_state(error, "the start of a new log file")
                raise self._failure from error
            self._is_midway = False
            raise disk_error(error, "a new log file cannot be started") from error
        before, self._file, self._size = self._file, following, os.fstat(following).st_size
        self._path = path
        os.close(before)
        hold(following, self._place.folder)
        self._is_midway = False

    def check_same(self, contents: Contents) -> None:
        """Raises CorruptState unless the directory equals the state of the store. After a failed write
        there is nothing to compare."""
        self.check_writable()
        book = MemoryBook()
        _fill(book, self._place.recover(lambda: self.lineage))
        found = book.contents()
        if (found.orders, found.freeze) != (contents.orders, contents.freeze):
            raise CorruptState(
                f"{self._place.folder} differs from what this store wrote: another program changed it. "
                "Stop, and compare it with the exchange"
            )

    def measure_age(self, now: float) -> None:
        if self._saved_at is not None:
            self._meter.gauge(measured.SNAPSHOT_AGE, max(0.0, now - self._saved_at))

    def _cut_back(self, error: OSError) -> None:
        """Removes a write that did not fit. If that fails too, what is on the disk is not known."""
        assert self._file is not None
        try:
            self._disk.truncate(self._file, self._size, "log")
        except OSError as worse:
            self._failure = unknown_state(worse, "a write of the order log")
            raise self._failure from error

    def _mark(self) -> None:
        try:
            self._place.mark(self.lineage, self.seq)
        except OSError as error:
            logger.warning("orders.mark cannot be written: %s", error)

    def _tell(self, found: Found) -> None:
        for reason in found.refused:
            logger.warning("[RECOVER] a snapshot was not used: %s", reason)
        if found.torn_bytes:
            logger.warning("[RECOVER] removed %d bytes of an incomplete write", found.torn_bytes)
        if found.snapshot is not None:
            self._saved_at = found.snapshot.head.saved_at
            self._meter.gauge(measured.SNAPSHOT_SAVED_AT, self._saved_at)
            self._meter.gauge(measured.SNAPSHOT_ORDER_COUNT, len(found.snapshot.orders))
        self._meter.gauge(measured.RECOVERY_GAP, len(found.tail))
        self._meter.gauge(measured.TORN_BYTES, found.torn_bytes)
        self._meter.gauge(measured.LOG_BYTES, found.log_bytes)


def _fill(book: MemoryBook, found: Found) -> None:
    if found.snapshot is not None:
        book.load(found.snapshot.orders, found.snapshot.answered)
        book.freeze = found.snapshot.head.freeze
    for record in found.tail:
        book.apply(record.change)
