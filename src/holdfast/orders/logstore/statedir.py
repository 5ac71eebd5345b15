"""The state directory: which process may use it, its files, and its recovery after a crash.

    .                        the folder itself is locked (flock) by the one process that uses it
    orders.lock              locked too; contains the id of that process
    orders.mark              the last acknowledged record: evidence, not the source of truth
    log-<first>.jsonl        the append log, in files; the last one is locked
    snapshot-<seq>.jsonl     the two latest snapshots

Promises: two processes never use the directory at once, whatever file is removed, and the lock of a dead
process is free. Recovery returns every acknowledged record, or reports the damage and changes nothing.
Folder and files are accessible by their owner only.
Never: guesses past damage.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from holdfast.orders.errors import CorruptLog, CorruptSnapshot, StateLocked, disk_error
from holdfast.orders.logstore.disk import FOLDER_MODE, TEMPORARY, Disk
from holdfast.orders.logstore.log import LogFile, Record, head_line, read_log
from holdfast.orders.logstore.snapshot import Snapshot, read_snapshot, snapshot_bytes

KEEP_SNAPSHOTS: Final = 2
DIGITS: Final = 16


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the directory."""

    lineage: str
    seq: int
    snapshot: Snapshot | None
    tail: list[Record]
    """The records after the snapshot."""
    refused: list[str]
    """Snapshots that could not be used, with the reason."""
    torn_bytes: int
    log_bytes: int


