"""How a job is shown while it runs.

Promises: a terminal gets a picture of bounded height, drawn in place. Other outputs get a line when the
figures have changed, at most one each `PLAIN_SECONDS`. Hosts and their output control no terminal.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TextIO

import msgspec

from holdfast.cli.commands.fleet.failures import failure_lines
from holdfast.cli.commands.fleet.folded import folded_lines, has_text, headline
from holdfast.cli.commands.fleet.job_view import (
    approval_of,
    budget_of,
    command_of,
    counts_of,
    cut,
    done_of,
    halt_of,
    has_ended,
    style,
    waves_of,
)
from holdfast.cli.options import Common, Progress
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Item
from holdfast.cli.output.times import length
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.status import ExecutionKind
from holdfast.core.text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BAR_CHARS: Final = 30
LIVE_SECONDS: Final = 0.25
PLAIN_SECONDS: Final = 1.0
BAD_SHOWN: Final = 5
GROUPS_SHOWN: Final = 3
SAMPLE_LINES: Final = 3
JSON_FIELDS: Final = (
    "id", "external_id", "status", "approval_state", "hosts", "counts", "kinds", "waves", "budget",
    "halt", "eta_seconds", "version",
)  # fmt: skip


class Snapshot(msgspec.Struct, frozen=True):
    """A job at one moment."""

    job: Item
    bad: list[Item] = []
    """Some executions that have not succeeded."""
    folded: Item | None = None
    """The outputs, equal ones once."""
    errors: Item | None = None
    """What hosts have written to standard error, if some have."""


class Display(Protocol):
    """Shows snapshots."""

    seconds: float
    """At most one snapshot in this time."""
    wants_output: bool
    """Whether it shows outputs and bad hosts while the job runs."""

    def show(self, snapshot: Snapshot) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def make_display(progress: Progress, common: Common) -> Display:
    """`auto`: a picture on a terminal, lines elsewhere, nothing if data is asked for with `-o`."""
    printer = Printer(common)
    if progress is Progress.AUTO:
        is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        progress = Progress.TTY if is_terminal else Progress.PLAIN
        if not printer.is_table:
            progress = Progress.QUIET
    if progress is Progress.TTY:
        return LiveDisplay(colour=printer.colour)
    if progress is Progress.JSON:
        return JsonDisplay(printer)
    if progress is Progress.PLAIN:
        return PlainDisplay(sys.stdout if printer.is_table else sys.stderr)
    return QuietDisplay()


class QuietDisplay:
    """Shows nothing."""

    seconds = PLAIN_SECONDS
    wants_output = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to restore."""

    def show(self, snapshot: Snapshot) -> None:
        """The end is shown by the command."""


class PlainDisplay(QuietDisplay):
    """Prints a line when the figures have changed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ""

    def show(self, snapshot: Snapshot) -> None:
        line = one_line(figures(snapshot.job))
        if line != self._shown:
            print(line, file=self._stream, flush=True)
        self._shown = line


class JsonDisplay(QuietDisplay):
    """Prints an object when the figures have changed."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._shown: dict[str, Any] = {}

    def show(self, snapshot: Snapshot) -> None:
        item = {name: snapshot.job[name] for name in JSON_FIELDS}
        if item | {"eta_seconds": None} != self._shown:
            self._printer.object(item)
        self._shown = item | {"eta_seconds": None}


