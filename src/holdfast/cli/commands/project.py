"""`holdfast project list|create|set`: projects and the strategies of their conflicts."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.commands.hub import recorded, with_store
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import Usage
from holdfast.core.rights import Operation
from holdfast.core.strategy import Strategy
from holdfast.queue.by import By
from holdfast.sync import views
from holdfast.sync.projects import Projects
from holdfast.sync.rows import ProjectRow

Name = Annotated[str, Parameter(help="The project's name.")]
Override = Annotated[
    list[str] | None,
    Parameter(name="--override", help="For a class of fields: set=merge, map=manual, text=manual."),
]


def list_(*, common: Common = COMMON) -> None:
    """List projects, by name."""
    rows, _ = with_store(common, lambda store: Projects(store).list())
    columns = [
        Column("ID", lambda item: item["id"], flex=True),
        Column("STRATEGY", lambda item: item["strategy"]),
        Column("OVERRIDES", lambda item: _shown(item["overrides"])),
        Column("CLOCK", lambda item: item["clock"]),
    ]
    Printer(common).rows([views.project(row) for row in rows], columns, empty="no projects")


def create(
    name: Name,
    /,
    *,
    strategy: Annotated[
        str, Parameter(help="merge, last_write_wins or manual.")
    ] = Strategy.MERGE.value,
    override: Override = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Create a project."""
    chosen = _overrides(override) or {}
    row, _ = with_store(
        common,
        lambda store: Projects(store).create(
            name, _by(name, reason), strategy=strategy, overrides=chosen
        ),
    )
    _print(common, row)


def set_(
    name: Name,
    /,
    *,
    strategy: Annotated[str | None, Parameter(help="merge, last_write_wins or manual.")] = None,
    override: Override = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Change how the conflicts of a project are settled."""
    if strategy is None and override is None:
        raise Usage("nothing to set: give --strategy or --override")
    row, _ = with_store(
        common,
        lambda store: Projects(store).put(
            name, _by(name, reason), strategy=strategy, overrides=_overrides(override)
        ),
    )
    _print(common, row)


def _overrides(given: list[str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise Usage(f"--override {wrong[0]} has no strategy: write e.g. --override set=merge")
    return {name: value for name, _, value in pairs}


def _by(project: str, reason: str) -> By:
    return recorded(Operation.PROJECTS_MANAGE, project=project, subject=project, reason=reason)


def _print(common: Common, row: ProjectRow) -> None:
    item = views.project(row)
    lines = [(row.id, row.strategy), ("overrides", _shown(item["overrides"]) or "none")]
    Printer(common).one(item, lines, name=row.id)


def _shown(overrides: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(overrides.items()))