class StateDir:
    """One directory, locked by this process from `take` to `leave`."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self._disk = disk
        self._locks: list[int] = []
        self._mark: int | None = None

    # -- locks
    # -------------------------------------------------------------------------------------

    def take(self) -> None:
        """Raises StateLocked when another process, or another store of this process, uses the directory."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            # A lock file can be removed while it is locked; the folder that contains it cannot.
            self._hold(os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            file = self._hold(os.open(self.folder / "orders.lock", flags, self._disk.file_mode))
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
        except BaseException as error:
            self.leave()
            if isinstance(error, OSError):
                raise disk_error(
                    error, f"the state directory {self.folder} cannot be used"
                ) from error
            raise

    def _hold(self, file: int) -> int:
        self._locks.append(file)
        hold(file, self.folder)
        return file

    def leave(self) -> None:
        """Closes the files, which frees the locks. The end of the process frees them too."""
        files = self._locks if self._mark is None else [*self._locks, self._mark]
        self._locks, self._mark = [], None
        for file in files:
            os.close(file)

    # -- contents
    # ----------------------------------------------------------------------------------

    def recover(self, fresh_lineage: Callable[[], str]) -> Found:
        """Newest good snapshot and the log after it. Removes an incomplete last write."""
        for path in self.folder.glob(f"*{TEMPORARY}"):
            self._disk.remove(path, "leftover")
        snapshot, refused = self._newest_snapshot()
        files = self._read_logs(snapshot)
        mark = self._read_mark()
        if not files and snapshot is None:
            return self._fresh(fresh_lineage(), mark, refused)
        found = self._joined(snapshot, files, refused)
        if mark is not None and mark[0] == found.lineage and mark[1] > found.seq:
            raise CorruptLog(
                f"{self.folder} ends at record {found.seq} and {mark[1]} was acknowledged: the end of "
                "the log is missing. Nothing was changed. Restore the state directory from a copy, or "
                "reconcile with the exchange and start a new one"
            )
        return found

    def mend(self, found: Found) -> Path:
        """Rewrites the last log file and returns it. The new file has no incomplete write, and nothing in
        it depends on a sync that may have failed before the restart. The folder is synced too: an earlier
        process may have crashed between the rename and the sync."""
        paths = self.log_paths()
        if not paths:
            return self.start_log(found.lineage, found.seq + 1)
        # The folder may be a copy around a file that another store still has open.
        file = os.open(paths[-1], os.O_RDWR | os.O_CLOEXEC)
        try:
            hold(file, self.folder)
            self._rewrite(paths[-1])
        finally:
            os.close(file)
        return paths[-1]

    def _rewrite(self, path: Path) -> None:
        data = path.read_bytes()
        good = read_log(path, data, is_last=True)
        # A record is a JSON object, so this only strips the end of the line.
        whole = data[: good.good_bytes].rstrip(b"\0]\n") + b"]\n"
        if good.records or whole != data:
            self._disk.replace(path, whole, "log")
        else:
            self._disk.sync_folder(self.folder, "log")

    def start_log(self, lineage: str, first: int) -> Path:
        path = self.log_path(first)
        self._disk.replace(path, head_line(lineage, first), "log")
        return path

    def save(self, snapshot: Snapshot) -> tuple[Path, int]:
        """Writes a snapshot. Returns its path and size."""
        data = snapshot_bytes(snapshot)
        path = self.folder / f"snapshot-{snapshot.head.seq:0{DIGITS}d}.jsonl"
        self._disk.replace(path, data, "snapshot")
        return path, len(data)

    def compact(self) -> None:
        """Removes files that two snapshots have replaced: older snapshots, and log files before them."""
        snapshots = self.snapshot_paths()
        for path in snapshots[:-KEEP_SNAPSHOTS]:
            self._disk.remove(path, "snapshot")
        kept = snapshots[-KEEP_SNAPSHOTS:]
        if len(kept) < KEEP_SNAPSHOTS:
            return
        logs = self.log_paths()
        for path, following in itertools.pairwise(logs):
            if _number(following) - 1 <= _number(kept[0]):
                self._disk.remove(path, "log")

    def mark(self, lineage: str, seq: int) -> None:
        """Notes that a record was acknowledged. Not synced: the mark is never ahead of the log, so it can
        only prove that records are missing."""
        if self._mark is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._mark = os.open(self.folder / "orders.mark", flags, self._disk.file_mode)
        text = f"{lineage} {seq:0{DIGITS}d}".encode()
        os.pwrite(self._mark, b"%s %08x\n" % (text, zlib.crc32(text)), 0)

    def log_path(self, first: int) -> Path:
        return self.folder / f"log-{first:0{DIGITS}d}.jsonl"

    def log_paths(self) -> list[Path]:
        return sorted(self.folder.glob("log-*.jsonl"))

    def snapshot_paths(self) -> list[Path]:
        return sorted(self.folder.glob("snapshot-*.jsonl"))

    def _newest_snapshot(self) -> tuple[Snapshot | None, list[str]]:
        refused: list[str] = []
        for path in reversed(self.snapshot_paths()):
            try:
                found = read_snapshot(path, path.read_bytes())
                if found.head.seq != _number(path):
                    raise CorruptSnapshot(f"{path} is named for another record than it holds")
                return found, refused
            except CorruptSnapshot as error:
                refused.append(str(error))
        return None, refused

    def _read_logs(self, snapshot: Snapshot | None) -> list[LogFile]:
        """The log files that matter after the snapshot, oldest first."""
        paths = self.log_paths()
        if snapshot is not None:
            needed = [path for path in paths if _number(path) <= snapshot.head.seq + 1]
            paths = paths[max(0, len(needed) - 1) :]
        files = []
        for path in paths:
            file = read_log(path, path.read_bytes(), is_last=path == paths[-1])
            if file.head.first != _number(path):
                raise CorruptLog(f"{path} is named for another record than it begins with")
            files.append(file)
        return files

    def _fresh(self, lineage: str, mark: tuple[str, int] | None, refused: list[str]) -> Found:
        if refused:
            raise CorruptSnapshot(f"no snapshot is good and there is no log: {refused[0]}")
        if mark is not None and mark[1] > 0:
            raise CorruptLog(
                f"{self.folder} is empty, and record {mark[1]} was acknowledged: its files are missing. "
                "Restore them from a copy, or remove orders.mark to start empty"
            )
        return Found(
            lineage=lineage, seq=0, snapshot=None, tail=[], refused=[], torn_bytes=0, log_bytes=0
        )

    def _joined(self, snapshot: Snapshot | None, files: list[LogFile], refused: list[str]) -> Found:
        """Snapshot and log as one sequence without a gap."""
        seq = snapshot.head.seq if snapshot is not None else 0
        lineage = snapshot.head.lineage if snapshot is not None else files[0].head.lineage
        if not files or files[0].head.first > seq + 1:
            first = files[0].head.first if files else "none"
            kind = CorruptSnapshot if refused else CorruptLog
            why = f" ({refused[0]})" if refused else ""
            raise kind(
                f"{self.folder} has its state up to record {seq} and a log from record {first}: what is "
                f"between them is missing{why}. Nothing was changed. Restore the state directory from a copy"
            )
        expected = files[0].head.first
        tail = []
        for file in files:
            if file.head.first != expected or file.head.lineage != lineage:
                raise CorruptLog(
                    f"{self.folder}: a log file begins with record {file.head.first} of store "
                    f"{file.head.lineage} where {expected} of {lineage} should follow. Restore the state "
                    "directory from a copy"
                )
            expected = file.last + 1
            tail += [record for record in file.records if record.seq > seq]
        last = max(seq, files[-1].last)
        if last > files[-1].last:
            raise CorruptLog(
                f"{self.folder}: the snapshot is of record {seq} and the log ends at {files[-1].last}: "
                "the end of the log is missing. Restore the state directory from a copy"
            )
        return Found(
            lineage=lineage,
            seq=last,
            snapshot=snapshot,
            tail=tail,
            refused=refused,
            torn_bytes=files[-1].torn_bytes,
            log_bytes=sum(file.good_bytes for file in files),
        )

    def _read_mark(self) -> tuple[str, int] | None:
        """None when there is no mark, or an incomplete one: it is only evidence."""
        try:
            data = (self.folder / "orders.mark").read_bytes()
            text, _, checksum = data.strip().rpartition(b" ")
            if zlib.crc32(text) != int(checksum, 16):
                return None
            lineage, _, seq = text.decode().rpartition(" ")
            return lineage, int(seq)
        except (FileNotFoundError, ValueError):
            return None


def hold(file: int, folder: Path) -> None:
    """Locks an open file of the folder for this process, or raises StateLocked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StateLocked(
            f"another store uses {folder} (process {_holder(folder)}), and only one may: close it, or "
            "use another directory. Removing orders.lock does not free it"
        ) from None


def _holder(folder: Path) -> str:
    try:
        text = (folder / "orders.lock").read_bytes()[:20].decode(errors="replace").strip()
    except OSError:
        return "unknown"
    return text or "unknown"


def _number(path: Path) -> int:
    """The number in a file name; raises for a file of another kind."""
    text = path.stem.rpartition("-")[2]
    if not text.isdecimal():
        raise CorruptLog(f"{path} is not a file of an order store: move it away")
    return int(text)
