"""What one item of a push asks, what the server has, and who speaks.

The runner holds the task's current fence. A former runner names a claim that has ended. Every other sender
is a node. Operators do not push; they intervene.
Promises: the sender is judged by fence and claim, never by its name alone.
Never: reads a clock. A lease that has run out is ended by the store before the item is judged.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.exchange.merge import Progress
from holdfast.core.exchange.strategy import ContentChange
from holdfast.core.task import LEASED, Status


class Actor(StrEnum):
    RUNNER = "runner"
    FORMER = "former"
    NODE = "node"


class VersionRelation(StrEnum):
    """The expected version against the server's."""

    NEW = "0"
    """The sender expects no task."""
    EQUAL = "="
    STALE = "<"
    AHEAD = ">"


class HoldKind(StrEnum):
    """What keeps a task from running although no limit does."""

    NONE = "none"
    OPERATOR = "operator"
    DECISION = "decision"
    NODE = "node"


class Hold(msgspec.Struct, frozen=True):
    kind: HoldKind = HoldKind.NONE
    node: str = ""
    """The node that set it, for kind `node`."""


class LastClaim(msgspec.Struct, frozen=True):
    """The latest claim of a task. It may have ended."""

    node: str
    incarnation: int
    fence: int
    claim_id: str = ""


class PushItem(msgspec.Struct, frozen=True):
    """One item. Absent fields are None, or false for those of which only the presence counts."""

    node: str
    expected_version: int
    status: str | None = None
    """As sent; it may not be a status."""
    incarnation: int = 1
    fence: int | None = None
    claim_id: str | None = None
    change: ContentChange = ContentChange()
    progress: Progress | None = None
    """Progress, phase and iteration. The fence in it is not read."""
    has_metrics: bool = False
    result_json: str | None = None
    has_error: bool = False
    request_hash: str = ""
    """The hash of what a creation asks for."""
    is_answered: bool = False
    """Whether the ledger has an answer for the mutation id."""

    @property
    def has_outcome(self) -> bool:
        return self.result_json is not None or self.has_error

    @property
    def is_observation(self) -> bool:
        """Whether it has a field that only a runner may report."""
        return self.progress is not None or self.has_metrics or self.has_outcome

    @property
    def asked(self) -> Status | None:
        """The status that it asks for; None also for a text that is not a status."""
        return STATUSES.get(self.status) if self.status is not None else None


class Current(msgspec.Struct, frozen=True):
    """What the server has of the task."""

    status: Status
    version: int
    fence: int = 0
    claim: LastClaim | None = None
    hold: Hold = Hold()
    progress: Progress = Progress()
    payload_json: str = "null"
    payload_version: int = 1
    """The version that the last change of the payload made."""
    result_json: str | None = None
    request_hash: str = ""
    """The hash of the request that created the task."""
    fences: frozenset[int] | None = None
    """The fences under which the sender has run the task. None: not looked up, any ended one counts."""


STATUSES: Final[dict[str, Status]] = {status.value: status for status in Status}


def actor_of(item: PushItem, current: Current) -> Actor:
    """Who speaks. A fence that was never granted, or to another node, makes no former runner."""
    if _names_last_claim(item, current):
        return Actor.RUNNER if is_held(current) else Actor.FORMER
    held = current.fences
    if item.fence is not None:
        was_held = held is None or item.fence in held
        return Actor.FORMER if was_held and _has_ended(item.fence, current) else Actor.NODE
    return Actor.FORMER if item.claim_id is not None and held != frozenset() else Actor.NODE


def is_held(current: Current) -> bool:
    """Whether the latest claim is in force."""
    claim = current.claim
    return current.status in LEASED and claim is not None and claim.fence == current.fence


def fence_of(item: PushItem, current: Current) -> int | None:
    """The fence that an item speaks under: the one it names, or that of the sender's own latest claim."""
    if item.fence is not None:
        return item.fence
    if current.claim is not None and _names_last_claim(item, current):
        return current.claim.fence
    return None


def relation_of(item: PushItem, current: Current | None) -> VersionRelation:
    expected = item.expected_version
    if expected == 0:
        return VersionRelation.NEW
    if current is None or expected > current.version:
        return VersionRelation.AHEAD
    return VersionRelation.STALE if expected < current.version else VersionRelation.EQUAL


def _names_last_claim(item: PushItem, current: Current) -> bool:
    """Whether the sender made the latest claim and names no other one. Naming none implies it."""
    claim = current.claim
    return (
        claim is not None
        and (claim.node, claim.incarnation) == (item.node, item.incarnation)
        and item.fence in (None, claim.fence)
        and item.claim_id in (None, claim.claim_id)
    )


def _has_ended(fence: int, current: Current) -> bool:
    """Whether a claim with this fence, not the latest one of the sender, can have existed and has ended.
    Without the latest claim, an equal fence of a task that does not run is the fence that ended it."""
    if fence == current.fence:
        return current.claim is None and current.status not in LEASED
    return 0 < fence < current.fence
