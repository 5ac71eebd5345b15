"""Makes the handles of many tasks of one type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.pressure import Pressure
from holdfast.engine.declared import Declared
from holdfast.engine.handle import Source, TaskHandle
from holdfast.store.store import Inserted


def handles_of(
    inserted: Iterable[Inserted],
    pressure: Pressure,
    source: Source,
    declared: Declared | None,
) -> list[TaskHandle[Any]]:
    """A handle for each answer. A call of `TaskHandle` for each takes twice as long."""
    made: list[TaskHandle[Any]] = []
    for answer in inserted:
        handle: TaskHandle[Any] = str.__new__(TaskHandle, answer.task_id)
        handle.inserted = answer
        handle.source = source
        handle.pressure = pressure
        handle.declared = declared
        made.append(handle)
    return made
