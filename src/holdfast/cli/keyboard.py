"""The keyboard of a terminal, one key at a time.

Promises: the terminal is as before afterwards, whatever happens. Ctrl-C works as always.
Never: reads a key that was pressed before the keyboard was entered, or drops one that was pressed since: a
question is shown after that.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Final, Self

LINE_BYTES_MAX: Final = 4_096


def is_interactive() -> bool:
    """Whether a person can answer: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Keyboard:
    """Reads keys of standard input while it is entered."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    async def key(self) -> str:
        """The next key. Empty at the end of the input."""
        return await self._read(1)

    async def line(self) -> str:
        """A line, shown while it is typed."""
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        try:
            return (await self._read(LINE_BYTES_MAX)).strip()
        finally:
            tty.setcbreak(self._fd, termios.TCSADRAIN)

    async def _read(self, most: int) -> str:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            await ready.wait()
            return os.read(self._fd, most).decode(errors="replace")
        finally:
            loop.remove_reader(self._fd)
