"""An enqueue request, and the hash that tells whether two requests with one key or id are the same.

Promises: every field of a request changes its hash, or `NOT_HASHED` says why not. Hashes stay valid when a
field is added. Never: checks values (see `submit.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cache
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.dependency import Edge
from holdfast.core.limit import LimitRule
from holdfast.core.task import DEFAULT_PROJECT, Priority, Task, TaskOptions
from holdfast.core.unique import Unique

HASH_MARK: Final = "2:"
"""The prefix of current hashes, which cover the whole request."""
NOT_HASHED: Final[dict[str, str]] = {
    "idempotency_key": "it finds the task to compare with",
    "rules": "the type's configuration and `key` determine them",
    "fair": "the type's configuration determines it",
    "retry_base_seconds": "only the type's configuration sets it",
    "retry_cap_seconds": "only the type's configuration sets it",
    "type_tags": "the type's configuration determines them",
    "keep_done_seconds": "only the type's configuration sets it",
    "retry_policy": "only the type's configuration sets it",
    "max_deaths": "only the type's configuration sets it",
    "trace": "a repeat of the request has another trace",
}
"""Fields of `EnqueueRequest` and `TaskOptions` that `request_hash` leaves out, and why."""
_PLACED: Final = (
    "type",
    "payload",
    "metadata",
    "queue",
    "priority",
    "max_attempts",
    "timeout_seconds",
    "delay_seconds",
    "key",
    "depends_on",
    "defaulted",
    "options",
)
"""Fields that `request_hash` writes itself, in a form that stored hashes depend on."""


class EnqueueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the caller describes it."""

    type: str
    payload: object = None
    queue: str = "default"
    priority: Priority | str | int = Priority.NORMAL
    max_attempts: int = 3
    delay_seconds: float = 0.0
    run_at: float | None = None
    """Not before this moment, in epoch seconds. It replaces the delay."""
    metadata: dict[str, object] | None = None
    tags: tuple[str, ...] = ()
    """As `check_tags` returns them."""
    type_tags: tuple[str, ...] = ()
    """The tags of the type, which every task of it has."""
    keep_done_seconds: float | None = None
    depends_on: tuple[Edge, ...] = ()
    idempotency_key: str | None = None
    key: str | None = None
    """The key of limits per key, and of turns."""
    project: str = DEFAULT_PROJECT
    progress_timeout_seconds: float | None = None
    """How long a runner may go without progress. None: for ever."""
    unique: Unique | None = None
    """The window in which no other task of these arguments is enqueued."""
    options: TaskOptions = TaskOptions()
    rules: tuple[tuple[str, LimitRule], ...] = ()
    fair: bool = False
    """Whether the keys of the type take turns."""
    defaulted: frozenset[str] = frozenset()
    """The options of queue, priority, max_attempts and timeout that the caller did not give. The type's
    configuration sets them."""


_BLANK_REQUEST: Final = EnqueueRequest(type="")
_BLANK_OPTIONS: Final = TaskOptions()


def request_hash(
    request: EnqueueRequest, payload_json: str, metadata_json: str | None, priority: Priority
) -> str:
    """A hash of all that the caller gave. Two requests with the same key or id are the same request when
    their hashes are equal. Options from the type's configuration do not count: they may change between
    two tries. A field that is neither placed here nor in `NOT_HASHED` counts if it differs from its default,
    so a new field needs no line here and leaves stored hashes valid."""
    defaulted = request.defaulted
    edges = sorted([f"{edge.policy.value}:{edge.parent_id}" for edge in request.depends_on])
    return HASH_MARK + codec.digest(
        request.type,
        payload_json,
        metadata_json or "",
        "" if "queue" in defaulted else request.queue,
        "" if "priority" in defaulted else priority.name,
        "" if "max_attempts" in defaulted else str(request.max_attempts),
        "" if "timeout" in defaulted else f"={request.options.timeout_seconds}",
        "" if not request.delay_seconds else str(float(request.delay_seconds)),
        request.key or "",
        *edges,
        *_added(request, _BLANK_REQUEST, defaulted),
        *_added(request.options, _BLANK_OPTIONS, defaulted),
    )


@cache
def _added_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(
        name for name in kind.__struct_fields__ if name not in _PLACED and name not in NOT_HASHED
    )


def _added(
    given: msgspec.Struct, blank: msgspec.Struct, defaulted: Container[str]
) -> Iterator[str]:
    """The other fields that differ from their defaults. An edge has no `=` before its colon, so no field
    looks like an edge."""
    for name in _added_fields(type(given)):
        value = getattr(given, name)
        if name not in defaulted and value != getattr(blank, name):
            yield f"{name}={codec.dumps(value)}"


def is_same_request(task: Task, edges: tuple[Edge, ...], stored_hash: str | None) -> bool:
    """Whether this request is the one that the stored task was made from."""
    if stored_hash is None or stored_hash.startswith(HASH_MARK):
        return stored_hash == task.request_hash
    # An older version wrote this hash, which covers only these fields.
    parents = ",".join(sorted(edge.parent_id for edge in edges))
    return stored_hash == codec.digest(
        task.type, task.queue, task.payload_json, task.priority.name, parents
    )
