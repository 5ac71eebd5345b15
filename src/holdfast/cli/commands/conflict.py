"""`holdfast conflict list|show|settle`: content that nodes wrote on one base."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.commands.hub import recorded, with_store
from holdfast.cli.options import COMMON, Common, Limit, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import Usage
from holdfast.core.check import check_choice
from holdfast.core.codec import dumps
from holdfast.core.rights import Operation
from holdfast.store.store import Store
from holdfast.sync import views
from holdfast.sync.conflicts import Conflict, Conflicts, Settled, Take

Id = Annotated[str, Parameter(help="The conflict's id.")]


def list_(
    *,
    project: Annotated[str | None, Parameter(help="Only those of this project.")] = None,
    state: Annotated[str, Parameter(help="open, settled, or both: all.")] = "open",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List conflicts, oldest first."""
    rows, _ = with_store(
        common,
        lambda store: Conflicts(store).find(
            None if project is None else [project],
            state=None if state == "all" else state,
            limit=limit,
        ),
    )
    items = [views.conflict_row(row) for row in rows]
    Printer(common).rows(items, _columns(), empty="no conflicts")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a conflict with both sides."""
    conflict, _ = with_store(common, lambda store: Conflicts(store).get(id))
    _print(common, conflict)


def settle(
    id: Id,
    take: Annotated[str, Parameter(help="The side that counts: server, client or merged.")],
    /,
    *,
    merged: Annotated[
        str | None, Parameter(help="For merged: JSON with payload, metadata, labels.")
    ] = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Settle a conflict. The content of the side that is taken is written; a status never is."""
    side = check_choice("take", take, Take)
    content = None if merged is None else values.parsed(merged)
    if content is not None and not isinstance(content, dict):
        raise Usage("--merged is not a JSON object: give payload, metadata or labels")

    async def work(store: Store) -> Settled:
        conflicts = Conflicts(store)
        project = (await conflicts.get(id)).project
        by = recorded(Operation.CONFLICTS_SETTLE, project=project, subject=id, reason=reason)
        return await conflicts.settle(id, side, by, merged=content)

    settled, _ = with_store(common, work)
    _print(common, settled.conflict)


def _print(common: Common, conflict: Conflict) -> None:
    item = views.conflict(conflict)
    lines = [
        (conflict.id, conflict.state),
        ("task", f"{conflict.client_id} ({conflict.task_id})"),
        ("project", conflict.project),
        ("node", conflict.node),
        ("server", f"version {conflict.server_version}: {dumps(item['server'])}"),
        ("client", f"version {conflict.base_version}: {dumps(item['client'])}"),
    ]
    if conflict.settled_by:
        lines.append(("settled", f"{conflict.resolution} by {conflict.settled_by}"))
    Printer(common).one(item, lines, name=conflict.id)


def _columns() -> list[Column]:
    def field(name: str) -> Any:
        return lambda item: item[name]

    return [
        Column("ID", field("id")),
        Column("STATE", field("state")),
        Column("KIND", field("kind")),
        Column("PROJECT", field("project")),
        Column("TASK", field("client_id"), flex=True),
        Column("NODE", field("node"), flex=True),
        Column("CREATED", field("created_at")),
    ]
