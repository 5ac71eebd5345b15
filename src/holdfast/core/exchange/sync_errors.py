"""The error names of `/api/v2/sync`, with the HTTP status and the code of Holdfast that each stands for.

Promises: every name has one entry, and a code has the HTTP status that its class in `errors.py` has.
Never: raises. A transport turns an entry into its answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class SyncError(StrEnum):
    """The `error` of a refusal."""

    VERSION_CONFLICT = "VERSION_CONFLICT"
    VERSION_AHEAD = "VERSION_AHEAD"
    INVALID_INPUT = "INVALID_INPUT"
    INVALID_STATUS = "INVALID_STATUS"
    INVALID_TRANSITION = "INVALID_TRANSITION"
    NOT_RUNNER = "NOT_RUNNER"
    CLAIM_REQUIRED = "CLAIM_REQUIRED"
    HELD = "HELD"
    TERMINAL = "TERMINAL"
    ALREADY_LOCKED = "ALREADY_LOCKED"
    NOT_CLAIMABLE = "NOT_CLAIMABLE"
    NOT_LOCKED = "NOT_LOCKED"
    LOCK_LOST = "LOCK_LOST"
    OUTPUT_GAP = "OUTPUT_GAP"
    OUTPUT_MISMATCH = "OUTPUT_MISMATCH"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    TASK_DELETED = "TASK_DELETED"
    NODE_UNKNOWN = "NODE_UNKNOWN"
    NODE_FENCED = "NODE_FENCED"
    MUTATION_REUSED = "MUTATION_REUSED"
    AMBIGUOUS_ID = "AMBIGUOUS_ID"
    BATCH_TOO_LARGE = "BATCH_TOO_LARGE"
    RESET_REQUIRED = "RESET_REQUIRED"
    CONFLICTS_FULL = "CONFLICTS_FULL"
    ATOMIC = "ATOMIC"


class ErrorMeaning(msgspec.Struct, frozen=True):
    """What a name stands for."""

    http_status: int
    code: str
    """The stable code, as in `errors.py`."""
    when: str


E = SyncError
MEANINGS: Final[dict[SyncError, ErrorMeaning]] = {
    E.VERSION_CONFLICT: ErrorMeaning(
        409, "version-conflict", "the content was changed since expectedVersion"
    ),
    E.VERSION_AHEAD: ErrorMeaning(
        409, "version-conflict", "expectedVersion is newer than any version of this server"
    ),
    E.INVALID_INPUT: ErrorMeaning(422, "invalid-input", "a field of the item is not valid"),
    E.INVALID_STATUS: ErrorMeaning(422, "invalid-input", "the text is not a status"),
    E.INVALID_TRANSITION: ErrorMeaning(
        409, "illegal-transition", "the task cannot change in this way"
    ),
    E.NOT_RUNNER: ErrorMeaning(409, "not-runner", "the sender does not hold the task's fence"),
    E.CLAIM_REQUIRED: ErrorMeaning(409, "not-runner", "a task runs only after a claim"),
    E.HELD: ErrorMeaning(409, "conflict", "an operator or a decision keeps the task waiting"),
    E.TERMINAL: ErrorMeaning(
        409, "illegal-transition", "the task is completed or aborted and does not change"
    ),
    E.ALREADY_LOCKED: ErrorMeaning(409, "already-locked", "another node holds the task"),
    E.NOT_CLAIMABLE: ErrorMeaning(409, "not-claimable", "the task cannot be claimed now"),
    E.NOT_LOCKED: ErrorMeaning(409, "not-locked", "no runner holds the task"),
    E.LOCK_LOST: ErrorMeaning(409, "lease-lost", "the sender's claim has ended"),
    E.OUTPUT_GAP: ErrorMeaning(
        409, "conflict", "the output starts behind the end of the stream; it goes on at end"
    ),
    E.OUTPUT_MISMATCH: ErrorMeaning(
        409, "conflict", "the output differs from what the stream has at its offset"
    ),
    E.TASK_NOT_FOUND: ErrorMeaning(404, "not-found", "the server has no such task"),
    E.TASK_DELETED: ErrorMeaning(404, "not-found", "the task was deleted"),
    E.NODE_UNKNOWN: ErrorMeaning(404, "unknown-node", "the node must register first"),
    E.NODE_FENCED: ErrorMeaning(409, "node-fenced", "the node has a newer incarnation"),
    E.MUTATION_REUSED: ErrorMeaning(
        422, "idempotency-conflict", "the mutationId was used with another body"
    ),
    E.AMBIGUOUS_ID: ErrorMeaning(
        409, "ambiguous-id", "several projects have the id; the request must name projectId"
    ),
    E.BATCH_TOO_LARGE: ErrorMeaning(413, "batch-too-large", "the request must be split"),
    E.RESET_REQUIRED: ErrorMeaning(410, "feed-reset", "the cursor is void; the client starts over"),
    E.CONFLICTS_FULL: ErrorMeaning(
        409, "conflict", "too many conflicts of the task or of the project are open"
    ),
    E.ATOMIC: ErrorMeaning(
        409, "conflict", "another item of the atomic push was refused; nothing was written"
    ),
}
