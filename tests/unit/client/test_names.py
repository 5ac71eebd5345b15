"""What users of the client import: types of its calls, errors, and what it says without its extra."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import holdfast.client as face
from holdfast.client.client import Client
from holdfast.errors import HoldfastError

MODELS = ("models", "admin_models", "fleet_models", "job_models", "webhook_models", "api")


def test_every_type_that_a_call_returns_can_be_imported() -> None:
    client = Client("http://127.0.0.1:1", "hf_user_x")
    parts: list[type] = [type(part) for part in vars(client).values()]
    ours = {import_module(f"holdfast.client.{name}").__name__ for name in MODELS}
    returned = {
        kind.__name__
        for cls in [Client, *parts]
        for name, call in vars(cls).items()
        if callable(call) and not name.startswith("_")
        for kind in classes_of(typing.get_type_hints(call, vars(module_of(cls))).get("return"))
        if kind.__module__ in ours
    }
    assert {"NodeView", "Rows", "DryRunView"} <= returned
    assert returned - {*face.__all__} == set()


def module_of(cls: type) -> ModuleType:
    return import_module(cls.__module__)


def classes_of(hint: object) -> Iterator[type]:
    """The classes of an annotation such as `Rows[NodeView] | None`."""
    for each in (hint, typing.get_origin(hint)):
        if isinstance(each, type):
            yield each
    for each in typing.get_args(hint):
        yield from classes_of(each)


def test_the_client_has_every_error_of_requests() -> None:
    module = import_module("holdfast.core.errors")
    errors = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, HoldfastError)
        and value.__module__ == module.__name__
    }
    assert errors == {*module.__all__}
    assert all(getattr(face, name) is getattr(module, name) for name in errors)
    assert face.HoldfastError is HoldfastError


def test_without_its_extra_the_client_names_it() -> None:
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from holdfast.client import Unauthenticated, TaskView\n"
        "try:\n    from holdfast.client import Client\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "MissingExtra holdfast.client.Client needs httpx2: pip install 'holdfast[client]'"
    )
