"""The rules of a node that works offline and syncs later.

A node keeps a replica of each task with the version that it has read, and a log of local changes
(mutations). A mutation keeps the version that its author saw. Before it is sent for the first time it is
sealed: from then on its id, its expected version and its body never change, so a repeat is the same request.
Promises: a change of another node that the author has not seen is never overwritten as if it had been seen.
The server's answer decides; a refused mutation leaves the log and is kept as evidence.
Never: I/O, or a verdict that is the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.core.check import shown
from holdfast.core.exchange.item import LABELS_MAX
from holdfast.core.exchange.item_wire import decode_item, encode_item
from holdfast.core.exchange.push import STATUSES
from holdfast.core.submit import METADATA_BYTES_MAX, encode_payload
from holdfast.errors import InvalidInput

CONTENT: Final = frozenset({"payload", "metadata", "labels"})
"""Fields of a push item that are content. Mutations of content only are joined before they are sent."""
REBASING: Final = frozenset({"epoch", "ahead"})
"""Resets after which the versions of the node mean nothing to the server."""
SEND_BYTES_MAX: Final = 1_000_000
"""Bytes of what one request carries. A gateway takes 1 MiB unless it is set otherwise."""
NO_TASK: Final = frozenset({"TASK_NOT_FOUND", "TASK_DELETED"})

Fields = dict[str, Any]
T = TypeVar("T")


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


def batches(
    items: Iterable[T], size: Callable[[T], int], *, count_max: int, bytes_max: int
) -> Iterator[list[T]]:
    """Splits items by their number and their bytes. An item that is larger than all goes alone."""
    batch: list[T] = []
    total = 0
    for item in items:
        bytes = size(item)
        if batch and (len(batch) == count_max or total + bytes > bytes_max):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += bytes
    if batch:
        yield batch


def check_mutation(mutation: Mutation, content: Mapping[str, Any] | None) -> None:
    """Refuses what the server would refuse, before it is in the log. `content`: what the author sees.
    InvalidInput or a child of it."""
    decode_item(encode_item(item_of(mutation)))
    status = mutation.change.get("status")
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"{shown(status)} is not a status: give {', '.join(STATUSES)}")
    state = overlay(content, [mutation]) or {}
    if "metadata" in mutation.change:
        encode_payload(state["metadata"], what="metadata", limit=METADATA_BYTES_MAX)
    if _labels(mutation.change)["add"] and len(state["labels"]) > LABELS_MAX:
        raise InvalidInput(f"the task would have over {LABELS_MAX} labels: remove some")


def size_of(mutation: Mutation) -> int:
    """The bytes of its item, with a comma."""
    return len(encode_item(item_of(mutation))) + 1


def to_send(log: Iterable[Mutation], limit: int, bytes_max: int = SEND_BYTES_MAX) -> list[Sealing]:
    """What is pushed next: at most one mutation for each task, the oldest, within the bytes of a request. One
    that was sent before is sent again as it was; else the content that follows it is joined into it."""
    by_task: dict[str, list[Mutation]] = {}
    for mutation in sorted(log, key=lambda each: each.seq):
        by_task.setdefault(mutation.task_id, []).append(mutation)
    first = sorted(by_task.values(), key=lambda mutations: mutations[0].seq)
    sealings = (_sealing(mutations) for mutations in first[:limit])
    fitting = batches(
        sealings, lambda each: size_of(each.mutation), count_max=limit, bytes_max=bytes_max
    )
    return next(fitting, [])


def _sealing(mutations: Sequence[Mutation]) -> Sealing:
    head, *rest = mutations
    if head.is_sealed:
        return Sealing(head)
    absorbed: list[int] = []
    if is_content(head) or head.base_version == 0:
        for mutation in rest:
            if not is_content(mutation) or mutation.base_version != head.base_version:
                break
            joined = replace(head, change=join(head.change, mutation.change))
            if not is_valid(joined):
                # Each of them is: they are sent one after the other.
                break
            head = joined
            absorbed.append(mutation.seq)
    return Sealing(replace(head, is_sealed=True), tuple(absorbed))


def is_valid(mutation: Mutation) -> bool:
    """Whether its item is within the rules of items."""
    try:
        decode_item(encode_item(item_of(mutation)))
    except InvalidInput:
        return False
    return True


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
