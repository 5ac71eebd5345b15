"""Replaces attributes of the product for the length of a `with`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

from holdfast.store.sqlite import connection

Swap = tuple[Any, str, Any]
"""(owner, attribute, value)"""
Focus = tuple[tuple[str, str], ...]
QUIET: Final[Focus] = (("nodes", "1"), ("clients", "1"), ("act_seconds", "20"), ("hours", "0.05"))
SOON: Final[Focus] = (("recover_hours", "0.1"),)
"""What does not come to rest shows after six minutes too."""


class Ablation:
    """A safeguard, the behaviour without it, and how to turn it off."""

    __slots__ = ("focus", "make", "name", "without")

    def __init__(
        self, name: str, without: str, make: Callable[[], list[Swap]], focus: Focus = ()
    ) -> None:
        self.name = name
        self.without = without
        self.make = make
        self.focus = focus
        """Plan parameters under which its absence is noticed soon; with a drawn plan it takes more seeds."""


@contextmanager
def swapped(swaps: list[Swap]) -> Iterator[None]:
    before = [getattr(owner, attribute) for owner, attribute, _ in swaps]
    try:
        for owner, attribute, value in swaps:
            setattr(owner, attribute, value)
        yield
    finally:
        for (owner, attribute, _), value in zip(swaps, before, strict=True):
            setattr(owner, attribute, value)


def statement(name: str, *replaced: tuple[str, str]) -> list[Swap]:
    """Replaces the text of a SQLite statement."""
    known = connection.statements()
    text = known[name].text
    for old, new in replaced:
        if old not in text:
            raise ValueError(f"statement {name} has no '{old}'")
        text = text.replace(old, new)
    changed = copy(known)
    changed[name] = known[name]._replace(text=text)
    return [(connection, "statements", lambda: changed)]
