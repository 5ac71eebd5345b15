"""Retention, pruning, metrics and bad input of a ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import (
    BadConfig,
    InvalidInput,
    LeaseLost,
    PayloadTooLarge,
    UnserialisablePayload,
)
from holdfast.primitives.idempotency import (
    EntryLease,
    Ledger,
    calls,
)
from tests.conformance.ledger.support import (
    KEY,
    LEASE,
    REQUEST,
    RETENTION,
    Effect,
    Many,
    pass_time,
    started,
)


async def test_entries_are_kept_for_their_retention(
    many: Many, ledger: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    await ledger.run(*KEY, REQUEST, effect)
    pass_time(clock, RETENTION - 0.1)
    assert await ledger.prune() == 0
    await ledger.run(*KEY, REQUEST, effect)
    assert effect.runs == 1
    pass_time(clock, 0.1)
    assert await ledger.prune() == 1
    assert await ledger.get(*KEY) is None
    await ledger.run(*KEY, REQUEST, effect)
    assert effect.runs == 2
    assert effect.leases[1].fence > effect.leases[0].fence, "fences rise even over a pruned entry"
    assert many.meter.value("holdfast_ledger_pruned_total") == 1


async def test_a_lease_of_a_pruned_entry_is_refused(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    old = await started(ledger)
    pass_time(clock, LEASE + RETENTION)
    assert await ledger.prune() == 1
    new = await started(other)
    with pytest.raises(LeaseLost):
        await ledger.finish(old, "old")
    await other.finish(new, "new")


async def test_pruning_is_limited_and_happens_during_use(
    ledger: Ledger, clock: VirtualClock
) -> None:
    for n in range(5):
        await ledger.run("s", "o", f"k{n}", n, Effect())
    await started(ledger)
    pass_time(clock, RETENTION)
    assert [await ledger.prune(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    pass_time(clock, LEASE)
    await ledger.run("s", "o", "new", 1, Effect())
    assert await ledger.get(*KEY) is None


async def test_a_ledger_in_use_prunes_faster_than_it_grows(
    ledger: Ledger, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "PRUNE_BATCH", 2)
    for n in range(7):
        await ledger.run("s", "old", f"k{n}", n, Effect())
    pass_time(clock, RETENTION + calls.PRUNE_SECONDS)
    for n in range(4):
        await ledger.run("s", "new", f"k{n}", n, Effect())
    assert [await ledger.get("s", "old", f"k{n}") for n in range(7)] == [None] * 7


async def test_unfinished_lists_entries_without_an_outcome(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    """The entry is committed before the effect; the external system is asked by its stable id."""
    outside: set[str] = set()
    lease = await started(ledger)
    outside.add(lease.id)  # acted, and died
    for n in range(3):
        await ledger.begin("account:8", "charge", f"k{n}", n)
        pass_time(clock, 1.0)
    await ledger.run("account:9", "charge", "done", 1, Effect())
    assert await other.unfinished() == []
    pass_time(clock, LEASE)
    entries = await other.unfinished()
    assert [entry.entry_key.key for entry in entries] == ["key-1", "k0", "k1", "k2"]
    assert entries[0].id == lease.id
    assert [e.entry_key.key for e in await other.unfinished("account:8", limit=2)] == ["k0", "k1"]

    async def effect(again: EntryLease) -> str:
        assert (again.attempt, again.id) == (2, lease.id)
        return "was there" if again.id in outside else "acted"

    assert await other.run(*KEY, REQUEST, effect) == "was there"


async def test_what_happened_is_counted(many: Many, ledger: Ledger) -> None:
    for _ in range(3):
        await ledger.run(*KEY, REQUEST, Effect())
    assert (many.counted("misses_total"), many.counted("hits_total")) == (1, 2)
    assert many.counted("effect_seconds") == 1


@pytest.mark.parametrize(
    ("place", "request_", "error"),
    [
        (("", "o", "k"), 1, InvalidInput),
        (("s", "o\n", "k"), 1, InvalidInput),
        (("s", "o", "k" * 201), 1, InvalidInput),
        (("holdfast.step", "o", "k"), 1, InvalidInput),
        (("s", "o", "k"), object(), UnserialisablePayload),
        (("s", "o", "k"), float("nan"), UnserialisablePayload),
        (("s", "o", "k"), "x" * 300_000, PayloadTooLarge),
    ],
)
async def test_bad_input_is_a_typed_error_and_nothing_runs(
    place: tuple[str, str, str], request_: object, error: type[Exception]
) -> None:
    effect = Effect()
    async with Ledger.connect("memory://") as ledger:
        with pytest.raises(error):
            await ledger.run(*place, request_, effect)
    assert effect.runs == 0


def test_invalid_lease_and_retention_times_are_refused() -> None:
    bad: list[Callable[[], object]] = [
        lambda: Ledger.connect("memory://", lease_seconds=0),
        lambda: Ledger.connect("memory://", lease_seconds=10, retention_seconds=9),
        lambda: Ledger.connect("memory://", retention_seconds=float("nan")),
        lambda: Ledger.connect("nonsense://"),
    ]
    for make in bad:
        with pytest.raises(BadConfig):
            make()
