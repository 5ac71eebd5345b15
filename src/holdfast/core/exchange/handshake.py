"""The handshake: the versions of a client against those of the server.

`HANDSHAKE_ROWS` is the table of the protocol reference; exactly one row matches an entry.
Promises: every task of the client is answered. A client that is only behind has no conflict.
Never: changes anything. A push is guarded by its version whatever the handshake said.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


class ClientEntry(msgspec.Struct, frozen=True):
    """What the client has of a task."""

    version: int
    is_dirty: bool = False
    """Whether it has a change that the server has not acknowledged."""
    hash: str | None = None
    """The content hash at the base; None when the client did not send it."""


class ServerEntry(msgspec.Struct, frozen=True):
    """What the server has of a task."""

    version: int
    hash: str | None = None
    """None when it was not computed. It is needed only where the client sent one."""


class Tombstone(msgspec.Struct, frozen=True):
    """What the server keeps of a deleted task."""

    version: int
    deleted_at: float


class Presence(StrEnum):
    THERE = "there"
    DELETED = "deleted"
    UNKNOWN = "unknown"


class Standing(StrEnum):
    """The client's version against the server's; against 0 when the server has no such task."""

    EQUAL = "="
    BEHIND = "<"
    AHEAD = ">"


class Listed(StrEnum):
    """The lists of the answer that name tasks of the client."""

    IN_SYNC = "in_sync"
    NEEDS_PULL = "needs_pull"
    NEEDS_PUSH = "needs_push"
    CONFLICTS = "conflicts"
    DELETED = "deleted"


class DivergenceKind(StrEnum):
    DIVERGED = "DIVERGED"
    AHEAD = "AHEAD"
    UNKNOWN = "UNKNOWN"


class HandshakeRow(msgspec.Struct, frozen=True):
    """One row. None in a column: any value."""

    presence: Presence
    standing: Standing | None
    is_dirty: bool | None
    has_other_hash: bool | None
    lists: frozenset[Listed]
    kind: DivergenceKind | None = None


class Divergence(msgspec.Struct, frozen=True):
    """One of `conflicts`."""

    task_id: str
    kind: DivergenceKind
    local_version: int
    server_version: int
    """0 when the server has no such task."""


class DeletedTask(msgspec.Struct, frozen=True):
    """One of `deleted`."""

    task_id: str
    version: int
    deleted_at: float | None
    """None when the tombstone is gone too."""


class Handshake(msgspec.Struct, frozen=True):
    """The answer for one page."""

    needs_pull: tuple[str, ...]
    needs_push: tuple[str, ...]
    in_sync: tuple[str, ...]
    conflicts: tuple[Divergence, ...]
    new_tasks: tuple[str, ...]
    deleted: tuple[DeletedTask, ...]


D, L, P, T = DivergenceKind, Listed, Presence, Standing
Row = HandshakeRow
IN_SYNC: Final = frozenset({L.IN_SYNC})
PULL: Final = frozenset({L.NEEDS_PULL})
PUSH: Final = frozenset({L.NEEDS_PUSH})
DELETED: Final = frozenset({L.DELETED})
CONFLICT: Final = frozenset({L.CONFLICTS})

HANDSHAKE_ROWS: Final[tuple[HandshakeRow, ...]] = (
    Row(P.THERE, T.EQUAL, False, False, IN_SYNC),
    Row(P.THERE, T.EQUAL, False, True, CONFLICT | PULL, D.DIVERGED),
    Row(P.THERE, T.EQUAL, True, None, PUSH),
    Row(P.THERE, T.BEHIND, False, None, PULL),
    Row(P.THERE, T.BEHIND, True, None, CONFLICT | PULL, D.DIVERGED),
    Row(P.THERE, T.AHEAD, None, None, CONFLICT | PUSH | PULL, D.AHEAD),
    Row(P.DELETED, None, None, None, DELETED),
    Row(P.UNKNOWN, T.EQUAL, None, None, PUSH),
    Row(P.UNKNOWN, T.AHEAD, False, None, DELETED),
    Row(P.UNKNOWN, T.AHEAD, True, None, CONFLICT, D.UNKNOWN),
)


def row_of(
    entry: ClientEntry, server: ServerEntry | None, tombstone: Tombstone | None
) -> HandshakeRow:
    """The row of one task. A task that exists is not deleted, whatever tombstone an earlier one left."""
    presence = P.THERE if server else P.DELETED if tombstone else P.UNKNOWN
    version = server.version if server else 0
    standing = (
        T.EQUAL if entry.version == version else T.BEHIND if entry.version < version else T.AHEAD
    )
    hashes = {entry.hash, server.hash if server else None} - {None}
    return next(
        row
        for row in HANDSHAKE_ROWS
        if row.presence is presence
        and row.standing in (None, standing)
        and row.is_dirty in (None, entry.is_dirty)
        and row.has_other_hash in (None, len(hashes) > 1)
    )


def compare(
    client: Mapping[str, ClientEntry],
    server: Mapping[str, ServerEntry],
    tombstones: Mapping[str, Tombstone],
) -> Handshake:
    """The answer for one page. `server` and `tombstones` have the client's tasks, and those that changed
    after its cursor; the ones that the client does not have are new to it."""
    rows = {id: row_of(entry, server.get(id), tombstones.get(id)) for id, entry in client.items()}
    in_list = {name: [id for id, row in rows.items() if name in row.lists] for name in Listed}
    conflicts = (
        Divergence(id, kind, client[id].version, server[id].version if id in server else 0)
        for id, row in rows.items()
        if (kind := row.kind) is not None
    )
    unseen = (id for id in tombstones if id not in client and id not in server)
    return Handshake(
        needs_pull=tuple(in_list[L.NEEDS_PULL]),
        needs_push=tuple(in_list[L.NEEDS_PUSH]),
        in_sync=tuple(in_list[L.IN_SYNC]),
        conflicts=tuple(conflicts),
        new_tasks=tuple(id for id in server if id not in client),
        deleted=tuple(
            _deleted(id, client.get(id), tombstones.get(id))
            for id in (*in_list[L.DELETED], *unseen)
        ),
    )


def _deleted(id: str, entry: ClientEntry | None, tombstone: Tombstone | None) -> DeletedTask:
    if tombstone:
        return DeletedTask(id, tombstone.version, tombstone.deleted_at)
    return DeletedTask(id, entry.version if entry else 0, None)
