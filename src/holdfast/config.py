"""Where settings come from: a flag, the environment, a file in the working folder, a default.

Promises: the first of these that says something wins, and the answer says which one it was.
Never: reads a file of another folder, or opens the store.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.errors import BadConfig

FILE_NAME: Final = "holdfast.toml"
URL_VARIABLE: Final = "HOLDFAST_URL"
URL_DEFAULT: Final = "sqlite:///holdfast.db"
KEYS: Final = ("url",)


class Found(NamedTuple):
    """A value and who gave it."""

    value: str
    origin: str


def find_url(flag: str | None, environ: Mapping[str, str], folder: Path) -> Found:
    """The URL of the store: `--url`, HOLDFAST_URL, holdfast.toml, the default."""
    if flag:
        return Found(flag, "--url")
    if environ.get(URL_VARIABLE):
        return Found(environ[URL_VARIABLE], URL_VARIABLE)
    in_file = read_file(folder / FILE_NAME).get("url")
    if in_file:
        return Found(in_file, FILE_NAME)
    return Found(URL_DEFAULT, "the default")


def read_file(path: Path) -> dict[str, str]:
    """The [holdfast] table of the file, or nothing when there is no file."""
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{path.name} cannot be read: {error}; repair or remove it") from None
    table = document.get("holdfast", {})
    if not isinstance(table, dict):
        raise BadConfig(f"{path.name}: 'holdfast' must be a table; write [holdfast] above its keys")
    for key, value in table.items():
        if key not in KEYS:
            raise BadConfig(f"{path.name}: unknown key '{key}' in [holdfast]; known: {KEYS[0]}")
        if not isinstance(value, str):
            raise BadConfig(f"{path.name}: '{key}' must be text, not {value!r}")
    return table
