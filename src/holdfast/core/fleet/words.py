r"""Splitting of the text of a command into words, as a shell does it, without a shell.

Blanks and line breaks separate words. Quotes of both kinds and a backslash take what they quote as it is;
within double quotes a backslash quotes only `"`, `\`, `$` and a backtick. A backslash joins lines.
Promises: nothing is expanded: `$HOME` and `*` are text. Outside quotes, what only a shell could do is refused
instead of passed on as text: pipes, redirections, lists of commands and substitution of commands.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.check import shown
from holdfast.errors import InvalidInput

JOINED: Final = "\\\n"
_BLANKS: Final = re.compile(r"[ \t\r\n]+")
_OPERATOR: Final = re.compile(r"[|&;<>()`]|\$\(")
_PIECE: Final = re.compile(
    r"""(?P<bare>[^ \t\r\n"'\\|&;<>()`$]+|\$(?!\())"""
    r"""|'(?P<single>[^']*)'"""
    r"""|"(?P<double>(?:[^"\\]|\\.)*)\""""
    r"""|\\(?P<escaped>.)""",
    re.DOTALL,
)
_IN_DOUBLE: Final = re.compile(r"""\\(?:(["\\$`])|\n)""")
"""With an empty group for a line break, which is left out."""


def split_words(field: str, text: str) -> tuple[str, ...]:
    """The words of the text. InvalidInput for an open quote and for operators of a shell."""
    words: list[str] = []
    pieces: list[str] = []
    at = 0
    while at < len(text):
        if (blank := _BLANKS.match(text, at)) is not None:
            words += ["".join(pieces)] if pieces else []
            pieces, at = [], blank.end()
            continue
        if text.startswith(JOINED, at):
            at += len(JOINED)
            continue
        match = _PIECE.match(text, at)
        if match is None:
            raise InvalidInput(f"{field} cannot be split at column {at + 1}: {_reason(text, at)}")
        pieces.append(_text(match))
        at = match.end()
    return (*words, "".join(pieces)) if pieces else tuple(words)


def _text(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return _IN_DOUBLE.sub(r"\1", match["double"])
    return next(
        text for text in (match["bare"], match["single"], match["escaped"]) if text is not None
    )


def _reason(text: str, at: int) -> str:
    operator = _OPERATOR.match(text, at)
    if operator is not None:
        return (
            f"{shown(operator[0])} needs a shell: quote it, or use a command type of the kind shell"
        )
    return (
        "a backslash at the end" if text[at] == "\\" else "a closing quote for this one is missing"
    )
