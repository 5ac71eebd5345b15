"""Variables of the environment that may have their value in a file.

Promises: `NAME` counts more than `NAME_FILE`. A file is read as UTF-8 text without the blanks around it. An
error names the variable, never the value or the path. An internal module.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.errors import BadConfig

SECRET_CHARS_MAX: Final = 10_000
"""The longest value of a file."""
FILE_SUFFIX: Final = "_FILE"


def variable(environ: Mapping[str, str], name: str) -> str | None:
    """The value of a variable, or the content of the file that `NAME_FILE` names. None: neither is set."""
    if text := environ.get(name):
        return text
    path = environ.get(name + FILE_SUFFIX)
    return read_value(name + FILE_SUFFIX, path) if path else None


def read_value(name: str, path: str) -> str:
    """The content of the file that the variable `name` names. BadConfig if there is none."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(SECRET_CHARS_MAX + 1).strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadConfig(f"{name} cannot be read: {type(error).__name__}") from None
    if len(text) > SECRET_CHARS_MAX:
        raise BadConfig(f"{name}: the file has more than {SECRET_CHARS_MAX} characters")
    if not text:
        raise BadConfig(f"{name}: the file is empty")
    return text
