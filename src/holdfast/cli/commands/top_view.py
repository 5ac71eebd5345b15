"""The picture of `holdfast top`: pure text from what was read."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from holdfast.cli.output.table import Column, Item, cut, render
from holdfast.cli.output.times import length, relative
from holdfast.core.fleet.model import JobStatus
from holdfast.core.plural import noun_for
from holdfast.core.text import one_line

JSON_LISTS: Final = ("queues", "jobs", "causes", "decisions", "conflicts", "approvals")
PEOPLE: Final = (
    ("decisions", "decision", "holdfast decision list"),
    ("approvals", "approval", "holdfast approval list"),
    ("conflicts", "conflict", "holdfast conflict list"),
)
ENDS: Final = ("completed", "aborted", "failed")
Line = tuple[str, str]


class Seen(NamedTuple):
    """What was read at one moment."""

    stats: dict[str, Any]
    lists: dict[str, list[Item]]
    now: float
    before: Seen | None
    """The moment before, which rates count from."""


def picture(seen: Seen, width: int | None, height: int) -> list[Line]:
    """Lines with their styles, at most `height` of them. `width`: None cuts nothing."""
    lines: list[Line] = [(tasks_line(seen), "bold"), (nodes_line(seen), "")]
    lines += [(text, "magenta") for text in people_lines(seen)]
    for rows, columns in (
        (seen.lists["queues"], _queue_columns()),
        (seen.lists["jobs"], _job_columns()),
        (seen.lists["causes"], _cause_columns(seen.now)),
    ):
        lines += _table(rows, columns, width)
    fitted = [(text if width is None else cut(text, width), style) for text, style in lines]
    return fitted[:height]


def tasks_line(seen: Seen) -> str:
    counts = ", ".join(
        f"{seen.stats[name]:,} {name}"
        for name in ("running", "queued", "blocked", "paused", "stuck")
        if seen.stats.get(name)
    )
    dead = seen.stats["dead_letter_count"]
    return f"tasks   {counts or 'none under way'}; {rate_of(seen)}{_count(dead, 'dead letter')}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun_for(n, noun)}"


def rate_of(seen: Seen) -> str:
    """Ends per second since the picture before."""
    if seen.before is None or seen.now <= seen.before.now:
        return ""
    ended = [sum(int(one.stats.get(name) or 0) for name in ENDS) for one in (seen.before, seen)]
    # Retention removes tasks that have ended: that is no work.
    return f"{max(0, ended[1] - ended[0]) / (seen.now - seen.before.now):.1f}/s end; "


def nodes_line(seen: Seen) -> str:
    stats = seen.stats
    return (
        f"nodes   {stats['nodes']} live, {_count(stats['workers'], 'worker')}, "
        f"{stats['available_workers']} free; feed at {stats['feed_head']}"
    )


def people_lines(seen: Seen) -> list[str]:
    """What waits for a person, and where it is listed."""
    return [
        f"people  {_count(len(found), noun)} {'waits' if len(found) == 1 else 'wait'}: {command}"
        for name, noun, command in PEOPLE
        if (found := seen.lists[name])
    ]


def _table(rows: Sequence[Item], columns: Sequence[Column], width: int | None) -> list[Line]:
    """An empty line, the head and the rows. Nothing without rows."""
    if not rows:
        return []
    head, *body = render(rows, columns, width=width, colour=False)
    return [("", ""), (head, "bold"), *((line, "") for line in body)]


def _queue_columns() -> list[Column]:
    def count(status: str) -> Column:
        title = {"queued": "WAITS", "running": "RUNS"}.get(status, status.upper())
        return Column(title, lambda item: item["counts"].get(status, 0))

    return [
        Column("QUEUE", itemgetter("name"), flex=True),
        count("queued"),
        count("running"),
        count("blocked"),
        count("failed"),
        Column("OLDEST", lambda item: _length(item["oldest_due_seconds"])),
        Column("STATE", _queue_state, flex=True, rank=1),
    ]


def _length(seconds: float | None) -> str:
    return "-" if seconds is None else length(seconds)


def _queue_state(item: Item) -> str:
    if item["paused_at"] is None:
        return "flows" if item["counts"].get("running") else "-"
    return one_line(f"paused by {item['paused_by']}: {item['reason'] or ''}")


def _job_columns() -> list[Column]:
    def not_well(item: Item) -> int:
        return int(sum(item["ended"].values()) - item["ended"].get("SUCCESS", 0))

    return [
        Column("JOB", lambda item: item["external_id"] or item["id"], flex=True),
        Column("STATUS", lambda item: _job_status(item["status"])),
        Column("ENDED", lambda item: f"{sum(item['ended'].values())} of {item['hosts']}"),
        Column("FAILED", not_well),
        Column("BY", itemgetter("created_by"), flex=True, rank=1),
    ]


def _job_status(status: str) -> str:
    return "waits for approval" if status == JobStatus.WAIT_APPROVAL else status.lower()


def _cause_columns(now: float) -> list[Column]:
    return [
        Column("DEAD", itemgetter("count")),
        Column("TYPE", itemgetter("type"), flex=True),
        Column("LAST", lambda item: relative(item["last_at"], now)),
        Column("CAUSE", itemgetter("error"), flex=True),
    ]
