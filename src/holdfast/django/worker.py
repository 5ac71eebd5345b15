"""The queues of a Django project, for workers.

    DJANGO_SETTINGS_MODULE=mysite.settings holdfast worker holdfast.django.worker:queue

`queue` is that of the backend "default"; another alias of TASKS has its own name here. It imports the module
`tasks` of every installed application. Tasks that are defined elsewhere: name their modules in the option
`modules`, or import them in a `tasks` module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

import django
from django.utils.module_loading import autodiscover_modules

from holdfast import TaskQueue
from holdfast.django.interface import tasks
from holdfast.django.outbox import APP, Relay

if TYPE_CHECKING:
    queue: TaskQueue

_prepared: Final[dict[str, TaskQueue]] = {}
django.setup()
autodiscover_modules("tasks")


def __getattr__(name: str) -> TaskQueue:
    alias = "default" if name == "queue" else name
    if alias not in tasks.task_backends.settings:
        raise AttributeError(f"TASKS has no backend {alias!r}")
    return _prepared.get(alias) or _prepared.setdefault(alias, _prepare(alias))


def _prepare(alias: str) -> TaskQueue:
    """The queue of a backend, with the relay of the outbox."""
    from django.apps import apps

    backend = tasks.task_backends[alias]
    for module in backend.modules:
        import_module(module)
    made: TaskQueue = backend.queue
    if apps.is_installed(APP):
        made.on_start(Relay(made, backend.database, alias).running)
    return made
