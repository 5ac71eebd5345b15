"""`holdfast node register`: makes a node and its credential."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, v1, v2
from holdfast.cli.commands.each import Changed, answer
from holdfast.cli.options import CHANGE, COMMON, Change, Common, Flag
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import with_queue
from holdfast.core.node_identity import NodeKind
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import Conflict, NotFound


def register(
    id: Annotated[str, Parameter(help="The id of the node.")],
    /,
    *,
    project: Annotated[str, Parameter(help="The project of the node.")] = DEFAULT_PROJECT,
    kind: Annotated[NodeKind, Parameter(help="What the node is.")] = NodeKind.PLUGIN,
    capability: Annotated[str, Parameter(help="One or more capabilities, e.g. fence.")] = "",
    label: Annotated[tuple[str, ...], Parameter(help="A label as key=value.")] = (),
    rotate: Annotated[
        Flag, Parameter(help="A node that exists gets another credential, and its runs end.")
    ] = False,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Register a node. Its credential is shown once and cannot be read again."""
    body = {
        "nodeId": id,
        "nodeType": kind.value,
        "projectId": project,
        "capabilities": list(values.names(capability)),
        "labels": {name: str(text) for name, text in values.payload(label, None).items()},
        "rotate": rotate,
        "reason": given.reason,
    }

    async def work(queue: TaskQueue) -> dict[str, object]:
        calls = await calls_of(queue, dry_run=given.dry_run)
        if not rotate:
            try:
                await calls.call("GET", v1("nodes", id))
            except NotFound:
                pass
            else:
                raise Conflict(f"node '{id}' exists: give --rotate for another credential")
        made: dict[str, object] = (await calls.call("POST", v2("nodes", "register"), body)).body
        return made

    item = with_queue(common, work)
    if given.dry_run:
        said = "would be registered" if not rotate else "would get another credential"
        answer(
            common, [Changed(id, {"dry_run": True, "nodeId": id, "projectId": project}, said)], []
        )
        return
    lines = [("node", item["nodeId"]), ("credential", item["credential"])]
    Printer(common).one(item, lines, name=item["credential"])
