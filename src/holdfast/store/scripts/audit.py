"""Appends rows to the audit, and reads it.

Promises: the head of the chain is locked before a row is made, so two transactions never continue the same
row. Rows, head and the audited act are one transaction: `append` runs inside the script of the act.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from holdfast.core.audit import AuditEntry, AuditHead, AuditRow, next_row
from holdfast.store.script import Script, call, call_rows

TIME_DIGITS: Final = 3
"""Decimals of a time in the audit. A database returns a time with so few digits exactly, and the hash covers
it."""


class Act(msgspec.Struct, frozen=True):
    """What the audit says about an act beside its content: the operation that was authorised, and the
    request."""

    operation: str
    request_id: str = ""


def append(entries: Sequence[AuditEntry]) -> Script[AuditHead]:
    """Puts the entries behind the head, in order. The head is locked until the transaction ends: run this
    behind all other locks, and before the record of the feed."""
    head = AuditHead(*(yield call("lock_audit_head"))[0])
    rows = []
    for entry in entries:
        row = next_row(head, replace(entry, at=round(entry.at, TIME_DIGITS)))
        head = row.head
        rows.append(astuple(row))
    if rows:
        yield call_rows("append_audit", rows)
        yield call("move_audit_head", seq=head.seq, hash=head.hash)
    return head


def read_head() -> Script[AuditHead]:
    return AuditHead(*(yield call("audit_head"))[0])


def read_start() -> Script[AuditHead]:
    """The last row that retention has removed. The chain is verified from there."""
    return AuditHead(*(yield call("audit_start"))[0])


def prune(before: float, limit: int) -> Script[int]:
    """Removes rows that are older than `before` from the beginning of the chain. Returns how many. The hash
    of the last one is kept, so the rest is still verified."""
    yield call("lock_audit_head")
    gone = 0
    start = None
    for seq, at, row_hash in (yield call("old_audit", limit=limit)):
        if at >= before:
            break
        start, gone = AuditHead(seq, row_hash), gone + 1
    if start is not None:
        yield call("drop_audit", seq=start.seq)
        yield call("move_audit_start", seq=start.seq, hash=start.hash)
    return gone


def read_after(seq: int, limit: int) -> Script[list[AuditRow]]:
    """Rows behind `seq`, in the order of the chain."""
    return [_row(row) for row in (yield call("audit_after", seq=seq, limit=limit))]


def read_before(seq: int, limit: int) -> Script[list[AuditRow]]:
    """Rows ahead of `seq`, the latest first."""
    return [_row(row) for row in (yield call("audit_before", seq=seq, limit=limit))]


def _row(values: Sequence[Any]) -> AuditRow:
    return AuditRow(**dict(zip(AuditRow.__struct_fields__, values, strict=True)))
