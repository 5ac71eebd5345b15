"""The options of an enqueue as keywords, for type checkers and editors.

Promises: the names are those of `queue.types.EnqueueOptions`, with `id` and `tx` (a test compares them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypedDict, TypeVar

from holdfast.core.dependency import Edge
from holdfast.core.seconds import Seconds
from holdfast.core.task import Priority
from holdfast.core.unique import Unique

R_co = TypeVar("R_co", covariant=True)
PriorityName: TypeAlias = Literal["critical", "high", "normal", "low"]


class ManyTasks(Protocol):
    """What stands for several tasks in `depends_on`: the handle of a group."""

    @property
    def task_ids(self) -> tuple[str, ...]: ...


Tags: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str] | None
DependsOn: TypeAlias = Iterable[str | Edge | ManyTasks] | Mapping[str, str]


class EnqueueKeywords(TypedDict, total=False):
    """All options are optional."""

    id: str | None
    queue: str | None
    priority: Priority | PriorityName | None
    max_attempts: int | None
    metadata: dict[str, object] | None
    tags: Tags
    depends_on: DependsOn
    delay: Seconds
    run_at: datetime | None
    timeout: Seconds | None
    progress_timeout: Seconds | None
    key: str | None
    idempotency_key: str | None
    project: str | None
    unique: Unique | None
    tx: object


class TaskRequest(dict[str, Any], Generic[R_co]):
    """A task to enqueue: the arguments of `TaskQueue.enqueue` by name. `R_co` is the type of the result."""

    declared: Any = None
    """How the result is read (`engine/declared.py`)."""
