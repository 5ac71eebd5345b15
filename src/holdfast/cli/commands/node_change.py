"""`holdfast node show|cordon|uncordon|drain|quarantine|revoke`: nodes that have registered."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.commands.hub import recorded, with_store
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.times import relative
from holdfast.core.node_identity import NodeState
from holdfast.core.rights import Operation
from holdfast.gateway import hub_views
from holdfast.store.store import Store
from holdfast.sync.nodes import Nodes, NodeView

Id = Annotated[str, Parameter(help="The node's id.")]


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a node that has registered."""
    view, now = with_store(common, lambda store: Nodes(store).view(id))
    _print(common, view, now)


def cordon(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give a node no new tasks. It goes on with those that it runs."""
    _change(common, id, NodeState.CORDONED, reason)


def uncordon(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Admit a node again, from whatever state. One that was revoked has to register again."""
    _change(common, id, NodeState.LIVE, reason)


def drain(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give a node no new tasks, and tell it to end."""
    _change(common, id, NodeState.DRAINING, reason)


def quarantine(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Refuse everything that a node sends, until it is admitted again."""
    _change(common, id, NodeState.QUARANTINED, reason)


def revoke(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """End the runs and the credential of a node."""
    _change(common, id, NodeState.REVOKED, reason)


def _change(common: Common, id: str, state: NodeState, reason: str) -> None:
    async def work(store: Store) -> NodeView:
        nodes = Nodes(store)
        project = (await nodes.get(id)).project
        by = recorded(Operation.NODES_MANAGE, project=project, subject=f"node:{id}", reason=reason)
        await nodes.set_state(id, state, by)
        return await nodes.view(id)

    view, now = with_store(common, work)
    _print(common, view, now)


def _print(common: Common, view: NodeView, now: float) -> None:
    row = view.row
    lines = [
        (row.id, row.state),
        ("kind", row.kind),
        ("project", row.project),
        ("incarnation", str(row.incarnation)),
        ("seen", relative(row.seen_at, now)),
        ("running", str(view.running)),
        ("capabilities", ", ".join(row.capabilities) or "none"),
    ]
    Printer(common).one(hub_views.registered_node(view, now), lines, name=row.id)
