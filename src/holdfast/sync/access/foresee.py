"""Dry runs of changes: an operation does its work, and its transaction is undone.

Promises: the answer is the one that the change would get now: rights, checks, versions and conflicts are
judged as for the change itself. Nothing is written: no row, no event, no audit row, no answer for a repeat.
Never: foresees an act of several transactions; it is refused before the first of them.
"""

from __future__ import annotations

from typing import NoReturn

from holdfast.core import codec
from holdfast.errors import NotSupported
from holdfast.store.script import Script
from holdfast.sync.access.recorded import Repeatable

DRY_RUN_HEADER = "holdfast-dry-run"
"""The header that asks for a dry run, and that its answer has."""


class Foreseen(Exception):
    """The change was undone. `answer` is what it would have been answered with."""

    def __init__(self, answer: codec.Json) -> None:
        super().__init__("the change was foreseen, not made")
        self.answer = answer


class Foreseeing(Repeatable):
    """Stands for the entry of a key, as the last thing that a change writes: it undoes the change. A change
    that is refused has no answer, and its error reaches the caller."""

    is_undone = True

    def __init__(self) -> None:
        """A dry run has no entry."""

    def begin(self, now: float) -> Script[None]:
        yield from ()

    def look(self, now: float) -> Script[None]:
        yield from ()

    def hold(self, now: float) -> Script[None]:
        yield from ()
        cannot_foresee()

    def end(self, answer: codec.Json, now: float) -> Script[None]:
        yield from ()
        raise Foreseen(answer)

    def give_up(self, now: float) -> Script[None]:
        yield from ()


def cannot_foresee() -> NoReturn:
    """The error for a call that has no dry run."""
    raise NotSupported("this call has no dry run: leave the header Holdfast-Dry-Run out")
