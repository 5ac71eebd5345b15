"""`holdfast node show|cordon|uncordon|drain|quarantine|revoke`: nodes that have registered."""

from __future__ import annotations

from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1
from holdfast.cli.commands.node import started, state_of
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.times import length

NO_TYPES: Final = "none: it runs no tasks"
Id = Annotated[str, Parameter(help="The node's id.")]


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a node: one that has registered, or a process with the database."""
    _print(common, answer_of(common, "GET", v1("nodes", id)))


def cordon(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give a node no new tasks. It goes on with those that it runs."""
    _change(common, id, "cordon", reason)


def uncordon(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Admit a node again, from whatever state. One that was revoked has to register again."""
    _change(common, id, "uncordon", reason)


def drain(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give a node no new tasks; running ones finish."""
    _change(common, id, "drain", reason)


def quarantine(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Refuse everything that a node sends, until it is admitted again."""
    _change(common, id, "quarantine", reason)


def revoke(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """End the runs and the credential of a node."""
    _change(common, id, "revoke", reason)


def _change(common: Common, id: str, verb: str, reason: str) -> None:
    _print(common, answer_of(common, "POST", v1("nodes", id, verb), {"reason": reason}))


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
