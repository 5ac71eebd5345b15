"""What an order store took for durable when its process died, for comparison with what the next one
finds."""

from __future__ import annotations

from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.book import Contents, MemoryBook
from holdfast.orders.model.commands import Change
from holdfast.sim.trace import Trace


class Memory:
    """The memory of one trader, from the end of one life to the start of the next."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._expected: tuple[Contents, list[Change]] | None = None

    def note(self, store: DurableOrderStore) -> None:
        """Records the durable state and the pending records. Only the first call counts: a failed store
        accepts nothing more."""
        if self._expected is None:
            unsynced = store._commit.unsynced()
            self._expected = (store._book.contents(unsynced), [undo.change for undo in unsynced])

    def forget(self) -> None:
        """The next life must have the answered calls, and nothing else."""
        self._expected = None

    def compare(self, store: DurableOrderStore) -> str | None:
        """Differences, as text: durable records must exist, pending records up to some point."""
        if self._expected is None:
            return None
        (contents, maybe), self._expected = self._expected, None
        found = store._book.contents()
        book = MemoryBook()
        book.load(contents.orders, contents.answered)
        book.freeze = contents.freeze
        for change in (None, *maybe):
            if change is not None:
                book.apply(change)
            if (found.orders, found.freeze) == (book.orders(), book.freeze):
                if change is not None:
                    self._trace.sometimes("orders-unanswered-but-durable")
                return None
        return (
            f"found {len(found.orders)} orders, epoch {found.freeze.epoch}; before it "
            f"{len(contents.orders)} orders, epoch {contents.freeze.epoch} were durable"
        )
