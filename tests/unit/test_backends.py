"""Which store a URL names."""

from __future__ import annotations

from holdfast.clock import VirtualClock
from holdfast.store.backends import store_for


def test_stores_of_one_maker_make_different_ids() -> None:
    """Processes forked from one parent have one maker; the same ids in two of them would lose tasks."""
    make = store_for("sqlite://", VirtualClock())
    first, second = make().ids, make().ids
    assert {first.task(1.0) for _ in range(10)}.isdisjoint({second.task(1.0) for _ in range(10)})
