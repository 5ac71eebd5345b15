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
from django.db import (
    DatabaseError,
    InterfaceError,
    close_old_connections,
    connections,
    transaction,
)
from django.utils import timezone

from holdfast import TaskQueue
from holdfast.core import codec
from holdfast.errors import HoldfastError, StoreUnavailable

APP: Final = "holdfast.django"
RELAY_SECONDS: Final = 5.0
"""How often a worker looks for rows that were left behind, and how old those are."""
PAGE: Final = 100
REFUSED_MAX: Final = 1_000
"""Refused rows that a process remembers, to log each once."""
log = logging.getLogger("holdfast.django")


def is_in_transaction(database: str) -> bool:
    """Whether this thread has an open transaction, or its next query opens one."""
    return _is_atomic(database) or _is_by_hand(database)


def _is_atomic(database: str) -> bool:
    return bool(connections[database].in_atomic_block)


def _is_by_hand(database: str) -> bool:
    """Whether the application commits itself: `set_autocommit(False)`, or AUTOCOMMIT in the settings."""
    connection = connections[database]
    if connection.connection is None:
        return not connection.settings_dict["AUTOCOMMIT"]
    return not connection.autocommit


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
    if _is_atomic(database):
        # Robust: an error of the store must not fail a request whose transaction has committed.
        transaction.on_commit(
            lambda: _forward_now(queue, database, row), using=database, robust=True
        )
    # Otherwise Django does not say when the application commits: a worker forwards the row.


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
        self._refused: set[int] = set()

    async def running(self) -> AsyncIterator[Relay]:
        """A start hook of workers."""
        relaying = asyncio.create_task(self._relay_always(), name="holdfast-django-relay")
        yield self
        relaying.cancel()
        await asyncio.wait([relaying])

    async def _relay_always(self) -> None:
        """In a thread apart: async handlers share that of `sync_to_async`, and would wait for the store."""
        while True:
            try:
                await sync_to_async(self.relay, thread_sensitive=False)()
            except Exception:
                # Of Django, its database or the store. The rows wait.
                log.exception(
                    "the outbox was not forwarded; the next try is in %g s", RELAY_SECONDS
                )
            await asyncio.sleep(RELAY_SECONDS)

    def _forwarded(self, row: Any) -> bool:
        """Forwards a row. One that cannot be enqueued must not hold up the others."""
        try:
            forward(self._queue, self._database, row)
        except (StoreUnavailable, DatabaseError, InterfaceError):
            raise
        except Exception as error:
            if row.id not in self._refused and len(self._refused) < REFUSED_MAX:
                self._refused.add(row.id)
                log.warning("task %s stays in the outbox: %r", row.task_id, error)
            return False
        return True

    def relay(self) -> int:
        """Forwards what is older than `RELAY_SECONDS`: younger rows are forwarded by their own process.
        Returns how many."""
        close_old_connections()
        try:
            before = timezone.now() - timedelta(seconds=RELAY_SECONDS)
            found = _rows(self._database).filter(backend=self._backend, created_at__lt=before)
            done, rows = 0, list(found.order_by("id")[:PAGE])
            while rows:
                done += sum([self._forwarded(row) for row in rows])
                rows = list(found.filter(id__gt=rows[-1].id).order_by("id")[:PAGE])
            return done
        finally:
            close_old_connections()
