"""Tasks that commit or roll back with a transaction of Django.

In a transaction, a task becomes a row of Django's own database. After the commit the row is forwarded to the
store and deleted. If the process dies in between, a worker forwards it (`Relay`).

Promises: the task exists if and only if the transaction commits. Forwarding twice enqueues once: the row has
the id of the task. This holds for every database of Django and every store, also SQLite beside SQLite: the
two libraries (`sqlite3` of Django, `apsw` of Holdfast) never open one file. Never: loses a row that the store
has not acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, close_old_connections, connections, transaction
from django.utils import timezone

from holdfast import TaskQueue
from holdfast.core import codec
from holdfast.errors import HoldfastError, StoreUnavailable

APP: Final = "holdfast.django"
RELAY_SECONDS: Final = 5.0
"""How often a worker looks for rows that were left behind, and how old those are."""
PAGE: Final = 100
log = logging.getLogger("holdfast.django")


def is_in_transaction(database: str) -> bool:
    """Whether this thread has an open transaction."""
    return bool(connections[database].in_atomic_block)


def write(
    queue: TaskQueue, database: str, backend: str, task_id: str, request: dict[str, Any]
) -> None:
    """Puts the task into the transaction, and forwards it after the commit."""
    if not apps.is_installed(APP):
        raise ImproperlyConfigured(
            f"a task was enqueued in a transaction, which needs the outbox: add {APP!r} to INSTALLED_APPS "
            "and run `manage.py migrate`"
        )
    row = _rows(database).create(task_id=task_id, backend=backend, request_json=_encoded(request))
    # Robust: an error of the store must not fail a request whose transaction has committed.
    transaction.on_commit(lambda: _forward_now(queue, database, row), using=database, robust=True)


def find(database: str, task_id: str) -> tuple[dict[str, Any], datetime] | None:
    """A task that is not in the store yet, with the time of its row."""
    if not apps.is_installed(APP):
        return None
    row = _rows(database).filter(task_id=task_id).first()
    return None if row is None else (decoded(row.request_json), row.created_at)


def _encoded(request: dict[str, Any]) -> str:
    run_at = request.get("run_at")
    return codec.dumps(request if run_at is None else {**request, "run_at": run_at.isoformat()})


def decoded(text: str) -> dict[str, Any]:
    request: dict[str, Any] = codec.loads_object(text)
    if request.get("run_at") is not None:
        request["run_at"] = datetime.fromisoformat(request["run_at"])
    return request


def _rows(database: str) -> Any:
    from holdfast.django.models import OutboxEntry

    return OutboxEntry.objects.using(database)


def _forward_now(queue: TaskQueue, database: str, row: Any) -> None:
    try:
        forward(queue, database, row)
    except HoldfastError as error:
        log.warning(
            "task %s is committed and waits in the outbox, because the store did not take it: %s; a worker "
            "forwards it",
            *(row.task_id, error),
        )


def forward(queue: TaskQueue, database: str, row: Any) -> None:
    """Enqueues the task of a row, and deletes the row."""
    queue.sync.enqueue(**decoded(row.request_json), id=row.task_id)
    _rows(database).filter(task_id=row.task_id).delete()


class Relay:
    """Forwards rows that a process left behind. Runs in every worker."""

    def __init__(self, queue: TaskQueue, database: str, backend: str) -> None:
        self._queue = queue
        self._database = database
        self._backend = backend

    async def running(self) -> AsyncIterator[Relay]:
        """A start hook of workers."""
        relaying = asyncio.create_task(self._relay_always(), name="holdfast-django-relay")
        yield self
        relaying.cancel()
        await asyncio.wait([relaying])

    async def _relay_always(self) -> None:
        while True:
            try:
                await sync_to_async(self.relay)()
            except (HoldfastError, DatabaseError):
                log.exception(
                    "the outbox was not forwarded; the next try is in %g s", RELAY_SECONDS
                )
            await asyncio.sleep(RELAY_SECONDS)

    def _forwarded(self, row: Any) -> bool:
        """Forwards a row. One that the store refuses must not hold up the others."""
        try:
            forward(self._queue, self._database, row)
        except StoreUnavailable:
            raise
        except HoldfastError:
            log.exception("task %s stays in the outbox: the store refuses it", row.task_id)
            return False
        return True

    def relay(self) -> int:
        """Forwards what is older than `RELAY_SECONDS`: younger rows are forwarded by their own process.
        Returns how many."""
        close_old_connections()
        try:
            before = timezone.now() - timedelta(seconds=RELAY_SECONDS)
            found = _rows(self._database).filter(backend=self._backend, created_at__lt=before)
            rows = list(found.order_by("id")[:PAGE])
            return sum([self._forwarded(row) for row in rows])
        finally:
            close_old_connections()
