"""`holdfast node show|cordon|uncordon|drain|quarantine|revoke`: nodes that have registered."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.times import length

Id = Annotated[str, Parameter(help="The node's id.")]


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a node that has registered."""
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
    lines = [
        (item["id"], item["state"]),
        ("kind", item["kind"]),
        ("project", item["project"]),
        ("incarnation", item["incarnation"]),
        ("seen", f"{length(item['seen_seconds_ago'])} ago"),
        ("running", item["running"]),
        ("capabilities", ", ".join(item["capabilities"] or ()) or "none"),
    ]
    Printer(common).one(item, lines, name=item["id"])
