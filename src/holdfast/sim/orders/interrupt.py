"""Ctrl-C at a drawn point in the code of the order store or the loop.

Promises: the interrupt comes where the interpreter runs signal handlers (at the start of a function,
after a call, at the end of an iteration), in this thread only, at most once. Never: in code outside
Holdfast.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import holdfast.orders

OURS: Final = str(Path(holdfast.orders.__file__).parent)
CACHED: Final = ("_positive", "_read", "_read_float", "_too_fine")
"""Whether these run depends on earlier calls in the process; a run must be the same every time."""
POINTS: Final = ("CALL", "RESUME", "JUMP_BACKWARD")


class Interrupt:
    """Raises KeyboardInterrupt at the n-th point."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._before: dict[FrameType, str] = {}
        self.is_done = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)
            self._before.clear()

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_name in CACHED:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(POINTS):
                self._pass()
        return self._trace

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_done = True
            sys.settrace(None)
            raise KeyboardInterrupt
