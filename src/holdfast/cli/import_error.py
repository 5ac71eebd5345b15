"""Locates the error of a failed application import: frames of the application, without those of Holdfast.

Promises: names the file and line in the application's code.
"""

from __future__ import annotations

import os
import traceback
from importlib import import_module
from pathlib import Path
from traceback import FrameSummary, StackSummary
from typing import Final

FRAMES_MAX: Final = 20
HIDDEN: Final = (
    f"{Path(__file__).parents[2]}{os.sep}",
    import_module.__code__.co_filename,
    "<frozen importlib",
)


def file_and_line(error: BaseException) -> str:
    """` (/app/shop.py, line 7)`, or an empty string when no frame of the application is involved."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({error.filename}, line {error.lineno})"
    frames = _frames(error)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def short_trace(error: BaseException) -> str:
    """The last frames of the application and the error, formatted like a traceback."""
    frames = StackSummary.from_list(_frames(error)[-FRAMES_MAX:]).format()
    return "".join([*frames, *traceback.format_exception_only(error)]).rstrip("\n")


def _frames(error: BaseException) -> list[FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith(HIDDEN)]
