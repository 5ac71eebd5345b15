"""`holdfast node show|cordon|uncordon|drain|quarantine|revoke`: nodes that have registered."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.commands.hub import recorded, with_store
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.times import relative
from holdfast.core.node_identity import NodeState
from holdfast.core.rights import Operation
from holdfast.queue.nodes import nodes_at
from holdfast.store.store import Store
from holdfast.sync import views
from holdfast.sync.nodes import Nodes

Id = Annotated[str, Parameter(help="The node's id.")]


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a node that has registered."""
    _print(common, *with_store(common, lambda store: _view(store, id)))


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
    async def work(store: Store) -> dict[str, Any]:
        nodes = Nodes(store)
        project = (await nodes.get(id)).project
        by = recorded(Operation.NODES_MANAGE, project=project, subject=f"node:{id}", reason=reason)
        await nodes.set_state(id, state, by)
        return await _view(store, id)

    _print(common, *with_store(common, work))


async def _view(store: Store, id: str) -> dict[str, Any]:
    await Nodes(store).get(id)
    rows = [row for row in await store.reads.nodes() if row.id == id]
    [item] = await views.nodes(store, nodes_at(rows, store.now()))
    return item


def _print(common: Common, item: dict[str, Any], now: float) -> None:
    lines = [
        (item["id"], item["state"]),
        ("kind", item["kind"]),
        ("project", item["project"]),
        ("incarnation", str(item["incarnation"])),
        ("seen", relative(item["seen_at"], now)),
        ("running", str(item["running"])),
        ("capabilities", ", ".join(item["capabilities"]) or "none"),
    ]
    Printer(common).one(item, lines, name=item["id"])
