"""`holdfast events tail`: prints the feed from a position, and follows it.

Promises: events come in order, without repeats or gaps. A position that is no longer available is an
error that names the position to continue from.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.commands.task import said
from holdfast.cli.options import COMMON, Common, Flag, Output, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import FLEX_MIN, clean, cut
from holdfast.cli.output.times import clock
from holdfast.cli.problem import Usage
from holdfast.cli.session import advice, with_parts
from holdfast.cli.use_cases import Feed, UseCases
from holdfast.core.event import Event, Position
from holdfast.core.event_kinds import KINDS
from holdfast.core.search import Query as Search
from holdfast.core.search.events import LOOK_MAX, accepts, list_query
from holdfast.queue import views

PAGE = 50
FOLLOWED = 10
"""How many of the last events `--follow` prints first."""
POSITION_WIDTH = 110
"""A narrower terminal shows no positions, so that the ids of tasks are whole."""
KIND_STYLES = {
    "task.completed": "green",
    "task.failed": "red",
    "task.dead": "red",
    "task.lost": "red",
    "task.started": "yellow",
}


def tail(
    *,
    after: Annotated[
        str | None,
        Parameter(help="A position, an offset, 'start' or 'now'; default: the last events."),
    ] = None,
    follow: Annotated[
        Flag, Parameter(name=("--follow", "-f"), help="Wait for new events.")
    ] = False,
    limit: Annotated[
        int | None, Parameter(name=("--limit", "-n"), help="At most this many (50); 0: no limit.")
    ] = None,
    kind: Annotated[str | None, Parameter(help="Only this kind, e.g. task.dead.")] = None,
    task: Annotated[str | None, Parameter(help="Only of this task.")] = None,
    query: Query = None,
    common: Common = COMMON,
) -> None:
    """Print events, in order. The keys of -q are the fields of events, and subject and actor: kind:task.dead,
    actor:~ann, data.status:failed. A bare word is the beginning of a subject. Without --after the last
    10,000 events are searched."""
    printer = Printer(common)
    wanted = list_query(query or "")
    most = (0 if follow else PAGE) if limit is None else limit
    if most < 0:
        raise Usage(f"--limit is {most}: give 0 for no limit, or a positive number")

    if kind is not None:
        _check_kind(kind)

    is_search = bool(query or kind or task) and after is None and not follow
    back = LOOK_MAX if is_search else FOLLOWED if follow else most

    async def work(parts: UseCases) -> list[dict[str, Any]]:
        named = None if task is None else await parts.tasks.look_up(task)
        prefix = task if named is None else named.id
        start = await _start(parts.feed, after, back)
        kept: deque[Event] = deque(maxlen=most or None)
        count, last = 0, start
        now = 0.0 if wanted.clause is None else await parts.sessions.now()
        with advice(lambda: f"to go on from here: --after {last or 'start'}"):
            async for event in parts.feed.events(start, follow=follow):
                last = event.position
                if not _matches(event, kind, prefix, wanted, now):
                    continue
                count += 1
                if is_search or (printer.output is Output.JSON and not follow):
                    kept.append(event)
                else:
                    print_event(printer, event)
                if count == most and not is_search:
                    break
        return [views.event(event) for event in _left(printer, kept)]

    kept = with_parts(common, work)
    if printer.output is Output.JSON and not follow:
        printer.document(kept)


def _left(printer: Printer, kept: Iterable[Event]) -> Iterable[Event]:
    """The events that are one document. The others are printed here."""
    if printer.output is Output.JSON:
        return kept
    for event in kept:
        print_event(printer, event)
    return ()


def _check_kind(kind: str) -> None:
    """Raises Usage for a kind that no event has: the command would wait for it without end."""
    # A row whose name ends with a dot stands for all kinds that begin with it.
    if kind in KINDS or kind.partition(".")[0] + "." in KINDS:
        return
    names = sorted(name for name in KINDS if not name.endswith("."))
    close = difflib.get_close_matches(kind, names, n=1)
    guess = f"did you mean {close[0]}?" if close else f"the kinds are {', '.join(names)}"
    raise Usage(f"--kind: there are no events of kind '{kind}': {guess}")


def _matches(
    event: Event, kind: str | None, prefix: str | None, wanted: Search, now: float
) -> bool:
    if kind not in (None, event.kind) or not event.task_id.startswith(prefix or ""):
        return False
    return wanted.clause is None or accepts(wanted, event, views.event(event)["data"], now)


async def _start(feed: Feed, after: str | None, back: int) -> Position | None:
    """The position that the option means; None is the oldest available one."""
    if after == "start":
        return None
    head = await feed.position()
    if after == "now":
        return head
    if after is None:
        position = Position(head.epoch, max(0, head.offset - back) if back else 0)
        return position if await feed.is_covered(position) else None
    if after.isdigit():
        return Position(head.epoch, int(after))
    try:
        return Position.parse(after)
    except ValueError as error:
        raise Usage(f"--after: {error}") from None


def print_event(printer: Printer, event: Event) -> None:
    item = views.event(event)
    if printer.output is Output.NAME:
        print(item["position"], flush=True)
    elif not printer.is_table:
        printer.object(item)
    else:
        kind = printer.paint(f"{event.kind:<15}", KIND_STYLES.get(event.kind, "cyan"))
        about = " ".join(filter(None, (event.task_id, event.type, said(item["data"]))))
        is_narrow = printer.width is not None and printer.width < POSITION_WIDTH
        begin = f"{clock(event.at)}  " + ("" if is_narrow else f"{item['position']}  ")
        room = printer.width - len(begin) - max(15, len(event.kind)) - 2 if printer.width else None
        shown = clean(about) if room is None else cut(clean(about), max(room, FLEX_MIN))
        print(f"{begin}{kind}  {shown}", flush=True)
