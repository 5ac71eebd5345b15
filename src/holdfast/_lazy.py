"""Lazy names of a package: each is imported on its first use, so importing the package is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, places: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `places` maps each module to the names that it defines. `submodules`
    are imported when they are named, too."""
    modules = {name: module for module, names in places.items() for name in names}
    faces = frozenset(submodules)

    def get(name: str) -> Any:
        if name in faces:
            return import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(modules[name]), name)

    return get
