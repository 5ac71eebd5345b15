"""Names of hosts in folded form: `web-[001-987]`, `db-[a,b]-[1-3]`, `rack[1-4/2]`.

    name   = part { part }
    part   = bare text | quoted text | "[" item { "," item } "]"
    item   = number | number "-" number [ "/" step ] | text

Promises: `unfold(fold(names))` are the names, each once; leading zeros stay; equal sets of names have equal
folded texts. The number of names is known before the first one is made, and bounded.
Never: reads brackets in quotes.

ClusterShell's NodeSet was tried for this and does not fit. Importing it loads `subprocess`, `threading` and
`configparser`, which the core must not; it refuses lists of text such as `db-[a,b]`, and it reads operators
in names that it is given (`x!y` becomes `x`). It takes 0.33 s to fold 50,000 names. It is the reference of
the tests for ranges of numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.core.errors import BadSelector
from holdfast.core.search.scan import Scanner

NAMES_MAX: Final = 50_000
"""Names that one text may stand for."""
NUMBER_CHARS_MAX: Final = 18
"""Digits of a number in brackets."""
AXES_MAX: Final = 4
"""Numbers of one name that are folded: the last ones. Those before them are text."""
BARE: Final = re.compile(r"[\w.:+-]+")
"""Text that needs no quotes."""
_NAME: Final = "a name, in quotes if it has other characters than letters, digits and . : + - _"
_NUMBER: Final = re.compile(r"[0-9]+")
_ITEM: Final = re.compile(r"[\w.:+]+(?:-[0-9]+)?(?:/[0-9]+)?")
_RANGE: Final = re.compile(r"([0-9]+)-([0-9]+)(?:/([0-9]+))?")
_WORD: Final = re.compile(r"[\w.:+]+")


class NumberRange(msgspec.Struct, frozen=True):
    """Numbers from `first` to `last`, in steps, with at least `width` digits."""

    first: int
    last: int
    step: int = 1
    width: int = 1

    @property
    def size(self) -> int:
        return (self.last - self.first) // self.step + 1

    def texts(self) -> Iterator[str]:
        return (
            f"{number:0{self.width}d}" for number in range(self.first, self.last + 1, self.step)
        )


class FoldedName(msgspec.Struct, frozen=True):
    """A name with its brackets: each part is the list of what may stand in its place."""

    parts: tuple[tuple[str | NumberRange, ...], ...]

    @property
    def size(self) -> int:
        """How many names it stands for. Those that it has twice count twice."""
        total = 1
        for part in self.parts:
            total *= sum(item.size if isinstance(item, NumberRange) else 1 for item in part)
        return total

    def names(self) -> Iterator[str]:
        return map("".join, itertools.product(*map(_texts, self.parts)))


def unfold(text: str) -> list[str]:
    """The names of a list `a,b-[1-3],…`, in its order and each once. BadSelector for anything else."""
    scanner, names = Scanner(text), list[str]()
    scanner.skip_blanks()
    while scanner.char:
        start = scanner.at
        folded = read_name(scanner)
        check_count(start, len(names) + folded.size)
        names += folded.names()
        scanner.skip_blanks()
        if not scanner.take(","):
            break
        scanner.skip_blanks()
        if not scanner.char:
            raise BadSelector(scanner.at, "a name behind the comma")
    if scanner.char:
        raise BadSelector(scanner.at, "a comma between names, or quotes around the name")
    return list(dict.fromkeys(names))


def check_count(at: int, count: int) -> None:
    """BadSelector if the names up to the one at this position are too many."""
    if count > NAMES_MAX:
        raise BadSelector(at, f"at most {NAMES_MAX} names, not {count}")


def read_name(scanner: Scanner) -> FoldedName:
    """The name at the position. BadSelector if there is none."""
    parts: list[tuple[str | NumberRange, ...]] = []
    start = scanner.at
    while True:
        if scanner.char in ('"', "'"):
            parts.append((read_quoted(scanner),))
        elif scanner.char == "[":
            parts.append(_read_brackets(scanner))
        elif (match := scanner.take_match(BARE)) is not None:
            parts.append((match[0],))
        else:
            break
    if not parts or parts == [("",)]:
        raise BadSelector(start, _NAME)
    return FoldedName(tuple(parts))


def read_quoted(scanner: Scanner) -> str:
    r"""The text up to the same quote. A backslash takes the next character as it is."""
    start, quote, taken = scanner.at, scanner.char, list[str]()
    scanner.take(quote)
    while not scanner.take(quote):
        scanner.take("\\")
        if not scanner.char:
            raise BadSelector(start, "a closing quote for this one")
        if not scanner.char.isprintable():
            raise BadSelector(scanner.at, "a printable character")
        taken.append(scanner.char)
        scanner.at += 1
    return "".join(taken)


def quoted(text: str) -> str:
    """The text as a name or a value: in quotes if it needs them."""
    if BARE.fullmatch(text) is not None:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_brackets(scanner: Scanner) -> tuple[str | NumberRange, ...]:
    start = scanner.at
    scanner.take("[")
    items = [_read_item(scanner)]
    while scanner.take(","):
        items.append(_read_item(scanner))
    if not scanner.take("]"):
        what = "a comma or a closing bracket" if scanner.char else "a closing bracket for this one"
        raise BadSelector(scanner.at if scanner.char else start, what)
    return tuple(items)


def _read_item(scanner: Scanner) -> str | NumberRange:
    start = scanner.at
    match = scanner.take_match(_ITEM)
    if match is None:
        raise BadSelector(start, "a number, a range such as 1-9 or 001-100/2, or a text")
    if (bounds := _RANGE.fullmatch(match[0])) is not None:
        return _range(start, *bounds.groups())
    if _WORD.fullmatch(match[0]) is None or scanner.char == "-":
        raise BadSelector(
            start, "a range of numbers such as 1-9; text stands in a list such as a,b,c"
        )
    return match[0]


def _range(at: int, first: str, last: str, step: str | None) -> NumberRange:
    if max(len(first), len(last), len(step or "")) > NUMBER_CHARS_MAX:
        raise BadSelector(at, f"numbers of at most {NUMBER_CHARS_MAX} digits")
    padded = _is_padded(first) or _is_padded(last)
    if padded and len(first) != len(last):
        width = max(len(first), len(last))
        raise BadSelector(at, f"bounds of one length, such as {first:0>{width}}-{last:0>{width}}")
    if int(first) > int(last):
        raise BadSelector(at, f"the smaller bound first: {last}-{first}")
    if step is not None and int(step) == 0:
        raise BadSelector(at, "a step of at least 1")
    return NumberRange(int(first), int(last), int(step or 1), len(first) if padded else 1)


def _is_padded(number: str) -> bool:
    return len(number) > 1 and number[0] == "0"


def _texts(part: tuple[str | NumberRange, ...]) -> Iterator[str]:
    for item in part:
        if isinstance(item, NumberRange):
            yield from item.texts()
        else:
            yield item


# -- folding -------------------------------------------------------------------------------------------


def fold(names: Iterable[str]) -> str:
    """The names as one text, sorted, with numbers folded into ranges. `unfold` and selectors read it."""
    shapes: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for name in dict.fromkeys(names):
        if not name:
            continue
        texts, numbers = _split(name)
        shapes.setdefault(texts, []).append(numbers)
    pieces = [
        (_order(texts, row), _joined(texts, row))
        for texts, rows in shapes.items()
        for row in _folded_rows(rows)
    ]
    return ",".join(text for _, text in sorted(pieces))


def _split(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts around the last numbers of the name, and those numbers."""
    matches = [m for m in _NUMBER.finditer(name) if len(m[0]) <= NUMBER_CHARS_MAX][-AXES_MAX:]
    texts, end = [], 0
    for match in matches:
        texts.append(name[end : match.start()])
        end = match.end()
    return (*texts, name[end:]), tuple(match[0] for match in matches)


