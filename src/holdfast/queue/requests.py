"""Reads tasks that are given as mappings: their fields, their options, and those of a batch.

Promises: what is not a task raises InvalidInput with what to pass. Never: touches the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.core.check import check_name, shown, unknown_name
from holdfast.core.submit import BATCH_MAX
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.queue.types import EnqueueOptions

_NAMES: Final = EnqueueOptions.__struct_fields__


def check_options(given: Mapping[str, object], *, allowed: tuple[str, ...] = ()) -> None:
    """Raises InvalidInput if `enqueue` has no option of one of these names."""
    unknown = sorted(given.keys() - {*allowed, *_NAMES}, key=str)
    if unknown:
        raise InvalidInput(unknown_name("a task has no option", unknown[0], (*allowed, *_NAMES)))


def split_request(
    request: Mapping[str, Any],
) -> tuple[str, object, str | None, EnqueueOptions, object]:
    """Type, payload, id, options and transaction of a task that is given as a mapping."""
    fields = dict(request)
    type, payload = fields.pop("type"), fields.pop("payload", None)
    task_id, tx = fields.pop("id", None), fields.pop("tx", None)
    check_options(fields, allowed=("id", "tx"))
    return type, payload, task_id, EnqueueOptions(**fields), tx


def batch_of(tasks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if not isinstance(tasks, Iterable) or isinstance(tasks, str | bytes | Mapping):
        raise InvalidInput(f"tasks is {shown(tasks)}: give a list of `task.request(...)`")
    items = list(tasks)
    if len(items) > BATCH_MAX:
        raise BatchTooLarge(
            f"{len(items)} tasks in one batch: at most {BATCH_MAX} are allowed, split it"
        )
    return items


def payloads_of(items: list[Mapping[str, Any]]) -> list[object] | None:
    """The payloads of a batch of one type whose items have a type and a payload only. None for others."""
    if len(items) < 2 or set(map(len, items)) != {2}:
        return None
    try:
        payloads = [item["payload"] for item in items]
    except KeyError:
        return None
    return payloads if len({item["type"] for item in items}) == 1 else None


def types_of(items: list[Mapping[str, Any]]) -> set[str]:
    """The types of a batch. The items are examined one by one only after a failure."""
    try:
        return {item["type"] for item in items}
    except (TypeError, KeyError, IndexError):
        for item in items:
            if not isinstance(item, Mapping):
                raise InvalidInput(
                    f"a task of the batch is {shown(item)}: give `task.request(...)`, or a mapping with "
                    "'type' and 'payload'"
                ) from None
            if "type" not in item:
                raise InvalidInput("a task of the batch has no type: give each a 'type'") from None
            check_name("type", item["type"])
        raise
