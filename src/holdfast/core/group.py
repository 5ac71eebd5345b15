"""Task groups: tasks that were enqueued together and are followed, awaited and cancelled as one.

Promises: the tasks of a group never change, and they have an order. A group that the caller names is made
once: its tasks get ids from its name, so a repeated request finds them. Never: changes a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.core.check import check_name
from holdfast.core.submit import Submission
from holdfast.core.task import ENDED, Status
from holdfast.errors import Conflict, InvalidInput

GROUP: Final = "group:"
"""What the id of a group begins with in `depends_on`, where ids of tasks stand too."""
GROUP_ID_CHARS_MAX: Final = 100


class NewGroup(msgspec.Struct, frozen=True):
    """A group to insert with its tasks."""

    id: str
    project: str
    size: int


class GroupProgress(msgspec.Struct, frozen=True):
    """How far a group is."""

    id: str
    project: str
    size: int
    """Its tasks at the enqueue."""
    created_at: float
    counts: dict[Status, int]
    """Its tasks by status. Those that were pruned are missing."""

    @property
    def ended(self) -> int:
        """Tasks that have ended, with or without success. Those that were pruned had ended."""
        return self.pruned + sum(n for status, n in self.counts.items() if status in ENDED)

    @property
    def open(self) -> int:
        """Tasks that have not ended."""
        return self.size - self.ended

    @property
    def pruned(self) -> int:
        """Tasks that retention has removed."""
        return self.size - sum(self.counts.values())

    @property
    def is_ended(self) -> bool:
        """Whether all tasks have ended."""
        return self.open == 0


def member_id(group_id: str, nth: int) -> str:
    """The id of a task in a group that the caller named."""
    return f"{group_id}.{nth}"


def check_group_id(group_id: object) -> str:
    """The name that a caller gives to a group."""
    return check_name("id", group_id, most=GROUP_ID_CHARS_MAX)


def named_items(group_id: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The tasks of a named group, each with an id."""
    return [
        item if item.get("id") is not None else {**item, "id": member_id(group_id, nth)}
        for nth, item in enumerate(items)
    ]


def new_group(group_id: str, tasks: Sequence[Submission]) -> NewGroup:
    """The group of these tasks. InvalidInput unless they belong together."""
    if not tasks:
        raise InvalidInput("a group has no tasks: give at least one")
    projects = sorted({submission.task.project for submission in tasks})
    if len(projects) > 1:
        raise InvalidInput(
            f"the tasks of a group are of the projects {', '.join(projects)}: make a group of each"
        )
    return NewGroup(group_id, projects[0], len(tasks))


def check_same(group: NewGroup, project: str, size: int) -> None:
    """Conflict unless the stored group of this id is the one to insert."""
    if (project, size) != (group.project, group.size):
        raise Conflict(f"a different group has the id '{group.id}': choose another or leave it out")
