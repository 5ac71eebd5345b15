"""The nodes that a store knows: who runs tasks, and whether they still say so."""

from __future__ import annotations

from typing import Final

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
    types: list[str]
    queues: list[str]
    workers: int
    busy: int


async def live_nodes(queue: TaskQueue) -> list[Node]:
    """Those that were heard of lately."""
    backend = await queue.open()
    oldest = backend.store.now() - LEASES * queue.settings.lease_seconds
    return [node for node in await all_nodes(queue) if node.seen_at >= oldest]


async def all_nodes(queue: TaskQueue) -> list[Node]:
    backend = await queue.open()
    found = []
    for node_id, started_at, seen_at, info_json in await backend.store.query("nodes"):
        info = codec.loads_object(info_json)
        found.append(
            Node(
                node_id,
                started_at,
                seen_at,
                info.get("types", []),
                info.get("queues", []),
                info.get("workers", 0),
                info.get("busy", 0),
            )
        )
    return found
