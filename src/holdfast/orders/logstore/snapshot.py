"""Snapshots: all orders and remembered answers as of one record of the log, in one checked file.

    {"format":1,"lineage":…,"seq":42,"orders":2,…}                   head with line counts
    {"client_order_id":…,"symbol":…,"state":"OPEN",…}                 one line for each order
    {"operation":"place","key":…,…}                                   one for each remembered answer
    {"blake2b":…}                                                     over all lines above

Promises: a file with one changed or missing byte is refused. Never: a partial snapshot under its final
name.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from holdfast.orders.errors import CorruptSnapshot
from holdfast.orders.model.order import Answered, FreezeState, Order

FORMAT: Final = 1


class SnapshotHead(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    format: int
    lineage: str
    seq: int
    """The number of the last record that it contains."""
    orders: int
    answered: int
    freeze: FreezeState
    saved_at: float


class SnapshotFoot(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    blake2b: str


class Snapshot(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    head: SnapshotHead
    orders: list[Order]
    answered: list[Answered]


_encoder: Final = msgspec.json.Encoder(order="sorted", decimal_format="string")
_head: Final = msgspec.json.Decoder(SnapshotHead)
_foot: Final = msgspec.json.Decoder(SnapshotFoot)
_order: Final = msgspec.json.Decoder(Order)
_answered: Final = msgspec.json.Decoder(Answered)


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    lines = [_encoder.encode(snapshot.head)]
    lines += [_encoder.encode(order) for order in snapshot.orders]
    lines += [_encoder.encode(done) for done in snapshot.answered]
    body = b"\n".join(lines) + b"\n"
    return body + _encoder.encode(SnapshotFoot(blake2b=_digest(body))) + b"\n"


def read_snapshot(path: Path, data: bytes) -> Snapshot:
    """Raises CorruptSnapshot unless every byte is as it was written."""
    body, foot = _split(data)
    try:
        if not body or _foot.decode(foot).blake2b != _digest(body):
            raise _damaged(path, "it does not match its checksum")
        lines = body[:-1].split(b"\n")
        head = _head.decode(lines[0])
        if head.format != FORMAT:
            raise CorruptSnapshot(
                f"{path} has format {head.format}; this version of Holdfast reads {FORMAT}: open it "
                "with the version that wrote it"
            )
        if len(lines) != 1 + head.orders + head.answered:
            raise _damaged(path, "its number of lines differs from its head")
        orders = [_order.decode(line) for line in lines[1 : 1 + head.orders]]
        answered = [_answered.decode(line) for line in lines[1 + head.orders :]]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    return Snapshot(head=head, orders=orders, answered=answered)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The checked lines, and the last line with the checksum."""
    if not data.endswith(b"\n"):
        return b"", b""
    at = data.rfind(b"\n", 0, len(data) - 1) + 1
    return data[:at], data[at:-1]


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _damaged(path: Path, what: str) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"{path} is damaged: {what}. Nothing was changed. Restore the state directory from a copy, or "
        "reconcile with the exchange and start a new one"
    )
