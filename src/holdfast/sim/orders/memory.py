"""What an order store held for durable when its process died, to be compared with what the next one finds."""

from __future__ import annotations

from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.book import Cut, MemoryBook
from holdfast.orders.model.commands import Change
from holdfast.sim.trace import Trace


class Memory:
    """Of one trader, from the end of a life to the beginning of the next."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._expected: tuple[Cut, list[Change]] | None = None

    def note(self, store: DurableOrderStore) -> None:
        """What is durable as the store believes, and what is on its way. The first word counts: a store
        that has failed takes nothing more."""
        if self._expected is None:
            unsynced = store._commit.unsynced()
            self._expected = (store._book.cut(unsynced), [undo.change for undo in unsynced])

    def forget(self) -> None:
        """The next life must have the answered calls, and nothing else."""
        self._expected = None

    def compare(self, store: DurableOrderStore) -> str | None:
        """What was durable is there; what was on its way is there up to some record. Else what is wrong."""
        if self._expected is None:
            return None
        (cut, maybe), self._expected = self._expected, None
        found = store._book.cut()
        book = MemoryBook()
        book.load(cut.orders, cut.answered)
        book.freeze = cut.freeze
        for change in (None, *maybe):
            if change is not None:
                book.apply(change)
            if (found.orders, found.freeze) == (book.orders(), book.freeze):
                if change is not None:
                    self._trace.sometimes("orders-unanswered-but-durable")
                return None
        return (
            f"found {len(found.orders)} orders, epoch {found.freeze.epoch}; before it "
            f"{len(cut.orders)} orders, epoch {cut.freeze.epoch} were durable"
        )
