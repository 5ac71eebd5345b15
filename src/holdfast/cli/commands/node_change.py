"""`holdfast node show|cordon|uncordon|drain|quarantine|revoke`: nodes that have registered."""

from __future__ import annotations

from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.cli.api import NODES, answer_of, full_id, v1, whole_id
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.commands.node import started, state_of
from holdfast.cli.options import CHANGE, COMMON, Change, Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.times import length
from holdfast.client.calls import Calls

NO_TYPES: Final = "none: it runs no tasks"
Id = Annotated[str, Parameter(help="The node's id, or a prefix that matches one.")]
Ids = Annotated[
    list[str], Parameter(help="Ids of nodes, prefixes that match one, or - to read ids from stdin.")
]


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a node: one that has registered, or a process with the database."""
    id = whole_id(common, NODES, id, live=False)
    _print(common, answer_of(common, "GET", v1("nodes", id)))


def cordon(ids: Ids, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Give nodes no new tasks. They go on with those that they run."""
    return _change(common, ids, "cordon", "cordoned", given)


def uncordon(ids: Ids, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Admit nodes again, from whatever state. One that was revoked has to register again."""
    return _change(common, ids, "uncordon", "admitted", given)


def drain(ids: Ids, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Give nodes no new tasks; running ones finish."""
    return _change(common, ids, "drain", "drained", given)


def quarantine(ids: Ids, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Refuse everything that nodes send, until they are admitted again."""
    return _change(common, ids, "quarantine", "quarantined", given)


def revoke(ids: Ids, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """End the runs and the credentials of nodes."""
    return _change(common, ids, "revoke", "revoked", given)


def _change(common: Common, ids: list[str], verb: str, done: str, given: Change) -> int:
    async def change(calls: Calls, text: str) -> Changed:
        id = await full_id(calls, NODES, text, live=False)
        item = (await calls.call("POST", v1("nodes", id, verb), {"reason": given.reason})).body
        return Changed(id, item, done)

    return change_each(common, ids, change, "node", dry_run=given.dry_run, one=True)


def _print(common: Common, item: dict[str, Any]) -> None:
    has_registered = item["kind"] is not None
    lines = [
        (item["id"], state_of(item)),
        ("kind", item["kind"] if has_registered else "process with the database"),
        ("project", item["project"]),
        ("incarnation", item["incarnation"]),
        ("started", started(item)),
        ("seen", f"{length(item['seen_seconds_ago'])} ago"),
        ("running", item["running"] if has_registered else item["busy"]),
        ("workers", item["workers"]),
        ("queues", ", ".join(item["queues"])),
        ("types", ", ".join(item["types"]) or ("" if has_registered else NO_TYPES)),
    ]
    if has_registered:
        lines.append(("capabilities", ", ".join(item["capabilities"] or ()) or "none"))
    Printer(common).one(item, lines, name=item["id"])
