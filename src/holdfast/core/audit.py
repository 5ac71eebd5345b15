"""The audit: a chain of rows, one for each act of an operator.

The hash of a row covers the row and the hash of the row before it. The head (number and hash of the last row)
is stored apart and is moved in the transaction of the act.
Promises: with the head, `verify` finds every row that was changed, removed, inserted or moved. A row has no
secret (`core.redaction`).
Never: protects against a writer who rewrites the rows and the head. Copy the head to another place for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from holdfast.core import codec
from holdfast.core.redaction import DEFAULT


class AuditHead(NamedTuple):
    """The end of a chain: the number of its last row, and that row's hash."""

    seq: int
    hash: str


EMPTY: Final = AuditHead(0, "0" * 64)
"""The head of a chain without rows."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What an act writes down."""

    at: float
    actor: str
    operation: str
    project: str
    subject: str
    reason: str = ""
    before_version: int | None = None
    after_version: int | None = None
    detail_json: str = "{}"
    request_id: str = ""


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in its place in the chain: one row of the store."""

    seq: int
    at: float
    actor: str
    operation: str
    project: str
    subject: str
    reason: str
    before_version: int | None
    after_version: int | None
    detail_json: str
    request_id: str
    prev_hash: str
    hash: str

    @property
    def head(self) -> AuditHead:
        """The head of the chain that ends with this row."""
        return AuditHead(self.seq, self.hash)


def next_row(head: AuditHead, entry: AuditEntry) -> AuditRow:
    """The row that puts the entry behind the head."""
    values = {**msgspec.structs.asdict(entry), "at": float(entry.at)}
    values["reason"] = DEFAULT.text(entry.reason)
    values["detail_json"] = codec.dumps(DEFAULT.value(codec.loads(entry.detail_json)))
    row = AuditRow(seq=head.seq + 1, prev_hash=head.hash, hash="", **values)
    return msgspec.structs.replace(row, hash=row_hash(row))


def canonical(row: AuditRow) -> str:
    """The canonical JSON of the row, without its two hashes."""
    values = msgspec.structs.asdict(row)
    del values["hash"], values["prev_hash"]
    return codec.dumps(values)


def row_hash(row: AuditRow) -> str:
    """SHA-256 of the hash before it, as 64 hexadecimal digits, followed by its canonical JSON."""
    return hashlib.sha256(f"{row.prev_hash}{canonical(row)}".encode()).hexdigest()


def verify(
    rows: Iterable[AuditRow], prev: AuditHead = EMPTY, head: AuditHead | None = None
) -> int | None:
    """The number of the first row that is wrong or missing; None when the chain from `prev` is whole.

    A long chain is verified page by page: `prev` is the head of the page before. Give the stored `head` with
    the last page; without it, rows that are missing at the end are not found."""
    for row in rows:
        number = prev.seq + 1
        is_beyond = head is not None and number > head.seq
        if is_beyond or row.seq != number or row.prev_hash != prev.hash or not _is_sealed(row):
            return number
        prev = row.head
    if head is None or prev == head:
        return None
    return prev.seq + 1 if prev.seq < head.seq else head.seq


def _is_sealed(row: AuditRow) -> bool:
    """Whether the row has its hash. A value that JSON does not have, e.g. NaN, was never in a row."""
    try:
        return row.hash == row_hash(row)
    except (TypeError, ValueError):
        return False
