"""The backend for `django.tasks`: a real Django project, with its own processes, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.failure import from_exception
from holdfast.core.task import Failure, FailureKind
from tests.backends import SHARED, url_of

SITE = Path(__file__).parent / "django_site"


class Site:
    def __init__(self, database: str, store: str) -> None:
        self.env = {
            **os.environ,
            "SITE_DATABASE": database,
            "SITE_STORE": store,
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": os.pathsep.join([str(SITE), *sys.path]),
        }

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *args],
            cwd=SITE,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )

    def drive(self, step: str, *given: Any) -> dict[str, Any]:
        ran = self.run("drive.py", step, *(json.dumps(each) for each in given))
        assert ran.returncode == 0, ran.stderr
        said: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return said

    @contextmanager
    def worker(self, *command: str) -> Iterator[None]:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=SITE, env=self.env, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        said: list[str] = []
        try:
            for line in process.stderr:
                said.append(line)
                if "ready: pid" in line:
                    break
            else:
                raise AssertionError("".join(said))
            yield
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=60)
            assert process.returncode == 0, "".join(said) + rest
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


@pytest.fixture(params=SHARED)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """On PostgreSQL, Django and Holdfast share a database. On SQLite they have a file each."""
    store = url_of(request.param, request, tmp_path)
    is_file = store.startswith("sqlite")
    return Site(f"sqlite:///{tmp_path / 'django.db'}" if is_file else store, store)


COMMANDS = {
    "sqlite": ("manage.py", "holdfast_worker", "--max-workers", "3"),
    "postgresql": ("-m", "holdfast", "worker", "holdfast.django.worker:queue"),
}


def test_tasks_commit_with_the_transaction_and_run(site: Site) -> None:
    ids = site.drive("prepare")
    ids |= site.drive("crash")
    site.drive("age")
    with site.worker(*COMMANDS[site.env["SITE_STORE"].partition(":")[0]]):
        assert site.drive("results", ids)["interface"] in ("django.tasks", "django_tasks")


def test_the_file_of_django_is_refused_as_a_store(tmp_path: Path) -> None:
    """Two copies of SQLite in one process would destroy it."""
    url = f"sqlite:///{tmp_path / 'both.db'}"
    ran = Site(url, url).run("drive.py", "prepare")
    assert "is the database file of Django, which uses another copy of SQLite" in ran.stderr


PROGRAM = """
import os, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=[], USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={"default": {"BACKEND": "holdfast.django.backend.HoldfastBackend", "OPTIONS": {"url": "sqlite://"}}},
)
django.setup()
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from holdfast.django.backend import HoldfastBackend, band
from holdfast.django.interface import tasks
from module_with_task import work
backend = tasks.task_backends["default"]
print([check.id for check in backend.check()])
print([band(n) for n in (100, 51, 50, 1, 0, -1, -100)])
print(work.enqueue().status)
try:
    with transaction.atomic():
        work.enqueue()
except ImproperlyConfigured as error:
    print(error)
"""


def test_without_the_outbox_a_transaction_is_refused(tmp_path: Path) -> None:
    (tmp_path / "module_with_task.py").write_text(
        "from holdfast.django.interface import tasks\n\n@tasks.task\ndef work():\n    pass\n"
    )
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    check, bands, status, error = ran.stdout.splitlines()
    assert check == "['holdfast.W001']"
    assert bands == str(["critical", "critical", "high", "high", "normal", "low", "low"])
    assert status == "READY"
    assert "add 'holdfast.django' to INSTALLED_APPS and run `manage.py migrate`" in error


class Odd(Exception):
    class Inner(Exception):
        pass


def raised(error: Exception) -> Failure:
    try:
        raise error
    except Exception as caught:
        return from_exception("work", caught)


def test_the_class_of_an_error_can_be_imported() -> None:
    program = """
import sys
from holdfast.core.task import FAILURE
from holdfast.django.results import exception_path
for line in sys.stdin:
    print(exception_path(FAILURE.decode(line)))
"""
    from holdfast.core import codec

    failures = [
        raised(ValueError("x: y")),
        raised(Odd("first line\nValueError: not this one")),
        raised(Odd.Inner()),
        Failure(FailureKind.TIMEOUT, "it ran too long"),
    ]
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(codec.dumps(failure) for failure in failures),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.splitlines() == [
        "builtins.ValueError",
        f"{__name__}.Odd",
        f"{__name__}.Odd.Inner",
        "builtins.Exception",
    ], ran.stderr
