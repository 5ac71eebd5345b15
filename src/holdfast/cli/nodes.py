"""The nodes that a store knows: who runs tasks, and whether they still say so."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.app import TaskQueue
from holdfast.core import codec

LEASES: Final = 3
"""A node that has not been heard of for so many leases is not live."""


class Node(msgspec.Struct, frozen=True):
    """What a node says about itself."""

    id: str
    started_at: float
    seen_at: float
    lease_seconds: float
    types: list[str] = []
    queues: list[str] = []
    workers: int = 0
    busy: int = 0


async def live_nodes(queue: TaskQueue) -> list[Node]:
    """Those that were heard of lately."""
    backend = await queue.open()
    now = backend.store.now()
    return [
        node for node in await all_nodes(queue) if now - node.seen_at < LEASES * node.lease_seconds
    ]


async def all_nodes(queue: TaskQueue) -> list[Node]:
    backend = await queue.open()
    return [
        Node(
            node_id,
            started_at,
            seen_at,
            **{"lease_seconds": queue.settings.lease_seconds, **_known(info_json)},
        )
        for node_id, started_at, seen_at, info_json in await backend.store.query("nodes")
    ]


def _known(info_json: str) -> dict[str, Any]:
    """What this version understands of what a node says."""
    said = codec.loads_object(info_json)
    return {
        name: said[name]
        for name in ("types", "queues", "workers", "busy", "lease_seconds")
        if name in said
    }