class LiveDisplay:
    """Draws a picture in place."""

    seconds = LIVE_SECONDS
    wants_output = True

    def __init__(self, *, colour: bool = True) -> None:
        from rich.console import Console
        from rich.live import Live

        colours: Literal["auto"] | None = "auto" if colour else None
        console = Console(
            color_system=colours, highlight=False, markup=False, emoji=False, force_terminal=True
        )
        self._console = console
        self._live = Live(
            console=console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        width, height = self._console.size
        self._live.update(self._picture(snapshot, width, max(3, height - 1)), refresh=True)

    def _picture(self, snapshot: Snapshot, width: int, height: int) -> RenderableType:
        from rich.console import Group

        found = picture(snapshot)[:height]
        return Group(*(_text(line, colour, width) for line, colour in found))


def _text(line: str, colour: str, width: int) -> Text:
    from rich.text import Text

    return Text(cut(one_line(line), width), style=colour, no_wrap=True, overflow="crop")


def picture(snapshot: Snapshot) -> list[tuple[str, str]]:
    """The lines of the picture, the most important first, and their colours."""
    job = snapshot.job
    lines = [
        (f"{job['id']}  {job['status']}  {command_of(job)}", _colour(job["status"])),
        (bar(job), ""),
        (counts_of(job), ""),
    ]
    wait, act = waits_for(job) or ("", "")
    for name, text in (
        ("waves", waves_of(job)),
        ("budget", budget_of(job)),
        ("halt", halt_of(job)),
        ("waits", wait),
        ("next", act),
    ):
        if text:
            lines.append((f"{name:<7} {text}", ""))
    lines += [(line, "red") for line in failure_lines(snapshot.bad)[:BAD_SHOWN]]
    for folded in (snapshot.folded, snapshot.errors):
        if folded is not None and has_text(folded):
            lines.append((headline(folded), "bold"))
            shown = folded_lines(folded, job["id"], groups=GROUPS_SHOWN, most=SAMPLE_LINES)
            lines += [(line, "") for line in shown]
    lines.append(("Ctrl-C stops watching; the job goes on", "dim"))
    return lines


def _colour(status: str) -> str:
    return style(status)


def bar(job: Item) -> str:
    """[#####.....] 45 % 450 of 1000, 12s left."""
    done, total = done_of(job), max(1, job["hosts"])
    full = BAR_CHARS * done // total
    text = f"[{'#' * full}{'.' * (BAR_CHARS - full)}] {100 * done // total:3} %  "
    return f"{text}{done} of {job['hosts']}{_left(job)}"


def _left(job: Item) -> str:
    seconds = job["eta_seconds"]
    return "" if seconds is None or has_ended(job) else f", about {length(seconds)} left"


def figures(job: Item) -> str:
    """One line for a log. Without the estimate, which changes all the time."""
    wave = f", wave {job['wave']} of {job['waves_total']}" if job["waves_total"] > 1 else ""
    wait = ": ".join(text for text in waits_for(job) or () if text)
    return (
        f"{job['id']} {job['status']}: {done_of(job)} of {job['hosts']} ended{wave}; "
        f"{counts_of(job)}{f'; {wait}' if wait else ''}"
    )


def waits_for(job: Item) -> tuple[str, str] | None:
    """What keeps a job from going on, and the command of the person who may change it. Each has a line of the
    terminal."""
    if job["status"] == JobStatus.WAIT_APPROVAL:
        votes = approval_of(job, with_end=False)
        return f"approval {votes}", f"holdfast approve {job['id']} -m TEXT"
    if job["status"] == JobStatus.PAUSED:
        return "", f"holdfast job resume {job['id']}"
    if any(wave["state"] == "asked" for wave in job["waves"]):
        return "the next wave waits for you", f"holdfast job promote {job['id']}"
    return None if has_ended(job) else held_by(job)


def held_by(job: Item) -> tuple[str, str] | None:
    """The hosts that wait for the end of a block."""
    count = job["kinds"].get(ExecutionKind.HELD_BY_BLOCK, 0)
    if not count:
        return None
    known = [each for each in job["excluded"] if each.get("held")]
    if len(known) == count == 1:
        return f"{known[0]['host']} waits: {known[0]['detail']}", ""
    hosts = "1 host waits" if count == 1 else f"{count} hosts wait"
    return (
        f"{hosts} for the end of a block",
        f"holdfast job executions {job['id']} --kind held_by_block",
    )
