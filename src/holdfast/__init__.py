"""Holdfast: durable work on machines that die, over networks that drop.

    from holdfast import TaskQueue

Names are imported when they are first used, so that `import holdfast` costs nearly nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.app import TaskQueue
    from holdfast.core.command import Cancel, Snooze
    from holdfast.core.dependency import Edge
    from holdfast.core.event import Event, Position
    from holdfast.core.task import Priority, Status, Task
    from holdfast.engine.context import BlockingContext, Context
    from holdfast.engine.handlers import Reject
    from holdfast.errors import HoldfastError
    from holdfast.queue.handle import TaskHandle

__version__ = "0.1.0"

_MODULES = {
    "BlockingContext": "holdfast.engine.context",
    "Cancel": "holdfast.core.command",
    "Context": "holdfast.engine.context",
    "Edge": "holdfast.core.dependency",
    "Event": "holdfast.core.event",
    "HoldfastError": "holdfast.errors",
    "Position": "holdfast.core.event",
    "Priority": "holdfast.core.task",
    "Reject": "holdfast.engine.handlers",
    "Snooze": "holdfast.core.command",
    "Status": "holdfast.core.task",
    "Task": "holdfast.core.task",
    "TaskHandle": "holdfast.queue.handle",
    "TaskQueue": "holdfast.app",
}

__all__ = [
    "BlockingContext",
    "Cancel",
    "Context",
    "Edge",
    "Event",
    "HoldfastError",
    "Position",
    "Priority",
    "Reject",
    "Snooze",
    "Status",
    "Task",
    "TaskHandle",
    "TaskQueue",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(module), name)
