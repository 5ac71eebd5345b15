"""All error classes of Holdfast, from the `errors` modules of its packages."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from holdfast.errors import HoldfastError

SRC = Path(__file__).resolve().parent.parent / "src"
Error = type[HoldfastError]


@cache
def modules() -> list[str]:
    """The `errors` modules that define classes, that of the root package first."""
    defining = [path for path in SRC.rglob("errors.py") if "\nclass " in path.read_text("utf-8")]
    paths = sorted(defining, key=lambda path: (len(path.parts), path))
    return [".".join(path.relative_to(SRC).with_suffix("").parts) for path in paths]


def in_order(error: Error = HoldfastError) -> list[Error]:
    """The tree, parents before their children."""
    return [error, *(below for child in children(error) for below in in_order(child))]


def children(error: Error) -> list[Error]:
    """The direct subclasses, by module and then in the order of their definition."""
    names = modules()
    for name in names:
        importlib.import_module(name)
    subclasses = [child for child in error.__subclasses__() if child.__module__ in names]
    return sorted(subclasses, key=lambda child: names.index(child.__module__))
