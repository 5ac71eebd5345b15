"""`holdfast node list`: the processes that run tasks."""

from __future__ import annotations

from typing import Any

from holdfast.cli.options import COMMON, Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import with_parts
from holdfast.queue.parts import Parts
from holdfast.sync import views


def list_(*, common: Common = COMMON) -> None:
    """List the nodes of the store, and which types each can run."""

    async def work(parts: Parts) -> tuple[list[dict[str, Any]], float]:
        store = (await parts.sessions.open()).store
        return await views.nodes(store, await parts.nodes.list(live=False)), store.now()

    items, now = with_parts(common, work)
    Printer(common).rows(items, _columns(now), empty="no nodes: no worker is live")


def _columns(now: float) -> list[Column]:
    return [
        Column("ID", lambda item: item["id"]),
        Column("STATE", lambda item: "live" if item["live"] else "silent"),
        Column("SEEN", lambda item: relative(item["seen_at"], now)),
        Column("STARTED", lambda item: relative(item["started_at"], now)),
        Column("BUSY", lambda item: f"{item['busy']}/{item['workers']}"),
        Column("QUEUES", lambda item: ", ".join(item["queues"]), flex=True),
        Column("TYPES", lambda item: ", ".join(item["types"]), flex=True),
    ]
