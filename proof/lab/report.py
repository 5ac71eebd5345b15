"""Output of a run: progress on stderr, tables on stdout, JSON in a file.

Never: writes names of hosts or folders.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar


class Named(Protocol):
    """Something that the command line can choose."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def say(text: str) -> None:
    """Progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def names(text: str) -> list[str]:
    """An argument of names, comma separated."""
    return [name for name in text.split(",") if name]


def choose(options: Sequence[T], chosen: Sequence[str]) -> list[T]:
    """By name, or by the start of names (`floor`, `holdfast`); no name: all. ValueError if there is none."""
    picked: set[str] = set()
    for name in chosen:
        exact = [option.name for option in options if option.name == name]
        family = [option.name for option in options if option.name.startswith(name)]
        if not family:
            all_names = ", ".join(option.name for option in options)
            raise ValueError(f"'{name}' is not one of {all_names}")
        picked.update(exact or family)
    return [option for option in options if not chosen or option.name in picked]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = [c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *aligned]).rstrip()

    return "\n".join([line(header), line(["-" * w for w in widths]), *map(line, rows)])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def write(path: Path, data: dict[str, Any]) -> None:
    """Writes JSON, with the time and the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
        },
    }
    path.write_text(json.dumps(head | data, indent=1) + "\n")
    say(f"written: {path}")
