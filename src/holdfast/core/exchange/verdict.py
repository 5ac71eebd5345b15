"""What the rules for a pushed item answer, as data. `conflict.py` has the rules.

Promises: a verdict says what the store does and what the sender is answered.
Never: has values of the task. The store reads them from the item.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.core.exchange.sync_errors import SyncError


class Action(StrEnum):
    """What the store does."""

    CREATE = "create"
    DUPLICATE = "duplicate"
    """Nothing: it was done before."""
    MERGE_OBSERVED = "merge_observed"
    COMPLETE = "complete"
    FAIL = "fail"
    RELEASE = "release"
    CANCEL = "cancel"
    STALL = "stall"
    PAUSE = "pause"
    RESUME = "resume"
    RESUME_AND_CLAIM = "resume_and_claim"
    EDIT = "edit"
    MERGE_CONTENT = "merge_content"
    KEEP_EVIDENCE = "keep_evidence"
    """Append `task.late`; the task does not change."""
    REFUSE = "refuse"


class Resolution(StrEnum):
    """Which side the answer says has won."""

    PLUGIN_WINS = "PLUGIN_WINS"
    SERVER_WINS = "SERVER_WINS"
    REJECT = "REJECT"
    MERGED = "MERGED"
    MANUAL = "MANUAL"
    LATE = "LATE"


class ConflictKind(StrEnum):
    DIVERGED = "diverged"
    AHEAD = "ahead"
    FIELD = "field"
    """A field that the strategy would merge was changed on both sides."""
    OUTPUT = "output"


class ConflictState(StrEnum):
    OPEN = "open"
    SETTLED = "settled"


class NewConflict(msgspec.Struct, frozen=True):
    """The conflict record to write beside the answer."""

    kind: ConflictKind
    state: ConflictState


class Outcome(msgspec.Struct, frozen=True):
    """The verdict of a row."""

    action: Action
    resolution: Resolution | None = None
    error: SyncError | None = None
    conflict: NewConflict | None = None


class Verdict(msgspec.Struct, frozen=True):
    """What to do with an item and what to answer."""

    row: str
    action: Action
    resolution: Resolution | None
    error: SyncError | None
    conflict: NewConflict | None
    is_unstuck: bool = False
    """Whether the report brings a stuck task back to running."""
    content: Verdict | None = None
    """For an accepted item that also has content: the verdict on the content."""
