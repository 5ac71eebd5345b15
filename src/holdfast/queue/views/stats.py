"""The statistics of a store in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.event import Position
from holdfast.queue.nodes import Node
from holdfast.queue.stats import Stats
from holdfast.queue.views.values import View

OF_ONE_PROCESS: Final = (
    "registered_handlers",
    "fenced",
    "leases_lost",
    "restarts",
    "deaf_handlers",
    "abandoned_threads",
    "troubles",
)
"""Fields of `Stats` that describe one process, not the store."""


def stats(of: Stats, nodes: Sequence[Node], head: Position) -> View:
    """The statistics of the store, with the workers of all live nodes and the end of the feed."""
    view: View = msgspec.to_builtins(of)
    for name in OF_ONE_PROCESS:
        del view[name]
    workers = sum(node.workers for node in nodes)
    busy = sum(node.busy for node in nodes)
    free = {"workers": workers, "available_workers": workers - busy}
    return {**view, **free, "nodes": len(nodes), "feed_head": str(head)}
