"""The HTTP status, gRPC status and exit code of each stable error code."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import HoldfastError


class Outcome(NamedTuple):
    """The statuses of one error code."""

    http: int
    grpc: str
    exit: int


OUTCOMES: dict[str, Outcome] = {
    "internal": Outcome(500, "INTERNAL", 1),
    "invalid-input": Outcome(422, "INVALID_ARGUMENT", 2),
    "unknown-type": Outcome(422, "FAILED_PRECONDITION", 2),
    "unknown-priority": Outcome(422, "INVALID_ARGUMENT", 2),
    "unserialisable-payload": Outcome(422, "INVALID_ARGUMENT", 2),
    "payload-too-large": Outcome(413, "INVALID_ARGUMENT", 2),
    "batch-too-large": Outcome(413, "INVALID_ARGUMENT", 2),
    "unknown-dependency": Outcome(422, "FAILED_PRECONDITION", 2),
    "dependency-cycle": Outcome(422, "INVALID_ARGUMENT", 2),
    "bad-config": Outcome(422, "INVALID_ARGUMENT", 2),
    "invalid-order": Outcome(422, "INVALID_ARGUMENT", 2),
    "bad-command": Outcome(422, "INVALID_ARGUMENT", 2),
    "not-an-integer": Outcome(422, "INVALID_ARGUMENT", 2),
    "not-a-float": Outcome(422, "INVALID_ARGUMENT", 2),
    "overflow": Outcome(422, "OUT_OF_RANGE", 2),
    "not-text": Outcome(422, "INVALID_ARGUMENT", 2),
    "not-found": Outcome(404, "NOT_FOUND", 5),
    "unknown-order": Outcome(404, "NOT_FOUND", 5),
    "conflict": Outcome(409, "ABORTED", 6),
    "duplicate-task": Outcome(409, "ALREADY_EXISTS", 6),
    "idempotency-conflict": Outcome(422, "ABORTED", 6),
    "in-progress": Outcome(409, "ABORTED", 10),
    "illegal-transition": Outcome(409, "FAILED_PRECONDITION", 6),
    "wrong-type": Outcome(409, "FAILED_PRECONDITION", 6),
    "feed-reset": Outcome(410, "OUT_OF_RANGE", 6),
    "watch-failed": Outcome(409, "ABORTED", 6),
    "lease-lost": Outcome(409, "ABORTED", 6),
    "over-fill": Outcome(409, "FAILED_PRECONDITION", 6),
    "version-conflict": Outcome(409, "ABORTED", 6),
    "concurrent-modification": Outcome(409, "ABORTED", 6),
    "task-already-assigned": Outcome(409, "ABORTED", 6),
    "orders-frozen": Outcome(409, "FAILED_PRECONDITION", 6),
    "state-locked": Outcome(409, "FAILED_PRECONDITION", 6),
    "state-behind": Outcome(409, "FAILED_PRECONDITION", 6),
    "risk-refused": Outcome(409, "FAILED_PRECONDITION", 6),
    "not-reconciled": Outcome(409, "FAILED_PRECONDITION", 6),
    "queue-full": Outcome(429, "RESOURCE_EXHAUSTED", 10),
    "queue-stopping": Outcome(503, "UNAVAILABLE", 10),
    "not-running": Outcome(503, "UNAVAILABLE", 10),
    "wrong-loop": Outcome(500, "INTERNAL", 1),
    "task-failed": Outcome(424, "ABORTED", 1),
    "effect-failed": Outcome(424, "ABORTED", 1),
    "wait-timeout": Outcome(504, "DEADLINE_EXCEEDED", 7),
    "store-unavailable": Outcome(503, "UNAVAILABLE", 10),
    "store-busy": Outcome(503, "UNAVAILABLE", 10),
    "disk-full": Outcome(507, "RESOURCE_EXHAUSTED", 10),
    "store-failed": Outcome(500, "INTERNAL", 1),
    "corrupt-state": Outcome(500, "DATA_LOSS", 1),
    "corrupt-log": Outcome(500, "DATA_LOSS", 1),
    "corrupt-snapshot": Outcome(500, "DATA_LOSS", 1),
    "exchange-timeout": Outcome(504, "DEADLINE_EXCEEDED", 7),
    "exchange-failed": Outcome(502, "UNAVAILABLE", 10),
    "schema-mismatch": Outcome(500, "FAILED_PRECONDITION", 1),
    "missing-extra": Outcome(500, "UNIMPLEMENTED", 2),
    "not-supported": Outcome(501, "UNIMPLEMENTED", 2),
    "engine-failed": Outcome(500, "INTERNAL", 1),
}


def outcome_of(error: HoldfastError) -> Outcome:
    """The row of the table for an error. A test checks that every code of the tree has one."""
    return OUTCOMES[error.code]
