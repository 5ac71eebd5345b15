"""The rules of worker sync: which message a receiver applies, and what a worker keeps, sends and resends.

Promises: under any loss, repetition, reordering, reconnection and restart of either side, a receiver applies
each message of an incarnation once and in order of its sequence. An acknowledgement covers every message up
to its number. Never: I/O; the caller stores the receiver with the effect, and the log before it sends.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core.worker.wire import WINDOW_BYTES, WINDOW_FRAMES, SyncAck

GAP: Final = "gap_detected"
FENCED: Final = "node_fenced"
UNKNOWN: Final = "unknown_node"


class Receiver(msgspec.Struct, frozen=True, gc=False):
    """What the gateway has applied of a worker. It commits with the effect."""

    incarnation: int
    applied_through: int = 0


class Reception(StrEnum):
    """What the receiver does with a message."""

    APPLY = "applied"
    DUPLICATE = "duplicate"
    """Applied before: it gets the answer that it got then, nothing is applied."""
    GAP = "gap"
    """Messages before it are missing: the worker resends from the expected one."""
    FENCED = "fenced"
    """A newer incarnation of the worker exists."""
    UNKNOWN = "unknown"
    """The gateway has not given out this incarnation."""


class ReceptionRow(NamedTuple):
    """A row of the table: the first whose condition holds decides."""

    outcome: Reception
    holds: Callable[[Receiver, int, int], bool]


RECEPTIONS: Final[tuple[ReceptionRow, ...]] = (
    ReceptionRow(Reception.FENCED, lambda known, incarnation, _: incarnation < known.incarnation),
    ReceptionRow(Reception.UNKNOWN, lambda known, incarnation, _: incarnation > known.incarnation),
    ReceptionRow(Reception.DUPLICATE, lambda known, _, sequence: sequence <= known.applied_through),
    ReceptionRow(Reception.GAP, lambda known, _, sequence: sequence > known.applied_through + 1),
    ReceptionRow(Reception.APPLY, lambda *_: True),
)
"""The rules of arrival, first match decides."""


def receive(
    known: Receiver | None, incarnation: int, sequence: int
) -> tuple[Reception, Receiver | None]:
    """What happens to a message, and the receiver after it."""
    if known is None:
        return Reception.UNKNOWN, None
    outcome = next(row.outcome for row in RECEPTIONS if row.holds(known, incarnation, sequence))
    if outcome is Reception.APPLY:
        return outcome, replace(known, applied_through=sequence)
    return outcome, known


def ack_of(outcome: Reception, known: Receiver | None, sequence: int) -> SyncAck:
    """The acknowledgement that the table names. `known`: the receiver after the message `sequence`.

    It covers no later message: the answer of each one names its refusals."""
    through = known.applied_through if known else 0
    match outcome:
        case Reception.APPLY | Reception.DUPLICATE:
            return SyncAck(accepted=True, sequence=sequence)
        case Reception.GAP:
            return SyncAck(
                accepted=False, reason=GAP, expected_sequence=through + 1, sequence=through
            )
        case Reception.FENCED:
            # The numbers of the newer incarnation mean nothing to the older one.
            return SyncAck(accepted=False, reason=FENCED, sequence=0)
        case Reception.UNKNOWN:
            return SyncAck(accepted=False, reason=UNKNOWN, sequence=0)


def merge_acks(first: SyncAck, second: SyncAck) -> SyncAck | None:
    """One acknowledgement for two, if both accept: acknowledgements are cumulative."""
    if not (first.accepted and second.accepted):
        return None
    return replace(
        second,
        sequence=max(first.sequence, second.sequence),
        refused=first.refused + second.refused,
        output_next=first.output_next | second.output_next,
    )


class Greeting(msgspec.Struct, frozen=True, gc=False):
    """The receiver that a `Hello` leads to, or why it is refused."""

    receiver: Receiver | None
    is_new: bool = False
    refused: Reception | None = None


def greet(
    known: Receiver | None, incarnation: int, *, same_boot: bool, registered: int
) -> Greeting:
    """Rules on a `Hello`.

    Incarnation 0 asks for a new one; a repeat of the same start (`same_boot`) gets the one that it was given,
    so a delayed copy of its `Hello` does not fence it. `registered`: the incarnation of the node's latest
    registration, 0 for none."""
    latest = max(known.incarnation if known else 0, registered)
    if incarnation == 0:
        if known is not None and same_boot and known.incarnation == latest:
            return Greeting(known)
        return Greeting(Receiver(latest + 1), is_new=True)
    if incarnation < latest:
        return Greeting(known, refused=Reception.FENCED)
    if incarnation > latest:
        return Greeting(known, refused=Reception.UNKNOWN)
    if known is not None and known.incarnation == incarnation:
        return Greeting(known)
    return Greeting(Receiver(incarnation), is_new=True)


class Window(msgspec.Struct, frozen=True, gc=False):
    """How much may be unacknowledged."""

    frames: int = WINDOW_FRAMES
    bytes: int = WINDOW_BYTES

    def has_room(self, frames: int, used_bytes: int, next_bytes: int) -> bool:
        """Whether another message may be sent. A single message always may, whatever its size."""
        return frames == 0 or (frames < self.frames and used_bytes + next_bytes <= self.bytes)
