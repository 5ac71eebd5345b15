"""Plain tables: aligned columns, one line per row.

Promises: on a terminal a row fits its width (only columns marked `flex` are truncated). In a pipe nothing
is truncated. Control characters of the data never reach the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.cli.output.colour import paint
from holdfast.core.text import one_line

GAP = "  "
FLEX_MIN = 12
Item = dict[str, Any]


class Column(NamedTuple):
    """A title, how to get its text from an item, and how it looks."""

    title: str
    value: Callable[[Item], object]
    flex: bool = False
    style: Callable[[str], str] | None = None


def clean(value: object) -> str:
    """One printable line."""
    if value is None or value == "":
        return "-"
    return one_line(str(value))


def render(
    items: Sequence[Item], columns: Sequence[Column], *, width: int | None, colour: bool
) -> list[str]:
    """The header and a line for each item."""
    cells = [[clean(column.value(item)) for column in columns] for item in items]
    widths = [
        max([len(column.title), *(len(row[n]) for row in cells)])
        for n, column in enumerate(columns)
    ]
    if width is not None:
        _squeeze(widths, columns, width)
    lines = [_line([c.title for c in columns], widths, ["bold"] * len(columns), colour)]
    for row in cells:
        styles = [c.style(text) if c.style else "" for c, text in zip(columns, row, strict=True)]
        lines.append(_line(row, widths, styles, colour))
    return lines


def pairs(fields: Sequence[tuple[str, object]], *, colour: bool) -> list[str]:
    """Names and values, one pair per line; pairs without a value are left out."""
    kept = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    size = max((len(name) for name, _ in kept), default=0)
    return [
        paint(f"{name:<{size}}", "bold" if colour else "") + GAP + clean(value)
        for name, value in kept
    ]


def _squeeze(widths: list[int], columns: Sequence[Column], width: int) -> None:
    """Narrows the flexible columns, the widest first, until the row fits."""
    room = width - len(GAP) * (len(columns) - 1)
    flexible = [n for n, column in enumerate(columns) if column.flex]
    while sum(widths) > room and flexible:
        widest = max(flexible, key=lambda n: widths[n])
        if widths[widest] <= FLEX_MIN:
            return
        widths[widest] -= 1


def _line(texts: Sequence[str], widths: Sequence[int], styles: Sequence[str], colour: bool) -> str:
    cells = []
    for text, width, style in zip(texts, widths, styles, strict=True):
        fitted = text if len(text) <= width else f"{text[: width - 1]}…"
        cells.append(paint(f"{fitted:<{width}}", style if colour else ""))
    return GAP.join(cells).rstrip()
