"""What claims of an offline node have written and the server may not have: output and named checkpoints.

Promises: a report is on the disk when `append` returns, with the fence of its claim and, for output, its
offset in the stream. It stays until the server has answered it. Reports are read in the order of writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.client.node.database import NodeDatabase
from holdfast.core import codec
from holdfast.core.exchange.offline import Fields

MAKE_REPORTS: Final = """
CREATE TABLE report (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL, claim_id TEXT NOT NULL,
    fence INTEGER NOT NULL, stream TEXT, start INTEGER, data BLOB, point TEXT
);
CREATE TABLE stream_end (
    task_id TEXT NOT NULL, fence INTEGER NOT NULL, stream TEXT NOT NULL, end INTEGER NOT NULL,
    PRIMARY KEY (task_id, fence, stream)
) WITHOUT ROWID;
"""
HEAD_ROWS: Final = 64
"""Rows that are read at once."""
ROW_BYTES: Final = 64
"""What a row counts beside its content."""


class HeldClaim(msgspec.Struct, frozen=True):
    """A claim of this node. `fence` is None until the server has answered."""

    task_id: str
    claim_id: str
    fence: int | None


class WrittenOutput(msgspec.Struct, frozen=True):
    """Bytes of a stream, in one or more rows."""

    seqs: tuple[int, ...]
    claim: HeldClaim
    stream: str
    start: int
    data: bytes


class WrittenPoint(msgspec.Struct, frozen=True):
    """A named checkpoint, as the protocol names its fields."""

    seqs: tuple[int, ...]
    claim: HeldClaim
    point: Fields


WrittenReport: TypeAlias = WrittenOutput | WrittenPoint


class ReportLog:
    """The reports in the database of one node."""

    def __init__(self, db: NodeDatabase) -> None:
        self._db = db
        self._size: int | None = None

    def append_output(self, claim: HeldClaim, stream: str, parts: Sequence[bytes]) -> None:
        """Adds bytes where the stream ends here."""
        key = (claim.task_id, claim.fence, stream)
        with self._db.transaction():
            found = "SELECT end FROM stream_end WHERE task_id = ? AND fence = ? AND stream = ?"
            end = next((end for (end,) in self._db.execute(found, key)), 0)
            for data in parts:
                self._db.execute(
                    "INSERT INTO report (task_id, claim_id, fence, stream, start, data) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (claim.task_id, claim.claim_id, claim.fence, stream, end, data),
                )
                end += len(data)
                self._size = self.size() + ROW_BYTES + len(data)
            self._db.execute("INSERT OR REPLACE INTO stream_end VALUES (?, ?, ?, ?)", (*key, end))

    def append_point(self, claim: HeldClaim, point: Fields) -> None:
        self._size = None
        self._db.execute(
            "INSERT INTO report (task_id, claim_id, fence, point) VALUES (?, ?, ?, ?)",
            (claim.task_id, claim.claim_id, claim.fence, codec.dumps(point)),
        )

    def head(self, bytes_max: int, task_id: str | None = None) -> WrittenReport | None:
        """The oldest report, of one task or of all. Output that follows it directly in the same stream is
        joined to it, up to `bytes_max`."""
        rows = self._rows(task_id)
        first = next(rows, None)
        if first is None or isinstance(first, WrittenPoint):
            return first
        seqs, data = [*first.seqs], bytearray(first.data)
        for row in rows:
            end = first.start + len(data)
            if not isinstance(row, WrittenOutput) or len(data) + len(row.data) > bytes_max:
                break
            if (row.claim, row.stream, row.start) != (first.claim, first.stream, end):
                break
            seqs += row.seqs
            data += row.data
        return msgspec.structs.replace(first, seqs=tuple(seqs), data=bytes(data))

    def of_claim(self, claim: HeldClaim) -> list[WrittenReport]:
        """The reports of a claim, oldest first."""
        return [row for row in self._rows(claim.task_id, -1) if row.claim == claim]

    def _rows(self, task_id: str | None, limit: int = HEAD_ROWS) -> Iterator[WrittenReport]:
        rows: list[Any] = self._db.execute(
            "SELECT seq, task_id, claim_id, fence, stream, start, data, point FROM report "
            "WHERE ?1 IS NULL OR task_id = ?1 ORDER BY seq LIMIT ?2",
            (task_id, limit),
        ).fetchall()
        for seq, task, claim_id, fence, stream, start, data, point in rows:
            claim = HeldClaim(task, claim_id, fence)
            if point is None:
                yield WrittenOutput((seq,), claim, stream, start, data)
            else:
                yield WrittenPoint((seq,), claim, codec.loads_object(point))

    def remove(self, report: WrittenReport) -> None:
        """The server has answered it."""
        self._size = None
        with self._db.transaction():
            for seq in report.seqs:
                self._db.execute("DELETE FROM report WHERE seq = ?", (seq,))

    def size(self) -> int:
        """The bytes of all reports. A row counts some beside its content."""
        if self._size is None:
            rows: Any = self._db.execute(
                "SELECT count(*), coalesce(sum(length(coalesce(data, point))), 0) FROM report"
            )
            count, size = rows.fetchall()[0]
            self._size = int(count) * ROW_BYTES + int(size)
        return self._size

    def is_waiting(self, task_id: str) -> bool:
        """Whether a task has reports."""
        query = "SELECT 1 FROM report WHERE task_id = ? LIMIT 1"
        return bool(self._db.execute(query, (task_id,)).fetchall())

    def claims(self) -> list[HeldClaim]:
        """The claims that have reports."""
        rows: Any = self._db.execute("SELECT DISTINCT task_id, claim_id, fence FROM report")
        return [HeldClaim(*row) for row in rows]

    def forget(self, claim: HeldClaim) -> None:
        """A claim has ended: nothing follows in its streams."""
        self._db.execute(
            "DELETE FROM stream_end WHERE task_id = ? AND fence = ?", (claim.task_id, claim.fence)
        )
