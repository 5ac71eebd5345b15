"""Every error of Holdfast, found in the `errors` modules of its parts."""

from __future__ import annotations

import importlib
from pathlib import Path

from holdfast.errors import HoldfastError

SRC = Path(__file__).resolve().parent.parent / "src"
Error = type[HoldfastError]


def modules() -> list[str]:
    """The root's first."""
    paths = sorted(SRC.rglob("errors.py"), key=lambda path: (len(path.parts), path))
    return [".".join(path.relative_to(SRC).with_suffix("").parts) for path in paths]


def in_order(error: Error = HoldfastError) -> list[Error]:
    """The tree, parents before their children."""
    return [error, *(each for child in children(error) for each in in_order(child))]


def children(error: Error) -> list[Error]:
    """Of the root's module first, then of the parts', each as they stand there."""
    names = modules()
    for name in names:
        importlib.import_module(name)
    found = [child for child in error.__subclasses__() if child.__module__ in names]
    return sorted(found, key=lambda child: names.index(child.__module__))
