"""Holdfast: durable tasks on machines that crash and networks that fail.

    from holdfast import TaskQueue

Names are imported on first use, so `import holdfast` is cheap. Beside the queue: `holdfast.locks`,
`holdfast.kv`, `holdfast.idempotency`, `holdfast.retry`, `holdfast.orders`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

_FACES = ("errors", "idempotency", "kv", "locks", "orders", "retry", "testing")

if TYPE_CHECKING:
    from holdfast.app import TaskQueue
    from holdfast.core.command import Cancel, Snooze
    from holdfast.core.dependency import DependencyPolicy, Edge
    from holdfast.core.event import Event, Position
    from holdfast.core.group import GroupProgress
    from holdfast.core.task import Priority, Status, Task
    from holdfast.core.unique import Unique
    from holdfast.engine.blocking_context import BlockingContext
    from holdfast.engine.blocking_group_handle import BlockingGroupHandle
    from holdfast.engine.blocking_handle import BlockingTaskHandle
    from holdfast.engine.context import Context
    from holdfast.engine.group_handle import GroupHandle
    from holdfast.engine.handle import TaskHandle
    from holdfast.engine.handlers import Reject
    from holdfast.engine.retry_choice import Retry
    from holdfast.engine.worker_hooks import WorkerState
    from holdfast.errors import HoldfastError
    from holdfast.queue.function import TaskFunction
else:
    __getattr__ = lazily(
        __name__,
        {
            "holdfast.app": ("TaskQueue",),
            "holdfast.core.command": ("Cancel", "Snooze"),
            "holdfast.core.dependency": ("DependencyPolicy", "Edge"),
            "holdfast.core.event": ("Event", "Position"),
            "holdfast.core.group": ("GroupProgress",),
            "holdfast.core.task": ("Priority", "Status", "Task"),
            "holdfast.core.unique": ("Unique",),
            "holdfast.engine.blocking_context": ("BlockingContext",),
            "holdfast.engine.blocking_group_handle": ("BlockingGroupHandle",),
            "holdfast.engine.blocking_handle": ("BlockingTaskHandle",),
            "holdfast.engine.context": ("Context",),
            "holdfast.engine.group_handle": ("GroupHandle",),
            "holdfast.engine.handle": ("TaskHandle",),
            "holdfast.engine.handlers": ("Reject",),
            "holdfast.engine.retry_choice": ("Retry",),
            "holdfast.engine.worker_hooks": ("WorkerState",),
            "holdfast.errors": ("HoldfastError",),
            "holdfast.queue.function": ("TaskFunction",),
        },
        submodules=_FACES,
    )

__version__ = "0.1.0"

__all__ = [
    "BlockingContext",
    "BlockingGroupHandle",
    "BlockingTaskHandle",
    "Cancel",
    "Context",
    "DependencyPolicy",
    "Edge",
    "Event",
    "GroupHandle",
    "GroupProgress",
    "HoldfastError",
    "Position",
    "Priority",
    "Reject",
    "Retry",
    "Snooze",
    "Status",
    "Task",
    "TaskFunction",
    "TaskHandle",
    "TaskQueue",
    "Unique",
    "WorkerState",
]


def __dir__() -> list[str]:
    return sorted([*__all__, *_FACES, "__version__"])
