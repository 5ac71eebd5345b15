"""`holdfast node list`: the processes that run tasks, and the nodes that have registered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.cli.api import answer_of, v1
from holdfast.cli.options import COMMON, Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length, relative


def list_(*, common: Common = COMMON) -> None:
    """List the nodes of the store, and which types each can run."""
    items = answer_of(common, "GET", v1("nodes"), query={"live": False})["items"]
    Printer(common).rows(items, COLUMNS, empty="no nodes: no worker is live")


def started(item: dict[str, Any]) -> str:
    """How long ago the node started. The time of the answer is when it was seen, and how long ago that is."""
    seen_at = datetime.fromisoformat(item["seen_at"]).timestamp()
    return relative(item["started_at"], seen_at + item["seen_seconds_ago"])


def state_of(item: dict[str, Any]) -> str:
    """The state that an operator gave the node, else whether it is heard of."""
    state = item.get("state")
    if state not in (None, "live"):
        return str(state)
    return "live" if item["live"] else "silent"


COLUMNS = [
    Column("ID", lambda item: item["id"]),
    Column("STATE", state_of),
    Column("SEEN", lambda item: f"{length(item['seen_seconds_ago'])} ago"),
    Column("STARTED", started),
    Column("BUSY", lambda item: f"{item['busy']}/{item['workers']}"),
    Column("QUEUES", lambda item: ", ".join(item["queues"]), flex=True),
    Column("TYPES", lambda item: ", ".join(item["types"]), flex=True),
]
