"""Reading of the text of a query: blanks, words, quoted text, and the error that points at a character."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.errors import InvalidInput

ENDS: Final = '()",'
"""Characters that end a word, as a blank does. In quotes they are text."""
STARS_MAX: Final = 8


class QueryError(InvalidInput):
    """The query cannot be read. `at` is the offset of the character, from 0; `expected` says what fits."""

    def __init__(self, at: int, expected: str) -> None:
        super().__init__(f"the query cannot be read at character {at}: expected {expected}")
        self.at = at
        self.expected = expected


class Written(NamedTuple):
    """A value as it was read: the texts between the stars."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.parts[0]


class Scanner:
    """A position in the text of a query, which only moves forward."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def char(self) -> str:
        """The character at the position; empty at the end."""
        return self.text[self.at : self.at + 1]

    def skip_blanks(self) -> None:
        while self.char.isspace():
            self.at += 1

    def take(self, text: str) -> bool:
        """Moves behind the text if it stands here."""
        taken = self.text.startswith(text, self.at)
        if taken:
            self.at += len(text)
        return taken

    def take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def ends(self) -> bool:
        """Whether a term may end here."""
        return not self.char or self.char.isspace() or self.char == ")"

    def word_ahead(self) -> str:
        """The bare characters from here to the end of the word."""
        end = self.at
        while end < len(self.text) and not _is_end(self.text[end]):
            end += 1
        return self.text[self.at : end]

    def value(self, expected: str = "a value") -> Written:
        """Bare and quoted text in any order, up to a blank, a comma or a parenthesis."""
        start, parts = self.at, [""]
        while self.char and (self.char == '"' or not _is_end(self.char)):
            if self.char == '"':
                parts[-1] += self._quoted()
            elif self.take("*"):
                parts.append("")
                self._count_stars(len(parts) - 1)
            else:
                parts[-1] += self._printable()
        if self.at == start:
            raise QueryError(start, expected)
        return Written((parts[0], *filter(None, parts[1:-1]), *parts[1:][-1:]))

    def _count_stars(self, count: int) -> None:
        if count > STARS_MAX:
            raise QueryError(self.at - 1, f"at most {STARS_MAX} stars in a value")

    def _quoted(self) -> str:
        r"""The text up to the closing quote. `\"` is a quote and `\\` a backslash; a backslash before another
        character is itself."""
        start = self.at
        self.at += 1
        taken = []
        while not self.take('"'):
            if not self.char:
                raise QueryError(start, "a closing quote for this one")
            if self.char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\"):
                self.at += 1
            taken.append(self._printable())
        return "".join(taken)

    def _printable(self) -> str:
        char = self.char
        if not char.isprintable():
            raise QueryError(self.at, "a printable character")
        self.at += 1
        return char


def _is_end(char: str) -> bool:
    return char in ENDS or char.isspace()