def _folded_rows(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows with their numbers folded, the last column first. Rows that agree in all other columns become
    one. A column is a number or a list of ranges in brackets."""
    for axis in reversed(range(len(rows[0]))):
        groups: dict[tuple[str, ...], list[str]] = {}
        for row in rows:
            groups.setdefault((*row[:axis], *row[axis + 1 :]), []).append(row[axis])
        rows = [(*rest[:axis], _ranges(found), *rest[axis:]) for rest, found in groups.items()]
    return rows


def _ranges(numbers: list[str]) -> str:
    """Different numbers of one column, folded: `7` or `[1-3,007]`."""
    if len(numbers) == 1:
        return numbers[0]
    left = set(numbers)
    texts = []
    for width in sorted({len(number) for number in numbers if _is_padded(number)}):
        # A range with leading zeros goes on with the numbers of the same length that need none.
        alike = sorted((n for n in left if len(n) == width), key=int)
        for first, last in _runs(alike):
            if _is_padded(first):
                texts.append(_written(first, last))
                left -= {f"{n:0{width}d}" for n in range(int(first), int(last) + 1)}
    texts += [_written(first, last) for first, last in _runs(sorted(left, key=int))]
    return f"[{','.join(texts)}]"


def _runs(numbers: list[str]) -> Iterator[tuple[str, str]]:
    """First and last of each run of numbers that follow each other."""
    at = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or int(numbers[end]) != int(numbers[end - 1]) + 1:
            yield numbers[at], numbers[end - 1]
            at = end


def _written(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _joined(texts: tuple[str, ...], row: tuple[str, ...]) -> str:
    parts = [quoted(texts[0]) if texts[0] else ""]
    for number, text in zip(row, texts[1:], strict=True):
        parts += [number, quoted(text) if text else ""]
    return "".join(parts)


def _order(texts: tuple[str, ...], row: tuple[str, ...]) -> tuple[str | int, ...]:
    """Sorts like the names themselves, with numbers by their value."""
    order: list[str | int] = [texts[0]]
    for number, text in zip(row, texts[1:], strict=True):
        match = _NUMBER.search(number)
        order += [int(match[0]) if match else 0, number, text]
    return tuple(order)
