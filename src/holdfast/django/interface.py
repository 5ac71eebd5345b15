"""The task interface of this Django: `django.tasks` since Django 6, the package django-tasks before."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any, Final

from holdfast.errors import MissingExtra


def _root() -> str:
    for name in ("django.tasks", "django_tasks"):
        try:
            if importlib.util.find_spec(name) is not None:
                return name
        except ModuleNotFoundError:  # no Django at all
            continue
    raise MissingExtra(
        "the task backend needs Django 6 or django-tasks: pip install 'holdfast[django]'"
    )


ROOT: Final = _root()
tasks: Final[Any] = import_module(ROOT)
signals: Final[Any] = import_module(f"{ROOT}.signals")
BaseTaskBackend: Final[Any] = import_module(f"{ROOT}.backends.base").BaseTaskBackend
TaskError: Final[Any] = import_module(f"{ROOT}.base").TaskError
TaskResultDoesNotExist: Final[Any] = import_module(f"{ROOT}.exceptions").TaskResultDoesNotExist
TaskContext: Final[Any] = tasks.TaskContext
TaskResult: Final[Any] = tasks.TaskResult
ResultStatus: Final[Any] = tasks.TaskResultStatus
