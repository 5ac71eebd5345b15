"""A run that went wrong, as lanes that a person can read: one column a node, time going down."""

from __future__ import annotations

from typing import Final

from holdfast.sim.trace import Line
from holdfast.sim.world import Outcome

WIDTH: Final = 22
LINES: Final = 60


def timeline(outcome: Outcome, lines: int = LINES) -> str:
    """The newest moments: what broke, and what tasks did in between."""
    moments = [*outcome.trace.lines, *_changes(outcome)]
    moments.sort(key=lambda line: line.at)
    return draw(moments[-lines:])


def _changes(outcome: Outcome) -> list[Line]:
    return [
        Line(
            change.at,
            change.by,
            f"{change.id[-4:]} {change.was or 'new'}>{change.status} f{change.fence}",
        )
        for change in outcome.history
    ]


def draw(lines: list[Line]) -> str:
    """Lanes of equal width; a text that is too long for its lane is cut."""
    nodes = sorted({line.node for line in lines})
    head = "time (s)".ljust(11) + "".join(node.ljust(WIDTH) for node in nodes)
    rows = [head, "-" * len(head)]
    for line in lines:
        lane = nodes.index(line.node)
        text = line.text if len(line.text) < WIDTH else line.text[: WIDTH - 2] + "~"
        rows.append(f"{line.at:<11.3f}" + " " * (WIDTH * lane) + text)
    return "\n".join(rows)
