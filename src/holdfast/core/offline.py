"""The rules of a node that works offline and syncs later.

A node keeps a replica of each task with the version that it has read, and a log of local changes
(mutations). A mutation keeps the version that its author saw. Before it is sent for the first time it is
sealed: from then on its id, its expected version and its body never change, so a repeat is the same request.
Promises: a change of another node that the author has not seen is never overwritten as if it had been seen.
The server's answer decides; a refused mutation leaves the log and is kept as evidence.
Never: I/O, or a verdict that is the server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

CONTENT: Final = frozenset({"payload", "metadata", "labels"})
"""Fields of a push item that are content. Mutations of content only are joined before they are sent."""
CREATION: Final = frozenset({"type", "queue", "priority"})
REBASING: Final = frozenset({"epoch", "ahead"})
"""Resets after which the versions of the node mean nothing to the server."""
NO_TASK: Final = frozenset({"TASK_NOT_FOUND", "TASK_DELETED"})

Fields = dict[str, Any]


class Replica(msgspec.Struct, frozen=True):
    """What a node has of a task: the server's state as it was read."""

    id: str
    version: int
    """0: the server has not acknowledged the task."""
    hash: str | None
    content: Fields
    """The task as the server sent it (`SyncTask`)."""
    needs_pull: bool = False
    """Whether the server has another state, which must be read."""


class Mutation(msgspec.Struct, frozen=True):
    """One change of the local log."""

    seq: int
    mutation_id: str
    task_id: str
    base_version: int
    """The version that its author saw. 0: the author creates the task."""
    base_hash: str | None
    change: Fields
    """The fields of the push item."""
    is_sealed: bool = False
    """Whether it may have been sent. Then it never changes."""


class Sealing(msgspec.Struct, frozen=True):
    """A mutation that is ready to be sent, and those that were joined into it."""

    mutation: Mutation
    absorbed: tuple[int, ...] = ()
    """The sequence numbers of the joined ones."""


def is_content(mutation: Mutation) -> bool:
    """Whether it changes nothing but content."""
    return mutation.change.keys() <= CONTENT


def to_send(log: Iterable[Mutation], limit: int) -> list[Sealing]:
    """What is pushed next: at most one mutation for each task, the oldest. One that was sent before is sent
    again as it was; else the content that follows it is joined into it."""
    by_task: dict[str, list[Mutation]] = {}
    for mutation in sorted(log, key=lambda each: each.seq):
        by_task.setdefault(mutation.task_id, []).append(mutation)
    first = sorted(by_task.values(), key=lambda mutations: mutations[0].seq)
    return [_sealing(mutations) for mutations in first[:limit]]


def _sealing(mutations: Sequence[Mutation]) -> Sealing:
    head, *rest = mutations
    if head.is_sealed:
        return Sealing(head)
    absorbed: list[int] = []
    if is_content(head) or head.base_version == 0:
        for mutation in rest:
            if not is_content(mutation) or mutation.base_version != head.base_version:
                break
            head = replace(head, change=join(head.change, mutation.change))
            absorbed.append(mutation.seq)
    return Sealing(replace(head, is_sealed=True), tuple(absorbed))


def join(first: Mapping[str, Any], second: Mapping[str, Any]) -> Fields:
    """Two changes of one author as one: the later payload, each key's later value, the labels in order."""
    joined: Fields = {
        **first,
        **{k: v for k, v in second.items() if k not in ("metadata", "labels")},
    }
    if "metadata" in second:
        joined["metadata"] = {**first.get("metadata", {}), **second["metadata"]}
    if "labels" in second:
        before, after = _labels(first), _labels(second)
        added, removed = set(before["add"]), set(before["remove"])
        added = (added - set(after["remove"])) | set(after["add"])
        removed = (removed | set(after["remove"])) - set(after["add"])
        joined["labels"] = {"add": sorted(added), "remove": sorted(removed)}
    return joined


def _labels(change: Mapping[str, Any]) -> Fields:
    labels: Fields = change.get("labels") or {}
    return {"add": labels.get("add", []), "remove": labels.get("remove", [])}


def item_of(mutation: Mutation) -> Fields:
    """The item of a push."""
    item: Fields = {
        "id": mutation.task_id,
        "mutationId": mutation.mutation_id,
        "expectedVersion": mutation.base_version,
        **mutation.change,
    }
    if mutation.base_hash is not None:
        item["baseHash"] = mutation.base_hash
    return item


def after_success(done: Mutation, later: Iterable[Mutation], new_version: int) -> list[Mutation]:
    """The later mutations of the task that get another base, after an earlier one was accepted.

    Their author saw the accepted one. If no other write came between, the new version is what the author saw.
    If one did, only a change of the payload, which the accepted mutation had set, may be based on it."""
    is_alone = new_version == done.base_version + 1
    moved = []
    for mutation in later:
        is_on_top = mutation.base_version == done.base_version and not mutation.is_sealed
        own = "payload" in done.change and mutation.change.keys() == {"payload"}
        if is_on_top and (is_alone or own):
            moved.append(replace(mutation, base_version=new_version, base_hash=None))
    return moved


def after_refusal(refused: Mutation, later: Iterable[Mutation]) -> list[Mutation]:
    """The later mutations that end with a refused one: changes of a task whose creation was refused."""
    if refused.base_version:
        return []
    return [mutation for mutation in later if mutation.base_version == 0]


def after_reset(
    reason: str, log: Iterable[Mutation], versions: Mapping[str, int]
) -> list[Mutation]:
    """The mutations that get another base when the history of the server was replaced: `versions` are those
    that the server has now. What may have been sent before is sent again as it was: the server answers it if
    it knows it, and refuses it if not."""
    if reason not in REBASING:
        return []
    return [
        replace(mutation, base_version=versions[mutation.task_id], base_hash=None)
        for mutation in log
        if not mutation.is_sealed and mutation.base_version and mutation.task_id in versions
    ]


def entries(
    replicas: Iterable[Replica], log: Iterable[Mutation]
) -> tuple[dict[str, int], dict[str, Fields]]:
    """`taskVersions` and `bases` of a handshake. A task that the server does not know has version 0."""
    dirty = {mutation.task_id for mutation in log}
    versions = dict.fromkeys(sorted(dirty), 0)
    bases: dict[str, Fields] = {}
    for replica in replicas:
        versions[replica.id] = replica.version
        bases[replica.id] = {"dirty": replica.id in dirty}
        if replica.hash is not None:
            bases[replica.id]["hash"] = replica.hash
    for task_id in dirty:
        bases.setdefault(task_id, {"dirty": True})
    return versions, bases


def overlay(content: Mapping[str, Any] | None, log: Iterable[Mutation]) -> Fields | None:
    """What the author sees: the server's state with the local changes on it. None: there is no task."""
    state: Fields | None = None if content is None else dict(content)
    for mutation in log:
        if state is None:
            if mutation.base_version:
                continue
            state = {"status": "queued", "metadata": {}, "labels": [], "payload": None}
        state = {
            **state,
            **{k: v for k, v in mutation.change.items() if k not in ("metadata", "labels")},
        }
        state["metadata"] = {**(state.get("metadata") or {}), **mutation.change.get("metadata", {})}
        labels = _labels(mutation.change)
        members = (set(state.get("labels") or ()) - set(labels["remove"])) | set(labels["add"])
        state["labels"] = sorted(members)
    return state
