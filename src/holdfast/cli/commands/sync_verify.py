"""`holdfast sync verify`: compares what a node has on its disk with the server.

Promises: it changes no task and nothing in the folder. The rules are those of the node's own handshake.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v2
from holdfast.cli.options import COMMON, Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.core.plural import noun_for
from holdfast.errors import NotFound

PAGE: Final = 1_000
"""Tasks of one comparison."""
LISTS: Final = {"needsPull": "behind", "needsPush": "unsent", "inSync": "same"}
"""What the lists of a handshake mean for the folder."""
COLUMNS: Final = [
    Column("TASK", lambda item: item["task_id"], flex=True),
    Column("STATE", lambda item: item["state"]),
    Column("VERSION", lambda item: item["version"]),
]


def verify(
    folder: Annotated[Path, Parameter(help="The folder of the node.")] = Path(".holdfast"),
    /,
    *,
    common: Common = COMMON,
) -> int:
    """Compare the folder of a node with the server. Lists what differs: tasks that are behind, changes that
    are not sent, conflicts, tasks that are new or deleted at the server. Exit code 1 if anything differs."""
    from holdfast.client.node.identity import read_identity

    identity = read_identity(folder)
    if identity is None:
        raise NotFound(f"'{folder}' is not the folder of a node")
    versions, bases = _local(folder)

    async def work(queue: TaskQueue) -> dict[str, str]:
        calls = await calls_of(queue)
        return await _compare(calls, identity.node_id, identity.project, versions, bases)

    states = with_queue(common, work)
    items = [
        {"task_id": name, "state": state, "version": versions.get(name)}
        for name, state in sorted(states.items())
        if state != "same"
    ]
    printer = Printer(common)
    printer.rows(
        items,
        COLUMNS,
        empty=f"{len(states)} {noun_for(len(states), 'task')}, all as the server has them",
    )
    return 1 if items else 0


def _local(folder: Path) -> tuple[dict[str, int], dict[str, Any]]:
    """The versions of the tasks in the folder, and what each is based on."""
    from holdfast.client.node.journal import Journal
    from holdfast.client.node.node import JOURNAL
    from holdfast.core.exchange.offline import entries

    if not (folder / JOURNAL).exists():
        raise NotFound(f"'{folder}' has no '{JOURNAL}': no node has worked there")
    journal = Journal(folder / JOURNAL)
    try:
        return entries(journal.replicas(), journal.log())
    finally:
        journal.close()


async def _compare(
    calls: Calls, node: str, project: str, versions: Mapping[str, int], bases: Mapping[str, Any]
) -> dict[str, str]:
    """The state of each task of the folder and of the server."""
    states: dict[str, str] = {}
    names = list(versions)
    cursor: str | None = None
    has_more = True
    while names or has_more:
        page, names = names[:PAGE], names[PAGE:]
        body = {
            "nodeId": node,
            "taskVersions": {name: versions[name] for name in page},
            "bases": {name: bases[name] for name in page},
            "cursor": cursor,
        }
        answer = (await calls.call("POST", v2("handshake", project), body)).body
        for field, state in LISTS.items():
            states |= dict.fromkeys(answer[field], state)
        states |= {each["taskId"]: each["kind"].lower() for each in answer["conflicts"]}
        states |= {name: "new" for name in answer["newTasks"] if name not in versions}
        gone = [each["taskId"] for each in answer["deleted"]]
        states |= {name: "deleted" for name in gone if name in versions}
        has_more = answer["nextCursor"] is not None
        cursor = answer["nextCursor"] or answer["cursor"]
    return states
