"""`holdfast schedule backfill`: the tasks of past times of a schedule."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1
from holdfast.cli.commands.schedule import Name
from holdfast.cli.confirm import confirmed
from holdfast.cli.options import CHANGE, COMMON, Change, Common, Yes
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.core.plural import noun_for

COLUMNS = [
    Column("TIME", lambda item: item["at"]),
    Column("TASK", lambda item: item["id"], flex=True),
    Column("STATUS", lambda item: item["status"]),
    Column("MADE", lambda item: "now" if item["created"] else "before"),
]


def backfill(
    name: Name,
    /,
    *,
    since: Annotated[
        str,
        Parameter(
            name="--from",
            help="The first time: 2026-08-01 or 2026-08-01T03:00, in the zone of the schedule, or 2d: "
            "two days ago.",
        ),
    ],
    to: Annotated[
        str | None,
        Parameter(help="The end; a time that equals it is left out; default: now."),
    ] = None,
    yes: Yes = False,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> int:
    """Enqueue a task for each time of a schedule in a range, at most 1,000. Its metadata has the time
    (`scheduled_for`). A time that was backfilled before keeps its task."""
    body = {"since": since, "until": to, "reason": given.reason}
    path = v1("schedules", name, "backfill")
    foreseen = answer_of(common, "POST", path, body, dry_run=True)
    printer = Printer(common, dry_run=given.dry_run)
    if given.dry_run or not foreseen["created"]:
        _print(printer, foreseen)
        return 0
    count = foreseen["created"]
    question = f"{count} {noun_for(count, 'task')} would be enqueued: go on?"
    if not confirmed(question, yes=yes, can_count=True):
        printer.note("nothing was changed")
        return 1
    _print(printer, answer_of(common, "POST", path, body))
    return 0


def _print(printer: Printer, item: dict[str, Any]) -> None:
    items, made = item["items"], item["created"]
    if not printer.is_table:
        printer.one(item, [], names=[each["id"] for each in items])
        return
    printer.rows(items, COLUMNS, empty="the schedule has no time in this range")
    if items:
        kept = f"; {len(items) - made} were made before" if made < len(items) else ""
        done = "would be enqueued" if printer.dry_run else "enqueued"
        printer.note(f"{made} {done}{kept}")
