"""What a transaction writes beside the change that it makes.

A caller hands a `Beside` to a verb of the store, e.g. `store.apply(instructions, beside=...)`. Its scripts
run in the transaction of the verb.
Promises: `before` runs ahead of every lock of the change. `after` runs when the outcome is known, before the
record of the feed. What either raises undoes the transaction and reaches the caller. Both may run again
after a conflict, so they draw no ids and keep no state.
Never: costs a caller anything that hands none.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.event import NewEvent
from holdfast.store.script import Script


class Beside:
    """Base class. Each method is a script, and does nothing by default."""

    __slots__ = ()

    @property
    def is_undone(self) -> bool:
        """Whether `after` undoes the change, as a dry run does. A use case that would write in a second
        transaction leaves that one out."""
        return False

    def before(self, now: float) -> Script[None]:
        """Runs first, e.g. to find out whether the request was answered before."""
        yield from ()

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        """Runs with the outcome of the verb: `list[Ruling]` of `apply`, `list[Inserted]` of `insert`, else
        what the verb documents. Returns events for the record of the change, which `apply` and the verbs of
        queues take."""
        yield from ()
        return ()


class OnlyRepeats(Beside):
    """Refuses an insert that would add a task. A repeat of an earlier insert is answered."""

    __slots__ = ("_inner", "_refusal")

    def __init__(self, refusal: Exception, inner: Beside | None) -> None:
        self._refusal = refusal
        self._inner = inner

    @property
    def is_undone(self) -> bool:
        return self._inner is not None and self._inner.is_undone

    def before(self, now: float) -> Script[None]:
        yield from begin(self._inner, now)

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        if any(inserted.created for inserted in outcome):
            raise self._refusal
        return (yield from end(self._inner, outcome, now))


def begin(beside: Beside | None, now: float) -> Script[None]:
    """The script of `before`."""
    if beside is not None:
        yield from beside.before(now)


def end(beside: Beside | None, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
    """The script of `after`."""
    if beside is None:
        return ()
    return (yield from beside.after(outcome, now))
