"""The generated pages are up to date."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import holdfast
from holdfast.core.exchange.conflict import ROWS
from tests import module_pages, sync_tables
from tests.members import doc_of, is_attribute, public_names
from tests.pages import (
    CLIENT,
    PRODUCT,
    all_families,
    client_page,
    errors_page,
    metrics_page,
    page,
    public_page,
    queue_page,
    states_page,
    with_rights,
)
from tests.public import INTERNAL, PUBLIC


def test_every_error_code_is_documented() -> None:
    assert page("errors.md") == errors_page()


def test_the_states_page_is_the_table() -> None:
    assert page("states.md") == states_page()


def test_every_metric_is_documented() -> None:
    assert page("metrics.md") == metrics_page(), "run: python -m tests.pages"
    names = [family.name for families in all_families().values() for family in families]
    assert len(names) == len(set(names))


def test_the_page_of_public_names_is_up_to_date() -> None:
    assert page("public.md") == public_page()


def test_every_module_is_public_or_says_that_it_is_internal() -> None:
    folder = Path(holdfast.__file__).parent
    public = {name.split(".")[1] for name in PUBLIC if "." in name}
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    names = {name for name in names if not name.startswith("_")}
    assert names == set(INTERNAL) | public, "add it to INTERNAL or to the public names"
    for name in INTERNAL:
        about = " ".join((import_module(f"holdfast.{name}").__doc__ or "").split())
        assert "An internal package" in about or "An internal module" in about, name
    for name in ("client", "orders", "testing"):
        about = " ".join((import_module(f"holdfast.{name}").__doc__ or "").split())
        assert "modules are internal" in about, name


def test_the_page_of_the_queue_is_up_to_date() -> None:
    assert page("queue.md") == queue_page()


def test_the_page_of_the_client_is_up_to_date() -> None:
    assert page("client.md") == client_page(), "run: python -m tests.pages"


def test_the_pages_of_values_and_modules_are_up_to_date() -> None:
    for name, text in module_pages.written().items():
        assert page(name) == text, "run: python -m tests.pages"


def test_every_list_of_the_client_has_the_same_shape() -> None:
    lists = [cls.list for cls in CLIENT.values() if hasattr(cls, "list")]
    assert len(lists) == 16
    for function in lists:
        assert str(inspect.signature(function).return_annotation).startswith("Rows["), function


@pytest.mark.parametrize("name", ["queue.md", "client.md", "python_kv.md", "python_locks.md"])
def test_the_signatures_of_the_page_are_python(name: str) -> None:
    """A reader can copy the signatures: all defaults are shown, and none as an object of this process."""
    text = page(name)
    shown = re.findall(r"^```\n(?:async )?(\w+\(.*)\n```", text, re.MULTILINE)
    assert len(shown) > 40
    for signature in shown:
        ast.parse(f"def {signature}: ...")
    assert re.findall(r"ForwardRef|<\w+\.| at 0x", text) == []


def is_shown(attribute: object) -> bool:
    return callable(attribute) or is_attribute(attribute)


def test_everything_public_of_the_queue_has_a_docstring() -> None:
    missing = [
        f"{title}.{name}"
        for title, cls in {**PRODUCT, **CLIENT}.items()
        for name in public_names(cls, own_first=True)
        if is_shown(inspect.getattr_static(cls, name)) and not doc_of(cls, name)
    ]
    assert missing == []


def test_the_table_of_roles_is_that_of_the_core() -> None:
    text = page("server.md")
    assert "| `decisions.decide` | - | - | yes | yes |" in text
    assert with_rights(text) == text, "run: python -m tests.pages"


def test_the_tables_of_the_sync_protocol_are_those_of_the_core() -> None:
    assert {row.name for row in ROWS} == set(sync_tables.ASKS)
    text = page("sync.md")
    assert sync_tables.written(text) == text
