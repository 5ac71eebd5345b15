"""Text from outside on its way to a terminal or a log: the one place that cleans it.

Promises: what comes out moves no cursor, changes no colour or title, forges no line and reverses no
direction. JSON stays the same document. Never: changes what is stored.
"""

from __future__ import annotations

import re
from typing import Final

REPLACED: Final = "?"
_WORD: Final = re.compile(r"\s+")


def printable(text: str, replaced: str = REPLACED) -> str:
    """The text with another character in place of each that cannot be printed."""
    return "".join(char if char.isprintable() else replaced for char in text)


def one_line(text: str) -> str:
    """One printable line: white space is one space, what cannot be printed is a question mark."""
    if text.isprintable():
        return text
    return printable(_WORD.sub(" ", text).strip())


def lines(text: str) -> str:
    """Several printable lines, e.g. a traceback."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def json_text(text: str) -> str:
    """A JSON document in which everything that cannot be printed is escaped, line breaks between values
    excepted: JSON has such characters inside of strings only."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))
