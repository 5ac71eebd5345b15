"""What the command line and servers work on: from a flag, the environment, a file in the working folder, or
the default.

Promises: the first source that has a value wins, and the answer names the source.
Never: reads a file of another folder, or opens the store. An internal module.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.errors import BadConfig
from holdfast.variables import read_value, variable

FILE_NAME: Final = "holdfast.toml"
URL_VARIABLE: Final = "HOLDFAST_URL"
URL_DEFAULT: Final = "sqlite:///holdfast.db"
GATEWAY_VARIABLE: Final = "HOLDFAST_GATEWAY"
TOKEN_VARIABLE: Final = "HOLDFAST_TOKEN"
PREFERENCES: Final = ("output", "color", "progress")
"""Options of the command line that the file and `HOLDFAST_OUTPUT`, ... may set."""
KEYS: Final = ("url", "gateway", "token_file", *PREFERENCES)
TABLES: Final = (
    "holdfast",
    "server",
    "sync",
    "keep",
    "intervention",
    "decision",
    "task",
    "fleet",
    "webhooks",
)


class Resolved(NamedTuple):
    """A value and its source."""

    value: str
    origin: str


def find_url(flag: str | None, environ: Mapping[str, str], folder: Path) -> Resolved:
    """The URL of the store, from `--url`, HOLDFAST_URL, the file HOLDFAST_URL_FILE, holdfast.toml or the
    default."""
    if flag:
        return Resolved(flag, "--url")
    if found := variable(environ, URL_VARIABLE):
        return Resolved(found, URL_VARIABLE)
    in_file = read_file(folder / FILE_NAME).get("url")
    if in_file:
        return Resolved(in_file, FILE_NAME)
    return Resolved(URL_DEFAULT, "the default")


def find_gateway(
    flag: str | None, url_flag: str | None, environ: Mapping[str, str], folder: Path | None = None
) -> Resolved | None:
    """The gateway, from `--gateway`, HOLDFAST_GATEWAY or the file of the folder. None: the store is used. A
    store that is named by `--url` counts more than the environment, and one of the environment more than the
    gateway of the file."""
    if flag is not None:
        if url_flag:
            raise BadConfig("both --gateway and --url are given: use one of them")
        if not flag:
            raise BadConfig("--gateway is empty: write e.g. --gateway holdfast://host:8787")
        return Resolved(flag, "--gateway")
    if environ.get(GATEWAY_VARIABLE) and not url_flag:
        return Resolved(environ[GATEWAY_VARIABLE], GATEWAY_VARIABLE)
    if folder is None or url_flag or variable(environ, URL_VARIABLE):
        return None
    in_file = read_file(folder / FILE_NAME).get("gateway")
    return Resolved(in_file, FILE_NAME) if in_file else None


def find_token(flag: str | None, environ: Mapping[str, str], folder: Path) -> Resolved | None:
    """The token for a gateway: from `--token`, HOLDFAST_TOKEN, the file HOLDFAST_TOKEN_FILE, or the file that
    `token_file` of holdfast.toml names."""
    if flag is not None:
        return Resolved(flag, "--token")
    if found := variable(environ, TOKEN_VARIABLE):
        name = TOKEN_VARIABLE if environ.get(TOKEN_VARIABLE) else f"{TOKEN_VARIABLE}_FILE"
        return Resolved(found, name)
    path = read_file(folder / FILE_NAME).get("token_file")
    if not path:
        return None
    return Resolved(read_value(f"token_file of {FILE_NAME}", str(folder / path)), FILE_NAME)


def find_preference(name: str, environ: Mapping[str, str], folder: Path) -> Resolved | None:
    """What the environment or the file says about an option of the command line."""
    variable_name = f"HOLDFAST_{name.upper()}"
    if text := environ.get(variable_name):
        return Resolved(text, variable_name)
    in_file = read_file(folder / FILE_NAME).get(name)
    return Resolved(in_file, FILE_NAME) if in_file else None


def read_tables(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of the file, e.g. [server]; empty when there is no file."""
    document = _document(path)
    for name, table in document.items():
        if not isinstance(table, dict):
            raise BadConfig(f"{path.name}: '{name}' must be a table; write [{name}] above its keys")
    return document


def read_file(path: Path) -> dict[str, str]:
    """The [holdfast] table of the file; empty when there is no file."""
    document = _document(path)
    for key, value in document.items():
        if key not in TABLES and isinstance(value, dict):
            close = get_close_matches(key, TABLES, n=1)
            text = f"did you mean [{close[0]}]?" if close else f"known: {', '.join(TABLES)}"
            raise BadConfig(f"{path.name}: there is no table [{key}]; {text}")
        if not isinstance(value, dict) and key != "holdfast":
            raise BadConfig(
                f"{path.name}: '{key}' is outside of a table and has no effect; write [holdfast] above it"
            )
    table = document.get("holdfast", {})
    if not isinstance(table, dict):
        raise BadConfig(f"{path.name}: 'holdfast' must be a table; write [holdfast] above its keys")
    for key, value in table.items():
        if key not in KEYS:
            close = get_close_matches(key, KEYS, n=1)
            text = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(KEYS)}"
            raise BadConfig(f"{path.name}: unknown key '{key}' in [holdfast]; {text}")
        if not isinstance(value, str):
            raise BadConfig(f"{path.name}: '{key}' must be text, not {value!r}")
    return table


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{path.name} cannot be read: {error}; repair or remove it") from None
