"""What is seen while the demo runs: a live picture on a terminal, plain lines elsewhere.

Promises: plain mode prints a line when something has changed, at most one each few seconds; the live
picture never grows over the terminal.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO

from holdfast.cli.demo.tally import Tally
from holdfast.core.task import Priority, Status

if TYPE_CHECKING:
    from rich.console import RenderableType

NOTES_MAX: Final = 8
BAR_CHARS: Final = 40
PLAIN_SECONDS: Final = 2.0
LIVE_SECONDS: Final = 0.1
STYLES: Final = {"critical": "red", "high": "yellow", "normal": "cyan", "low": "blue"}


class Screen(Protocol):
    """Where the demo shows itself."""

    def note(self, text: str) -> None: ...

    async def watch(self, tally: Tally) -> None:
        """Shows the tally until it is cancelled."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def make(stream: TextIO, elapsed: Callable[[], float]) -> Screen:
    """Live on a terminal that can do it, else plain."""
    import os

    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return LiveScreen(elapsed)
    return PlainScreen(stream, elapsed)


class PlainScreen:
    """Lines."""

    def __init__(self, stream: TextIO = sys.stdout, elapsed: Callable[[], float] = float) -> None:
        self._stream = stream
        self._elapsed = elapsed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def note(self, text: str) -> None:
        print(f"{self._elapsed():5.1f} s  {text}", file=self._stream, flush=True)

    async def watch(self, tally: Tally) -> None:
        shown = ""
        while True:
            await asyncio.sleep(PLAIN_SECONDS)
            counts = ", ".join(f"{status} {n}" for status, n in sorted(tally.by_status().items()))
            line = f"{counts}; retries {tally.retries}"
            if line != shown:
                self.note(line)
                shown = line


class LiveScreen:
    """A picture that is redrawn."""

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

    async def watch(self, tally: Tally) -> None:
        try:
            while True:
                self._live.update(self._picture(tally), refresh=True)
                await asyncio.sleep(LIVE_SECONDS)
        finally:
            self._live.update(self._picture(tally), refresh=True)

    def _picture(self, tally: Tally) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        lines: list[RenderableType] = []
        ended = tally.by_priority()
        for priority in Priority:
            name = priority.name.lower()
            lines.append(_bar(name, *ended.get(name, (0, 0))))
        counts = tally.by_status()
        said = "  ".join(f"{s.value} {counts[s.value]}" for s in Status if counts[s.value])
        lines.append(
            Text(f"\n{said}  retries {tally.retries}\n", no_wrap=True, overflow="ellipsis")
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
