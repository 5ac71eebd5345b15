"""A preset: a search of tasks (a view) or a command of the fleet (a template) under a name of its project.

Promises: a view has a query that can be read. A preset starts nothing: its use needs the rights for what it
describes. Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from holdfast.core import codec
from holdfast.core.check import check_choice, check_name, shown
from holdfast.core.search import parse
from holdfast.errors import InvalidInput

NAME_CHARS_MAX: Final = 80
BODY_BYTES_MAX: Final = 16_384
PRESETS_MAX: Final = 200
"""Presets of one kind in a project. One more is refused."""
QUERY: Final = "q"


class PresetKind(StrEnum):
    VIEW = "view"
    """A search of tasks: its body is `{"q": …}`."""
    TEMPLATE = "template"
    """A command of the fleet: its body has the fields of a request for a job."""


def check_kind(value: object) -> PresetKind:
    return check_choice("kind", value, PresetKind)


def check_preset_name(value: object) -> str:
    name = check_name("name", value, most=NAME_CHARS_MAX)
    if name != name.strip():
        raise InvalidInput(f"name {shown(name)} begins or ends with a blank: leave it out")
    return name


def check_body(kind: PresetKind, body: Mapping[str, object]) -> str:
    """The body as it is stored."""
    if kind is PresetKind.VIEW:
        query = body.get(QUERY)
        if not isinstance(query, str) or body.keys() != {QUERY}:
            raise InvalidInput('the body of a view is {"q": SEARCH}')
        parse(query)
    text = codec.dumps(dict(body))
    if (size := len(text.encode())) > BODY_BYTES_MAX:
        raise InvalidInput(f"the body has {size} bytes: at most {BODY_BYTES_MAX} are kept")
    return text
