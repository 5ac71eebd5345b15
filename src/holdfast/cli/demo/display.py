"""The output of the demo: progress while it runs, and a summary at the end.

Promises: a terminal gets a live picture that stays within its size; other outputs get a line when
figures have changed, at most one every `PLAIN_SECONDS`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TextIO

import msgspec

from holdfast.cli.demo.checks import CheckReport, Claim, KilledWorker, ScriptResult
from holdfast.cli.demo.fleet_checks import EXTERNAL_ID, FleetRun
from holdfast.cli.demo.progress import FeedProgress
from holdfast.core.address import shown_url
from holdfast.core.task import Priority, Status

if TYPE_CHECKING:
    from rich.console import RenderableType

NOTES_MAX: Final = 8
BAR_CHARS: Final = 40
PLAIN_SECONDS: Final = 2.0
LIVE_SECONDS: Final = 0.1
STYLES: Final = {"critical": "red", "high": "yellow", "normal": "cyan", "low": "blue"}


class Display(Protocol):
    """Shows notes and progress."""

    def note(self, text: str) -> None: ...

    async def watch(self, progress: FeedProgress) -> None:
        """Shows the progress until it is cancelled."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def make_display(stream: TextIO, elapsed: Callable[[], float]) -> Display:
    """A live display on a capable terminal, else a plain one."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return LiveDisplay(elapsed)
    return PlainDisplay(stream, elapsed)


class PlainDisplay:
    """Prints lines."""

    def __init__(self, stream: TextIO = sys.stdout, elapsed: Callable[[], float] = float) -> None:
        self._stream = stream
        self._elapsed = elapsed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to restore."""

    def note(self, text: str) -> None:
        print(f"{self._elapsed():5.1f} s  {text}", file=self._stream, flush=True)

    async def watch(self, progress: FeedProgress) -> None:
        shown = ""
        while True:
            await asyncio.sleep(PLAIN_SECONDS)
            counts = ", ".join(
                f"{status} {n}" for status, n in sorted(progress.by_status().items())
            )
            line = f"{counts}; retries {progress.retries}"
            if line != shown:
                self.note(line)
                shown = line


