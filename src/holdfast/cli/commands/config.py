"""`holdfast config explain|path`: the settings in force here, and where each comes from.

Promises: a flag counts more than the environment, the environment more than `holdfast.toml`. What they
must not have is refused, with the nearest name. Never: prints a secret.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.cli.lists import Page, print_list
from holdfast.cli.options import COMMON, Common, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.session import remark, shown_store
from holdfast.config import (
    FILE_NAME,
    PREFERENCES,
    Resolved,
    find_gateway,
    find_preference,
    find_token,
    find_url,
    read_file,
    read_tables,
)
from holdfast.core.address import shown_url
from holdfast.core.search import parse
from holdfast.core.search.keys import Key, Kind, table
from holdfast.core.search.matching import matches
from holdfast.gateway.settings import ADMIN_TOKEN, OTHERS, admin_token, server_settings

DEFAULT: Final = "default"
HIDDEN: Final = "(hidden)"
DEFAULTS: Final = {"output": "table", "color": "auto", "progress": "auto"}
KEYS: Final = table(*(Key(name, Kind.TEXT) for name in ("id", "value", "origin")))
VARIABLES: Final = (
    *("HOLDFAST_URL", "HOLDFAST_URL_FILE", "HOLDFAST_GATEWAY", "HOLDFAST_TOKEN"),
    *("HOLDFAST_TOKEN_FILE", ADMIN_TOKEN, f"{ADMIN_TOKEN}_FILE", "HOLDFAST_DEBUG"),
    *(f"HOLDFAST_{name.upper()}" for name in PREFERENCES),
)
COLUMNS: Final = [
    Column("SETTING", lambda item: item["id"]),
    Column("VALUE", lambda item: item["value"], flex=True),
    Column("FROM", lambda item: item["origin"]),
]


def explain(*, query: Query = None, common: Common = COMMON) -> None:
    """List the settings of the command line and of `holdfast server`, each with its value and where it comes
    from. Secrets are hidden."""
    wanted = None if query is None else parse(query, KEYS)
    found = [_item(name, each) for name, each in _settings(common)]
    items = [item for item in found if wanted is None or matches(wanted, item, 0.0, KEYS)]
    for name in os.environ:
        if name.startswith("HOLDFAST_") and (near := _near(name)):
            remark(f"{name} has no effect: did you mean {near}?")
    print_list(common, Page(items, None, 0.0, query is not None), COLUMNS, "no settings")


def path(*, common: Common = COMMON) -> None:
    """Print the file of settings that counts in this folder, and whether it exists."""
    file = Path.cwd() / FILE_NAME
    exists = file.exists()
    lines = [("file", str(file)), ("found", "yes" if exists else "no: the defaults count")]
    Printer(common).one({"path": str(file), "exists": exists}, lines, name=str(file))


def _item(name: str, found: Resolved) -> Item:
    return {"id": name, "value": found.value, "origin": found.origin}


def _settings(common: Common) -> Iterator[tuple[str, Resolved]]:
    here = Path.cwd()
    read_file(here / FILE_NAME)  # an unknown table or key is refused
    url = find_url(common.url, os.environ, here)
    yield "url", Resolved(shown_store(url.value), _origin(url.origin))
    gateway = find_gateway(common.gateway, common.url, os.environ, here)
    shown = None if gateway is None else shown_url(gateway.value)
    yield "gateway", Resolved(shown or "none", DEFAULT if gateway is None else gateway.origin)
    token = find_token(common.token, os.environ, here)
    yield "token", Resolved("none", DEFAULT) if token is None else token._replace(value=HIDDEN)
    for name in PREFERENCES:
        yield name, find_preference(name, os.environ, here) or Resolved(DEFAULTS[name], DEFAULT)
    yield from _of_server(read_tables(here / FILE_NAME), os.environ)


def _origin(text: str) -> str:
    return DEFAULT if text == "the default" else text


def _of_server(
    tables: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]
) -> Iterator[tuple[str, Resolved]]:
    given = admin_token(environ)
    settings = server_settings(tables, environ, {"admin_token": given})
    origin = DEFAULT if given is None else ADMIN_TOKEN
    yield "admin_token", Resolved("none" if given is None else HIDDEN, origin)
    for section in ("server", *OTHERS):
        values = settings if section == "server" else getattr(settings, section)
        for field in msgspec.structs.fields(type(values)):
            name = field.name
            if section == "server" and (name in OTHERS or name in ("admin_token", "has_tokens")):
                continue
            variable = f"HOLDFAST_{section.upper()}__{name.upper()}"
            sources = (variable, f"{variable}_FILE")
            said = [each for each in sources if each in environ]
            in_file = FILE_NAME if name in tables.get(section, {}) else DEFAULT
            value = _shown(getattr(values, name))
            yield f"{section}.{name}", Resolved(value, said[0] if said else in_file)


def _shown(value: Any) -> str:
    """A value in one line, without secrets."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case dict() | list() | tuple() if any(not isinstance(each, str) for each in value):
            return f"{len(value)} entries"
        case dict():
            return ", ".join(sorted(value)) or "none"
        case list() | tuple():
            return ", ".join(value) or "none"
        case str():
            return shown_url(value) or "none"  # the URL of a Redis may have a password
    return str(value)


def _near(name: str) -> str | None:
    """The variable that a misspelt one stands for."""
    if name in VARIABLES or "__" in name:
        return None
    close = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.85)
    return close[0] if close else None
