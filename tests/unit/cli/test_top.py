"""The picture of `holdfast top`."""

from __future__ import annotations

from typing import Any

from holdfast.cli.commands.top_view import JSON_LISTS, Seen, picture, rate_of
from holdfast.cli.output.table import cells_of

EVIL = "\x1b[2J\u202eevil"


def seen(now: float = 100.0, before: Seen | None = None, **changes: Any) -> Seen:
    stats: dict[str, Any] = {
        "running": 4,
        "queued": 5,
        "blocked": 0,
        "dead_letter_count": 3,
        "completed": 10,
    }
    stats |= {"nodes": 2, "workers": 8, "available_workers": 7, "feed_head": "e:1"}
    lists: dict[str, Any] = {name: [] for name in JSON_LISTS}
    return Seen({**stats, **changes.pop("stats", {})}, lists | changes, now, before)


def queue(name: str, **fields: Any) -> dict[str, Any]:
    base = {"name": name, "counts": {"queued": 3}, "oldest_due_seconds": 72.0}
    return {**base, "paused_at": None, "paused_by": None, "reason": None, **fields}


def texts(found: Seen, width: int | None = None, height: int = 100) -> list[str]:
    return [line for line, _ in picture(found, width, height)]


def test_an_idle_store_has_two_lines() -> None:
    assert texts(seen()) == [
        "tasks   4 running, 5 queued; 3 dead letters",
        "nodes   2 live, 8 workers, 7 free; feed at e:1",
    ]


def test_one_is_not_many() -> None:
    assert texts(seen(stats={"dead_letter_count": 1, "nodes": 1, "workers": 1})) == [
        "tasks   4 running, 5 queued; 1 dead letter",
        "nodes   1 live, 1 worker, 7 free; feed at e:1",
    ]


def test_what_waits_for_people_comes_before_the_tables() -> None:
    paused = queue(
        "reports", paused_at="2026-01-01T00:00:00Z", paused_by="user:mira", reason="load"
    )
    lines = texts(seen(decisions=[{}], approvals=[{}, {}], queues=[queue("mail"), paused]))
    assert lines[2:] == [
        "people  1 decision waits: holdfast decision list",
        "people  2 approvals wait: holdfast approval list",
        "",
        "QUEUE    WAITS  RUNS  BLOCKED  FAILED  OLDEST  STATE",
        "mail     3      0     0        0       1m 12s  -",
        "reports  3      0     0        0       1m 12s  paused by user:mira: load",
    ]


def test_jobs_and_causes_are_listed() -> None:
    job = {"id": "job_1", "external_id": None, "status": "WAIT_APPROVAL", "created_by": "user:mira"}
    cause = {"count": 3, "type": "mail", "last_at": "1970-01-01T00:01:30Z", "error": "no route"}
    lines = texts(
        seen(jobs=[{**job, "ended": {"SUCCESS": 2, "FAILED": 1}, "hosts": 9}], causes=[cause])
    )
    assert lines[3:] == [
        "JOB    STATUS              ENDED   FAILED  BY",
        "job_1  waits for approval  3 of 9  1       user:mira",
        "",
        "DEAD  TYPE  LAST     CAUSE",
        "3     mail  10s ago  no route",
    ]


def test_a_picture_fits_the_terminal_and_obeys_no_text() -> None:
    evil = queue(EVIL * 20, paused_at="x", paused_by=EVIL, reason=EVIL * 50)
    lines = texts(seen(queues=[evil] * 40), width=80, height=12)
    assert len(lines) == 12
    assert max(cells_of(line) for line in lines) <= 80
    assert "\x1b" not in "".join(lines)


def test_rates_count_between_two_pictures() -> None:
    first = seen(stats={"completed": 10})
    assert rate_of(first) == ""
    assert rate_of(seen(104.0, first, stats={"completed": 30})) == "5.0/s end; "
    assert rate_of(seen(104.0, first, stats={"completed": 2})) == "0.0/s end; ", "they were removed"
    assert rate_of(seen(100.0, first)) == ""
