"""`holdfast node list`: the processes that run tasks, and the nodes that have registered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import v1
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, Common, Flag, Query
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length, relative


def list_(
    *,
    agents: Annotated[
        Flag, Parameter(help="Also the agents of the fleet: one for each host.")
    ] = False,
    query: Query = None,
    common: Common = COMMON,
) -> None:
    """List the nodes of the store, and which types each can run. A query looks at agents too."""
    page = page_of(common, v1("nodes"), live=False, agents=agents or query is not None, q=query)
    print_list(common, page, COLUMNS, "no nodes: `holdfast worker MODULE:QUEUE` starts one")


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
