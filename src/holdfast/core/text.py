"""Cleaning of untrusted text for a terminal or a log. No other module does this.

Promises: clean text moves no cursor, changes no colour or title, forges no line and does not reverse the
writing direction. JSON stays the same document. Never: changes stored data.
"""

from __future__ import annotations

import re
from typing import Final

REPLACED: Final = "?"
_WORD: Final = re.compile(r"\s+")


def printable(text: str, replaced: str = REPLACED) -> str:
    """The text with each unprintable character replaced."""
    return "".join(char if char.isprintable() else replaced for char in text)


def one_line(text: str) -> str:
    """One printable line. White space becomes one space, an unprintable character a question mark."""
    if text.isprintable():
        return text
    return printable(_WORD.sub(" ", text).strip())


def lines(text: str) -> str:
    """Several printable lines, e.g. a traceback."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def json_text(text: str) -> str:
    """The JSON document with every unprintable character escaped, except line breaks between values. In JSON,
    such characters occur only inside strings."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))
