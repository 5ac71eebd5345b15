"""Where an import of the application failed: the frames of the application, without those of Holdfast.

Promises: names the file and the line at which the application's own code stands.
"""

from __future__ import annotations

import os
import traceback
from importlib import import_module
from pathlib import Path
from traceback import FrameSummary, StackSummary
from typing import Final

FRAMES_MAX: Final = 20
OURS: Final = (
    f"{Path(__file__).parents[2]}{os.sep}",
    import_module.__code__.co_filename,
    "<frozen importlib",
)


def file_and_line(error: BaseException) -> str:
    """` (/app/shop.py, line 7)`, or nothing when no file is to blame."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({error.filename}, line {error.lineno})"
    frames = _frames(error)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def short_trace(error: BaseException) -> str:
    """The last frames of the application and the error, as Python shows them."""
    shown = StackSummary.from_list(_frames(error)[-FRAMES_MAX:]).format()
    return "".join([*shown, *traceback.format_exception_only(error)]).rstrip("\n")


def _frames(error: BaseException) -> list[FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith(OURS)]
