"""Checks the names of projects that a command was given.

Promises: a project that does not exist is an error that names the nearest ones. Never: creates a project.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from holdfast.cli.api import answer_of, v1
from holdfast.cli.options import Common
from holdfast.core.access import ALL_PROJECTS
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import NotFound


def check_projects(common: Common, names: Iterable[str]) -> None:
    """NotFound if one of the projects does not exist, or if the token has no access to it."""
    given = [name for name in names if name not in (ALL_PROJECTS, DEFAULT_PROJECT)]
    if not given:
        return
    known = [item["id"] for item in answer_of(common, "GET", v1("projects"))["items"]]
    for name in given:
        if name not in known:
            raise NotFound(_text(name, known))


def _text(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, [*known, DEFAULT_PROJECT], 3)
    advice = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f"there is no project '{name}': {advice}`holdfast project list` shows the projects, "
        f"`holdfast project create {name}` makes it"
    )
