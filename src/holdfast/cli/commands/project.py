"""`holdfast project list|show|create|set`: projects and the strategies of their conflicts."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import CHANGE, COMMON, VERSIONED, Change, Common, Query, VersionedChange
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.core.exchange.strategy import Strategy

Name = Annotated[str, Parameter(help="The project's name.")]
Override = Annotated[
    list[str] | None,
    Parameter(name="--override", help="For a class of fields: set=merge, map=manual, text=manual."),
]


def list_(*, query: Query = None, common: Common = COMMON) -> None:
    """List projects, by name."""
    columns = [
        Column("ID", lambda item: item["id"], flex=True),
        Column("STRATEGY", lambda item: item["strategy"]),
        Column("OVERRIDES", lambda item: _shown(item["overrides"])),
        Column("CLOCK", lambda item: item["clock"]),
    ]
    empty = "no projects: `holdfast project create NAME` makes one"
    print_list(common, page_of(common, v1("projects"), q=query), columns, empty)


def show(name: Name, /, *, common: Common = COMMON) -> None:
    """Show a project: its strategies, its logical clock and its version."""
    check_projects(common, [name])
    item = answer_of(common, "GET", v1("projects", name))
    Printer(common).one(item, [*_lines(item), ("clock", str(item["clock"]))], name=item["id"])


def create(
    name: Name,
    /,
    *,
    strategy: Annotated[
        str, Parameter(help="merge, last_write_wins or manual.")
    ] = Strategy.MERGE.value,
    override: Override = None,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a project."""
    body = {
        "id": name,
        "strategy": strategy,
        "overrides": _overrides(override) or {},
        "reason": given.reason,
    }
    item = answer_of(common, "POST", v1("projects"), body, dry_run=given.dry_run)
    _print(common, item, dry_run=given.dry_run)


def set_(
    name: Name,
    /,
    *,
    strategy: Annotated[str | None, Parameter(help="merge, last_write_wins or manual.")] = None,
    override: Override = None,
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> None:
    """Change how the conflicts of a project are settled."""
    if strategy is None and override is None:
        raise Usage("nothing to set: give --strategy or --override")
    body = {"strategy": strategy, "overrides": _overrides(override), **given.body()}
    item = answer_of(common, "PATCH", v1("projects", name), body, dry_run=given.dry_run)
    _print(common, item, dry_run=given.dry_run)


def _overrides(given: list[str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise Usage(f"--override {wrong[0]} has no strategy: write e.g. --override set=merge")
    return {name: value for name, _, value in pairs}


def _print(common: Common, item: dict[str, Any], *, dry_run: bool) -> None:
    Printer(common, dry_run=dry_run).one(item, _lines(item), name=item["id"])


def _lines(item: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["id"], item["strategy"]), ("overrides", _shown(item["overrides"]) or "none")]


def _shown(overrides: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(overrides.items()))
