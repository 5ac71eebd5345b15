"""Plain tables: aligned columns, one line per row.

Promises: on a terminal a row fits its width: columns marked `flex` are truncated, and if that is not enough,
columns are left out, those with the highest `rank` first. A last column with `wrap` goes on in further lines
instead. In a pipe nothing is truncated, left out or wrapped. Control characters of the data never reach the
terminal. A wide character counts as two columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.cli.output.colour import paint
from holdfast.core.text import one_line

GAP = "  "
FLEX_MIN = 12
ALIGNED_MAX = 28
"""The longest name that the values of a terminal are aligned behind."""
WRAP_MIN = 24
"""With less room than this, text is left to the terminal to wrap."""
Item = dict[str, Any]


class Column(NamedTuple):
    """A title, how to get its text from an item, and how it looks."""

    title: str
    value: Callable[[Item], object]
    flex: bool = False
    style: Callable[[str], str] | None = None
    rank: int = 0
    """Columns of a higher rank are left out first; of one rank, the last one."""
    wrap: bool = False
    """Only of the last column: what does not fit goes on in the next line."""


def clean(value: object) -> str:
    """One printable line."""
    if value is None or value == "":
        return "-"
    return one_line(str(value))


def render(
    items: Sequence[Item], columns: Sequence[Column], *, width: int | None, colour: bool
) -> list[str]:
    """The header and a line for each item."""
    if width is not None and not columns[-1].wrap:
        columns = fitting(items, columns, width)
    cells = [[clean(column.value(item)) for column in columns] for item in items]
    widths = _widths(cells, columns)
    if width is not None and not columns[-1].wrap:
        _squeeze(widths, columns, width)
    lines = [_line([c.title for c in columns], widths, ["bold"] * len(columns), colour)]
    room = None
    if width is not None and columns[-1].wrap:
        room = width - sum(widths[:-1]) - len(GAP) * (len(columns) - 1)
        parts = [part for row in cells for part in wrapped(row[-1], room)]
        widths[-1] = max(map(cells_of, [columns[-1].title, *parts]))
    for row in cells:
        styles = [c.style(text) if c.style else "" for c, text in zip(columns, row, strict=True)]
        first, *rest = wrapped(row[-1], room)
        lines.append(_line([*row[:-1], first], widths, styles, colour))
        lines += [" " * (width - room) + each for each in rest] if width and room else []
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in lines of at most `width` columns. A longer word stays where it is and whole: the terminal
    breaks it, and it can be copied. None: one line."""
    if width is None or width < WRAP_MIN or cells_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cells_of(word) <= width < cells_of(longer):
            lines.append(word)
        else:
            lines[-1] = longer
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


def pairs(
    fields: Sequence[tuple[str, object]], *, width: int | None = None, colour: bool
) -> list[str]:
    """Names and values, one pair per line; pairs without a value are left out. A value that is longer than
    a line of the terminal goes on below itself. At a terminal the id of the object, which is the first name,
    does not push the values to the right."""
    kept = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    names = [len(name) for name, _ in kept]
    aligned = [size for size in names if width is None or size <= ALIGNED_MAX]
    size = max(aligned or names, default=0)
    room = None if width is None else width - size - len(GAP)
    lines = []
    for name, value in kept:
        first, *rest = wrapped(clean(value), room)
        lines.append(paint(f"{name:<{size}}", "bold" if colour else "") + GAP + first)
        lines += [" " * size + GAP + each for each in rest]
    return lines


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
    for n, (text, width, style) in enumerate(zip(texts, widths, styles, strict=True), start=1):
        fitted = cut(text, width)
        padded = fitted if n == len(texts) else fitted + " " * (width - cells_of(fitted))
        cells.append(paint(padded, style if colour else ""))
    return GAP.join(cells).rstrip()
