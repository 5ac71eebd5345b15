"""Pushed items and tasks for the tests of the rules for conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from holdfast.core.exchange.merge import Progress
from holdfast.core.exchange.push import Current, Hold, HoldKind, LastClaim, PushItem
from holdfast.core.exchange.strategy import ContentChange, FieldClass, Strategies, Strategy
from holdfast.core.task import LEASED, Status

ME, OTHER = "plugin-a", "plugin-b"
VERSION, FENCE, OLD_FENCE = 5, 3, 2
RESULT = '{"n":1}'
MERGE = Strategies()
LAST_WRITE = Strategies(Strategy.LAST_WRITE_WINS)
MANUAL = Strategies(Strategy.MANUAL)
MIXED = Strategies(Strategy.MANUAL, {FieldClass.SET: Strategy.MERGE})

HOLDS = (
    Hold(),
    Hold(HoldKind.OPERATOR),
    Hold(HoldKind.DECISION),
    Hold(HoldKind.NODE, ME),
    Hold(HoldKind.NODE, OTHER),
)
CHANGES = (
    ContentChange(),
    ContentChange(payload_json='"new"'),
    ContentChange(labels_added=frozenset({"nightly"})),
)
OBSERVED: tuple[Progress | None, ...] = (None, Progress(done=0.5))
ASKED = (None, "done", *(status.value for status in Status))
VERSIONS = (0, VERSION - 1, VERSION, VERSION + 1)
RESULTS = (None, RESULT)
WITH_RESULT = (None, "completed", "failed")


def current_in(
    status: Status,
    hold: Hold = HOLDS[0],
    *,
    claimed_by: str = OTHER,
    payload_version: int = VERSION,
) -> Current:
    """A task at `VERSION` with `FENCE`, last claimed by a node. Only a running or stuck one is still held."""
    return Current(
        status,
        VERSION,
        FENCE,
        LastClaim(claimed_by, 1, FENCE, "c-1"),
        hold,
        Progress(FENCE, 1, 0.5),
        '"old"',
        payload_version,
        RESULT if status is Status.COMPLETED else None,
        "created",
    )


def senders(status: Status) -> Iterator[tuple[str, int | None]]:
    """The node of the latest claim, and the fence that `ME` sends."""
    yield ME, None
    yield OTHER, OLD_FENCE
    yield OTHER, None
    if status in LEASED:
        yield ME, FENCE
        yield OTHER, FENCE


def cases() -> Iterator[tuple[PushItem, Current | None, Strategies]]:
    """Every combination of what the rules look at."""
    for status, version, change, observed in product(ASKED, VERSIONS, CHANGES, OBSERVED):
        for result in RESULTS if status in WITH_RESULT else RESULTS[:1]:
            item = PushItem(
                ME,
                version,
                status,
                change=change,
                progress=observed,
                result_json=result,
                request_hash="created",
            )
            yield item, None, MERGE
            yield from meetings(item)


def meetings(item: PushItem) -> Iterator[tuple[PushItem, Current, Strategies]]:
    """The item of every sender against every task, under every strategy that can make a difference."""
    is_stale_content = item.expected_version == VERSION - 1 and item.change != CHANGES[0]
    strategies = (MERGE, LAST_WRITE, MANUAL, MIXED) if is_stale_content else (MERGE,)
    payload_versions = (1, VERSION) if is_stale_content else (VERSION,)
    for status, hold in product(Status, HOLDS):
        for (claimed_by, fence), strategy, payload_version in product(
            senders(status), strategies, payload_versions
        ):
            current = current_in(
                status, hold, claimed_by=claimed_by, payload_version=payload_version
            )
            yield replace(item, fence=fence), current, strategy


def pushed(status: str | None = None, version: int = VERSION, **fields: object) -> PushItem:
    """An item of `ME`, without a fence unless given."""
    return PushItem(ME, version, status, **fields)  # type: ignore[arg-type]


def mine(status: Status, hold: Hold = HOLDS[0]) -> Current:
    """A task whose latest claim is the sender's."""
    return current_in(status, hold, claimed_by=ME)
