"""The backend for `django.tasks`.

    TASKS = {
        "default": {
            "BACKEND": "holdfast.django.backend.HoldfastBackend",
            "QUEUES": ["default", "mail"],
            "OPTIONS": {"url": "postgresql://app@db/app", "default_max_attempts": 5},
        },
    }

Options: `url` (by default as of the command line), `token` of a gateway, `database` (the alias whose
transactions count, by default "default"), `modules` (further modules with tasks, for workers), and every
setting of a `TaskQueue`. Promises: see `holdfast.django`. A Django task is a task type of the same dotted
name. All threads share one queue for each alias: Django makes a backend for each thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from holdfast import TaskQueue
from holdfast.app import sqlite_path
from holdfast.clock import SystemClock
from holdfast.config import find_url
from holdfast.core.address import Scheme, scheme_of
from holdfast.core.request import EnqueueRequest
from holdfast.core.seconds import check_moment
from holdfast.core.submit import submit
from holdfast.django import outbox, results
from holdfast.django.handlers import handler_of
from holdfast.django.interface import BaseTaskBackend, TaskResultDoesNotExist, signals
from holdfast.store.backends import fresh_ids

__all__ = ["HoldfastBackend"]

URGENT: Final = 50
_queues: Final[dict[str, TaskQueue]] = {}
"""By alias."""


class HoldfastBackend(BaseTaskBackend):
    """Enqueues tasks of Django into a Holdfast store."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    """In four bands, see `band`."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.alias = alias
        options = dict(self.options)
        self.database = str(options.pop("database", "default"))
        self.modules = tuple(options.pop("modules", ()))
        self.queue = _queues.get(alias) or _queues.setdefault(alias, self._new_queue(options))

    def validate_task(self, task: Any) -> None:
        """Checks a task, and makes its function a handler. Django calls it when a task is defined."""
        super().validate_task(task)
        handlers = self.queue.definitions.handlers
        if task.module_path not in handlers:
            handler = handler_of(task, self.alias)
            self.queue.register_handler(task.module_path, handler, queue=task.queue_name)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueues a task, in the transaction of Django if there is one."""
        self.validate_task(task)
        clock = SystemClock()
        now = clock.now()
        task_id = fresh_ids().task(now)
        made = results.new_result(
            task, task_id, self.alias, {"args": args, "kwargs": kwargs}, timezone.now()
        )
        payload = {"args": made.args, "kwargs": made.kwargs}
        request: dict[str, Any] = {
            "type": task.module_path,
            "payload": payload,
            "queue": task.queue_name,
            "priority": band(task.priority),
        }
        if task.run_after is not None:
            after = task.run_after
            request["run_at"] = after if timezone.is_aware(after) else timezone.make_aware(after)
        _refuse_wrong(request, task_id, now)
        if outbox.is_in_transaction(self.database):
            outbox.write(self.queue, self.database, self.alias, task_id, request)
        else:
            self.queue.sync.enqueue(**request, id=task_id)
        signals.task_enqueued.send(type(self), task_result=made)
        return made

    def get_result(self, result_id: str) -> Any:
        """The state of a task, from any process."""
        found = self._in_store(result_id)
        if found is not None:
            return found
        waiting = outbox.find(self.database, result_id)
        if waiting is not None:
            request, at = waiting
            given = results.django_task(request["type"])
            return results.new_result(given, result_id, self.alias, request["payload"], at)
        # It may have been forwarded between the two looks.
        found = self._in_store(result_id)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    def _in_store(self, result_id: str) -> Any:
        """The state of a task in the store. None if it is not there."""
        found = self.queue.sync.get_task(result_id)
        if found is None:
            return None
        events = self.queue.sync.history(found.id)
        return results.result_of(found, results.django_task(found.type), self.alias, events)

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """System checks: `manage.py check`."""
        yield from super().check(**kwargs)
        if not apps.is_installed(outbox.APP):
            yield checks.Warning(
                "Tasks that are enqueued in a transaction are refused.",
                hint=f"Add {outbox.APP!r} to INSTALLED_APPS and run `manage.py migrate`.",
                id="holdfast.W001",
            )

    def _new_queue(self, options: dict[str, Any]) -> TaskQueue:
        url = find_url(options.pop("url", None), os.environ, Path.cwd()).value
        _refuse_file_of_django(url)
        if self.queues:
            # Without it, workers serve the queues of the decorators only, not those of `using`.
            options.setdefault("queues", tuple(sorted(self.queues)))
        return TaskQueue(url, **options)


def band(priority: int) -> str:
    """The priority of Holdfast: critical above 50, high above 0, normal at 0, low below."""
    if priority > URGENT:
        return "critical"
    if priority > 0:
        return "high"
    return "normal" if priority == 0 else "low"


def _refuse_wrong(request: dict[str, Any], task_id: str, now: float) -> None:
    """Raises what the store would raise: after a commit it would be too late."""
    run_at = request.get("run_at")
    moment = None if run_at is None else check_moment("run_at", run_at)
    submit(EnqueueRequest(**{**request, "run_at": moment}), task_id=task_id, now=now)


def _refuse_file_of_django(url: str) -> None:
    """Two copies of SQLite in one process destroy a file that both write."""
    from django.conf import settings

    if scheme_of(url) is not Scheme.SQLITE or not (path := sqlite_path(url)):
        return
    for database in settings.DATABASES.values():
        name = database.get("NAME")
        is_sqlite = str(database.get("ENGINE", "")).endswith("sqlite3")
        if is_sqlite and name and Path(str(name)).absolute() == Path(path).absolute():
            raise ImproperlyConfigured(
                f"the store {path} is the database file of Django, which uses another copy of SQLite: give "
                "Holdfast another file; tasks commit with Django's transactions all the same"
            )
