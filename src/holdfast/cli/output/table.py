"""Plain tables: aligned columns, one line per row.

Promises: on a terminal a row fits its width: columns marked `flex` are truncated, and if that is not enough,
columns are left out, those with the highest `rank` first. In a pipe nothing is truncated or left out. Control
characters of the data never reach the terminal. A wide character counts as two columns.
"""

from __future__ import annotations

import unicodedata
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
    rank: int = 0
    """Columns of a higher rank are left out first; of one rank, the last one."""


def clean(value: object) -> str:
    """One printable line."""
    if value is None or value == "":
        return "-"
    return one_line(str(value))


def render(
    items: Sequence[Item], columns: Sequence[Column], *, width: int | None, colour: bool
) -> list[str]:
    """The header and a line for each item."""
    if width is not None:
        columns = fitting(items, columns, width)
    cells = [[clean(column.value(item)) for column in columns] for item in items]
    widths = _widths(cells, columns)
    if width is not None:
        _squeeze(widths, columns, width)
    lines = [_line([c.title for c in columns], widths, ["bold"] * len(columns), colour)]
    for row in cells:
        styles = [c.style(text) if c.style else "" for c, text in zip(columns, row, strict=True)]
        lines.append(_line(row, widths, styles, colour))
    return lines


def fitting(items: Sequence[Item], columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that fit. The first one always stays."""
    kept = list(columns)
    while len(kept) > 1:
        cells = [[clean(column.value(item)) for column in kept] for item in items]
        widths = _widths(cells, kept)
        _squeeze(widths, kept, width)
        if sum(widths) + len(GAP) * (len(kept) - 1) <= width:
            break
        worst = max(range(1, len(kept)), key=lambda n: (kept[n].rank, n))
        del kept[worst]
    return kept


def cells_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, with a mark where it was cut."""
    if cells_of(text) <= width:
        return text
    kept = text
    while cells_of(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def _widths(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> list[int]:
    return [
        max([len(column.title), *(cells_of(row[n]) for row in cells)])
        for n, column in enumerate(columns)
    ]


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
        fitted = cut(text, width)
        padded = fitted + " " * (width - cells_of(fitted))
        cells.append(paint(padded, style if colour else ""))
    return GAP.join(cells).rstrip()
