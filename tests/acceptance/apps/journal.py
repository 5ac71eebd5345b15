"""A file to which many processes append the starts and ends of runs. A line is written as a whole."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    what: str
    task_id: str
    at: float
    """Monotonic seconds, the same for all processes of the machine."""
    pid: int
    note: str


def write(path: str, what: str, task_id: str, note: str = "") -> None:
    line = json.dumps([what, task_id, time.monotonic(), os.getpid(), note]) + "\n"
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(number, line.encode())
    finally:
        os.close(number)


def read(path: Path | str) -> list[Entry]:
    file = Path(path)
    if not file.exists():
        return []
    return [Entry(*json.loads(line)) for line in file.read_text().splitlines()]


def most_at_once(entries: list[Entry], note: str | None = None) -> int:
    """The highest number of runs at the same time."""
    now = most = 0
    for entry in sorted(entries, key=lambda e: (e.at, e.what == "start")):
        if note in (None, entry.note):
            now += 1 if entry.what == "start" else -1
            most = max(most, now)
    return most
