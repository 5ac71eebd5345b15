"""When to use colours, and which.

Promises: `--color` wins, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, TERM=dumb, then whether the
stream is a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, TextIO

from holdfast.cli.options import Color

CODES: Final = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "magenta": 35,
    "cyan": 36,
}
STATUS_STYLES: Final = {
    "blocked": "magenta",
    "queued": "cyan",
    "running": "yellow",
    "paused": "magenta",
    "stuck": "red",
    "completed": "green",
    "failed": "red",
    "aborted": "dim",
}


def wanted(color: Color, stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") != "0" or environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, style: str) -> str:
    """The text in a style; '' is none."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if style else text
