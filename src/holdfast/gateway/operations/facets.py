"""What pages show beside a list of tasks: numbers by status, type, queue and time, and the rates."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from holdfast.core.check import check_whole
from holdfast.core.rights import Operation
from holdfast.core.search import parse
from holdfast.errors import InvalidInput
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.tasks import QUERY_CHARS_MAX
from holdfast.queue.views import at
from holdfast.store.search import FacetRow, facet_rows

O: Final = Operation  # noqa: E741
COUNTED_MAX: Final = 10_000
"""Tasks that are counted for one answer; past it the answer says that there are more."""
VALUES_MAX: Final = 50
BUCKETS: Final = 60
MINUTES_MAX: Final = 60


async def facets(call: Call, *, q: str = "") -> Answer:
    """The tasks that match `q`, counted. At most the newest 10,000 of them are."""
    call.authorise_any(O.TASKS_READ)
    if len(q) > QUERY_CHARS_MAX:
        raise InvalidInput(f"q has {len(q)} characters: at most {QUERY_CHARS_MAX} are allowed")
    rows = await facet_rows(
        call.services.store, parse(q), projects=call.projects, limit=COUNTED_MAX + 1
    )
    is_capped = len(rows) > COUNTED_MAX
    rows = rows[:COUNTED_MAX]
    return Answer(
        {
            "count": len(rows),
            "capped": is_capped,
            "status": dict(Counter(row.status for row in rows)),
            "type": dict(Counter(row.type for row in rows).most_common(VALUES_MAX)),
            "queue": dict(Counter(row.queue for row in rows).most_common(VALUES_MAX)),
            **_histogram(rows),
        }
    )


def _histogram(rows: list[FacetRow]) -> dict[str, Any]:
    """The tasks by the time of their creation, in equal parts of the time from the first to the last."""
    if not rows:
        return {"from": None, "to": None, "buckets": []}
    first = min(row.created_at for row in rows)
    last = max(row.created_at for row in rows)
    width = max(last - first, 1.0) / BUCKETS
    buckets: list[Counter[str]] = [Counter() for _ in range(BUCKETS)]
    for row in rows:
        buckets[min(int((row.created_at - first) / width), BUCKETS - 1)][row.status] += 1
    ends = {"from": at(first), "to": at(first + width * BUCKETS)}
    return {**ends, "buckets": [dict(bucket) for bucket in buckets]}


async def flow(call: Call, *, minutes: int = MINUTES_MAX) -> Answer:
    """How many tasks were enqueued, started, completed and failed in each 10 s, as far as the gateway has
    counted."""
    call.authorise_store(O.STATS_READ)
    check_whole("minutes", minutes, least=1, most=MINUTES_MAX)
    return Answer(await call.services.flow.over(minutes))
