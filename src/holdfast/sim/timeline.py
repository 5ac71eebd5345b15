"""Draws a failing run as text: one column for each node, time going down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.sim.outcome import Outcome
from holdfast.sim.trace import Line

WIDTH: Final = 26
LINES: Final = 60
TASKS_MAX: Final = 3
NEAR_SECONDS: Final = 0.1
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def timeline(outcome: Outcome, broken: Mapping[str, Sequence[str]], lines: int = LINES) -> str:
    """Shows the tasks named in the complaints from their first to their last change, faults of nodes in
    between, and messages close to the changes. Without named tasks, shows the newest lines."""
    named = list(
        dict.fromkeys(_ID.findall(" ".join(text for texts in broken.values() for text in texts)))
    )
    moments = _changes(outcome, named[:TASKS_MAX])
    if moments and named:
        first, last = moments[0].at, moments[-1].at
        near = [line for line in outcome.trace.messages if _is_near(line, moments)]
        moments += [line for line in outcome.trace.lines if first - 30 <= line.at <= last + 30]
        moments += near[-max(0, lines - len(moments)) :] if len(moments) < lines else []
    else:
        moments = [*outcome.trace.lines, *moments]
    moments.sort(key=lambda line: line.at)
    return draw(moments[-lines:])


def _is_near(line: Line, changes: Sequence[Line]) -> bool:
    return any(abs(line.at - change.at) <= NEAR_SECONDS for change in changes)


def _changes(outcome: Outcome, named: Sequence[str]) -> list[Line]:
    return [
        Line(
            change.at,
            change.by,
            f"{change.id[-4:]} {change.was or 'new'}>{change.status} f{change.fence}",
        )
        for change in outcome.history
        if not named or change.id in named
    ]


def draw(lines: Iterable[Line]) -> str:
    """Columns of equal width; a longer text is cut."""
    shown = list(lines)
    nodes = sorted({line.node for line in shown})
    head = "time (s)".ljust(11) + "".join(node.ljust(WIDTH) for node in nodes).rstrip()
    rows = [head, "-" * len(head)]
    for line in shown:
        column = nodes.index(line.node)
        text = line.text if len(line.text) < WIDTH else line.text[: WIDTH - 2] + "~"
        rows.append(f"{line.at:<11.3f}" + " " * (WIDTH * column) + text)
    return "\n".join(rows)
