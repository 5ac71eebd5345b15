"""How an operation is shown while it runs.

Promises: progress goes to stderr, so that stdout has the ended operation only; `json` prints an object for
each change to stdout in place of it. A terminal gets one line, drawn in place and removed at the end; a log
gets a line when the figures have changed, at most one each `PLAIN_SECONDS`.
Never: prints a line for an operation that ends at the first look.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from holdfast.cli.options import Progress
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import cut
from holdfast.cli.output.times import length

BAR_CHARS: Final = 30
PLAIN_SECONDS: Final = 1.0
CLEAR_LINE: Final = "\r\x1b[K"
Operation = dict[str, Any]


class OpDisplay:
    """Shows nothing. The other displays say how they differ."""

    def show(self, item: Operation) -> None:
        """The operation as it is now, while it runs."""

    def close(self) -> None:
        """Before anything else is printed."""


class PlainLines(OpDisplay):
    """A line when the figures have changed."""

    def __init__(self, stream: TextIO, monotonic: Callable[[], float]) -> None:
        self._stream, self._monotonic = stream, monotonic
        self._shown, self._next_at = "", monotonic() + PLAIN_SECONDS

    def show(self, item: Operation) -> None:
        line = f"{item['id']} {item['state']}: {figures(item)}"
        now = self._monotonic()
        if line == self._shown or now < self._next_at:
            return
        print(line, file=self._stream, flush=True)
        self._shown, self._next_at = line, now + PLAIN_SECONDS


class JsonLines(OpDisplay):
    """An object when the figures have changed."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._shown: Operation = {}

    def show(self, item: Operation) -> None:
        if item != self._shown:
            self._printer.object(item)
        self._shown = item


class Bar(OpDisplay):
    """One line of a terminal, drawn in place."""

    def __init__(self, stream: TextIO, monotonic: Callable[[], float]) -> None:
        self._stream, self._monotonic = stream, monotonic
        self._began_at: float | None = None
        self._began_with = 0

    def show(self, item: Operation) -> None:
        now = self._monotonic()
        if self._began_at is None:
            self._began_at, self._began_with = now, judged(item)
        text = bar(item, left=self._left(item, now - self._began_at))
        width = shutil.get_terminal_size().columns
        print(f"{CLEAR_LINE}{cut(text, width - 1)}", end="", file=self._stream, flush=True)

    def _left(self, item: Operation, seconds: float) -> float | None:
        """Seconds that are left at the pace so far. None: it is not known yet."""
        done = judged(item) - self._began_with
        return None if done <= 0 else (item["total"] - judged(item)) * seconds / done

    def close(self) -> None:
        if self._began_at is not None:
            print(CLEAR_LINE, end="", file=self._stream, flush=True)


def op_display(progress: Progress, printer: Printer, monotonic: Callable[[], float]) -> OpDisplay:
    """`auto`: a line in place on a terminal, lines in a log, nothing if data is asked for with `-o`."""
    if progress is Progress.AUTO:
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        progress = Progress.TTY if is_terminal else Progress.PLAIN
        if not printer.is_table:
            progress = Progress.QUIET
    match progress:
        case Progress.TTY:
            return Bar(sys.stderr, monotonic)
        case Progress.PLAIN:
            return PlainLines(sys.stderr, monotonic)
        case Progress.JSON:
            return JsonLines(printer)
        case _:
            return OpDisplay()


def judged(item: Operation) -> int:
    """Tasks that were changed or refused."""
    return int(item["done"]) + int(item["failed"])


def figures(item: Operation) -> str:
    refused = f", {item['failed']} refused" if item["failed"] else ""
    waits = f"; waits: {item['detail']}" if item["detail"] else ""
    return f"{judged(item)} of {item['total']}{refused}{waits}"


def bar(item: Operation, *, left: float | None) -> str:
    """[#####.....]  45 %  180 of 400, 3 refused, about 12s left."""
    total = max(1, item["total"])
    full = BAR_CHARS * judged(item) // total
    rest = "" if left is None else f", about {length(left)} left"
    picture = f"[{'#' * full}{'.' * (BAR_CHARS - full)}]"
    return f"{picture} {100 * judged(item) // total:3} %  {figures(item)}{rest}"
