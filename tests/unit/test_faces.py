"""The short names that users import: which exist, and that they import nothing until they are used."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

from holdfast import TaskQueue
from holdfast.errors import FeedReset
from tests.public import FACES, PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_has_these_names_and_no_other(name: str) -> None:
    module = import_module(name)
    assert tuple(module.__all__) == PUBLIC[name]
    for public in module.__all__:
        assert getattr(module, public) is not None


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_sorted(name: str) -> None:
    """Constants first, then classes, then functions, as the linter sorts `__all__`."""
    constants = [public for public in PUBLIC[name] if public.isupper()]
    classes = [public for public in PUBLIC[name] if public[0].isupper() and not public.isupper()]
    functions = [public for public in PUBLIC[name] if public[0].islower()]
    assert [*PUBLIC[name]] == [*sorted(constants), *sorted(classes), *sorted(functions)]


def test_a_module_of_errors_exports_every_error() -> None:
    for name in PUBLIC:
        if name.endswith("errors"):
            module = import_module(name)
            errors = [key for key, value in vars(module).items() if is_error_of(value, name)]
            assert sorted(errors) == [*PUBLIC[name]]


def is_error_of(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module


@pytest.mark.parametrize("face", FACES)
def test_an_unknown_name_of_a_face_is_an_attribute_error(face: str) -> None:
    with pytest.raises(AttributeError, match=f"'{face}' has no attribute 'nonsense'"):
        _ = import_module(face).nonsense


@pytest.mark.parametrize("face", ["idempotency", "kv", "locks", "retry"])
def test_a_face_is_the_primitive(face: str) -> None:
    ours, theirs = import_module(f"holdfast.{face}"), import_module(f"holdfast.primitives.{face}")
    assert ours.__all__ == theirs.__all__
    assert all(getattr(ours, name) is getattr(theirs, name) for name in ours.__all__)


def test_importing_the_faces_imports_nothing_else() -> None:
    code = (
        f"import sys, {', '.join(FACES)}; "
        "print(*sorted(name for name in sys.modules if name.startswith(('holdfast', 'asyncio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == sorted([*FACES, "holdfast._lazy"])


def test_a_face_is_an_attribute_of_the_package() -> None:
    code = "import holdfast; print(holdfast.locks.__name__, holdfast.orders.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["holdfast.locks", "holdfast.orders"]


def test_completion_shows_the_public_names_and_the_faces() -> None:
    names = dir(import_module("holdfast"))
    assert {*PUBLIC["holdfast"], "locks", "kv", "orders"} <= {*names}
    assert "annotations" not in names


async def test_completion_of_a_handle_and_of_a_task_shows_their_names() -> None:
    queue = TaskQueue("sqlite://")

    @queue.task
    async def add(a: int) -> int:
        return a

    handle = await add.enqueue(1)
    assert {"get", "result", "wait", "status"} <= {*dir(handle)}
    assert not {"upper", "split", "join"} & {*dir(handle)}
    assert {"enqueue", "options", "request", "type"} <= {*dir(add)}
    await queue.stop()


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.endswith("errors")])
def test_errors_are_the_same_after_pickling(name: str) -> None:
    """A process pool returns them to another process."""
    module = import_module(name)
    for public in module.__all__:
        error = getattr(module, public)
        if "__init__" in vars(error):
            continue  # With its own parameters: `test_errors_with_parameters_survive_pickling`.
        copy = pickle.loads(pickle.dumps(error("a text")))
        assert (type(copy), str(copy)) == (error, "a text")


def test_errors_with_parameters_survive_pickling() -> None:
    copy = pickle.loads(pickle.dumps(FeedReset("pruned", "e:1", "e:9")))
    assert str(copy) == str(FeedReset("pruned", "e:1", "e:9"))
    assert (copy.reason, copy.oldest, copy.head) == ("pruned", "e:1", "e:9")
