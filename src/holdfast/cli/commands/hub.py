"""What the commands of the sync hub share: the store of a command, and its audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.app import TaskQueue
from holdfast.cli.options import Common
from holdfast.cli.session import by, with_queue
from holdfast.core.rights import Operation
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.recorded import audited

T = TypeVar("T")


def with_store(common: Common, work: Callable[[Store], Awaitable[T]]) -> tuple[T, float]:
    """Runs a command on the store. Returns its answer and the time of the store."""

    async def session(queue: TaskQueue) -> tuple[T, float]:
        store = (await queue.open()).store
        return await work(store), store.now()

    return with_queue(common, session)


def recorded(operation: Operation, *, project: str, subject: str, reason: str) -> By:
    """Who makes the change, with its audit row."""
    return audited(by(reason), operation.value, project=project, subject=subject)