class LiveDisplay:
    """Redraws a picture in place."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._elapsed = elapsed
        self._notes: deque[str] = deque(maxlen=NOTES_MAX)
        self._live = Live(console=Console(), auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        self._notes.append(f"{self._elapsed():5.1f} s  {text}")

    async def watch(self, progress: FeedProgress) -> None:
        try:
            while True:
                self._live.update(self._picture(progress), refresh=True)
                await asyncio.sleep(LIVE_SECONDS)
        finally:
            self._live.update(self._picture(progress), refresh=True)

    def _picture(self, progress: FeedProgress) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        lines: list[RenderableType] = []
        ended = progress.by_priority()
        for priority in Priority:
            name = priority.name.lower()
            lines.append(_bar(name, *ended.get(name, (0, 0))))
        counts = progress.by_status()
        status_line = "  ".join(f"{s.value} {counts[s.value]}" for s in Status if counts[s.value])
        lines.append(
            Text(
                f"\n{status_line}  retries {progress.retries}\n", no_wrap=True, overflow="ellipsis"
            )
        )
        lines += [
            Text(note, style="dim", no_wrap=True, overflow="ellipsis") for note in self._notes
        ]
        return Group(*lines)


def _bar(name: str, ended: int, total: int) -> RenderableType:
    from rich.text import Text

    filled = BAR_CHARS * ended // total if total else 0
    line = Text(f"{name:<9} ", no_wrap=True)
    line.append("━" * filled, style=STYLES[name])
    line.append("━" * (BAR_CHARS - filled), style="dim")
    line.append(f" {ended:>3} of {total}")
    return line


def summary_json(
    report: CheckReport, progress: FeedProgress, result: ScriptResult, url: str
) -> dict[str, Any]:
    """The summary as JSON."""
    return {
        "ok": report.holds,
        "url": shown_url(url),
        "tasks": len(progress.tasks),
        "events": sum(progress.kinds.values()),
        "retries": progress.retries,
        **msgspec.to_builtins(report),
        "script": msgspec.to_builtins(result),
        "median_wait_seconds": {name: median(w) for name, w in progress.first_waits().items()},
    }


def summary(report: CheckReport, progress: FeedProgress, result: ScriptResult) -> Iterator[str]:
    """The summary as lines of text."""
    events = sum(progress.kinds.values())
    yield f"{len(progress.tasks)} tasks, {events} events in {result.seconds:.1f} s"
    yield ""
    for status, count in sorted(report.by_status.items()):
        note = "  dead letters, left for you to look at" if status == "failed" else ""
        yield f"  {status:<16} {count:>4}{note}"
    yield f"  {'lost':<16} {report.lost:>4}"
    yield f"  {'completed twice':<16} {report.completed_twice:>4}"
    yield f"  {'retries':<16} {progress.retries:>4}  after failures, with a delay kept in the store"
    yield f"  {'replayed':<16} {result.replayed + result.edited:>4}  {_replays(progress, result)}"
    yield ""
    yield from _about_the_kill(report, result.killed)
    waits = progress.first_waits()
    medians = ", ".join(
        f"{p.name.lower()} {median(waits[p.name.lower()]):.1f} s"
        for p in Priority
        if p.name.lower() in waits
    )
    yield f"Median wait for the first start: {medians}."
    yield ""
    yield from _claims(report.claims)


def _claims(claims: Sequence[Claim]) -> Iterator[str]:
    for claim in claims:
        observed = "" if claim.observed == "0" else f" ({claim.observed})"
        yield f"  {'proved' if claim.holds else 'FALSE '}  {claim.name}{observed}"


def fleet_summary(run: FleetRun, claims: Sequence[Claim]) -> Iterator[str]:
    """The second part as lines of text."""
    yield f"one command on {run.hosts:,} hosts in {run.seconds:.1f} s: the job ended as {run.status}"
    yield ""
    for status, count in run.counts.items():
        kinds = [f"{kind} {n}" for kind, n in run.reasons if run.is_of(status, kind)]
        yield f"  {status:<16} {count:>4}  {', '.join(kinds)}".rstrip()
    yield ""
    yield from _claims(claims)


def fleet_json(run: FleetRun, claims: Sequence[Claim], url: str) -> dict[str, Any]:
    """The second part as JSON, without its 1,000 executions."""
    view: dict[str, Any] = msgspec.to_builtins(run)
    del view["executions"]
    return {
        **view,
        "url": shown_url(url),
        "kinds": dict(run.reasons),
        "claims": msgspec.to_builtins(list(claims)),
    }


def _replays(progress: FeedProgress, result: ScriptResult) -> str:
    revived = progress.kinds["task.revived"]
    return f"of {result.dead} dead letters; {revived} dependents were revived with them"


def _about_the_kill(report: CheckReport, killed: KilledWorker) -> Iterator[str]:
    held = len(report.held)
    yield f"Worker {killed.pid} was killed with SIGKILL and held {held} tasks. Their leases expired;"
    yield (
        f"{report.recovered} of {held} ran again on other workers, the last one "
        f"{report.recovered_seconds:.1f} s after the kill."
    )
    yield f"Its parent replaced it with worker {killed.new_pid} after {killed.back_after:.1f} s."


def next_steps(url: str, report: CheckReport, fleet: str | None) -> Iterator[str]:
    """`fleet`: the store of the second part, if there was one."""
    task = report.held[0] if report.held else "@last"
    yield "Try next:"
    is_secret = shown_url(url) != url
    yield f"  export HOLDFAST_URL={'...  # the URL that you gave' if is_secret else shlex.quote(url)}"
    yield "  holdfast stats"
    yield f"  holdfast task history {task}    # a task of the killed worker"
    yield "  holdfast dlq groups"
    yield "  holdfast events tail"
    if fleet is not None:
        of = "" if is_secret or fleet == url else f" --url {shlex.quote(fleet)}"
        yield f"  holdfast job show {EXTERNAL_ID}{of}    # the job on 1,000 hosts"
        yield f"  holdfast job executions {EXTERNAL_ID} --status FAILED{of}"
