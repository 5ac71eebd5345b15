"""The nodes that a store knows: who runs tasks, and whether they still say so."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core import codec, node as rules
from holdfast.queue.backend import Backend


class Node(msgspec.Struct, frozen=True):
    """What a node says about itself."""

    id: str
    started_at: float
    seen_at: float
    is_live: bool
    lease_seconds: float = rules.DEFAULT_LEASE_SECONDS
    types: list[str] = []
    queues: list[str] = []
    workers: int = 0
    busy: int = 0
    skipped: dict[str, str] = {}
    """Schedules that it cannot fire, and why."""
    deaf_handlers: int = 0
    """Handlers that ignore their cancellation; each keeps a worker."""
    abandoned_threads: int = 0
    """Plain handlers that outlived their attempts; at 16 the node takes no task for threads."""
    troubles: int = 0
    """Unforeseen errors of its engine since it started."""
    type_options: dict[str, dict[str, Any]] | None = None
    """Options of its types that are not the default; None when its version does not say."""


_SAID: Final = (
    "types",
    "queues",
    "workers",
    "busy",
    "lease_seconds",
    "skipped",
    "deaf_handlers",
    "abandoned_threads",
    "troubles",
    "type_options",
)


async def nodes_of(backend: Backend) -> list[Node]:
    """All that were heard of and not yet forgotten."""
    return nodes_at(await backend.store.query("nodes"), backend.store.now())


def nodes_at(rows: list[Any], now: float) -> list[Node]:
    """From rows of the statement `nodes`."""
    return [_node(row, now) for row in rows]


async def live_nodes(backend: Backend) -> list[Node]:
    return [node for node in await nodes_of(backend) if node.is_live]


def _node(row: Any, now: float) -> Node:
    node_id, started_at, seen_at, info_json = row
    said = _known(info_json)
    is_live = rules.is_live(seen_at, rules.lease_seconds_of(said), now)
    return Node(node_id, started_at, seen_at, is_live, **said)


def _known(info_json: str) -> dict[str, Any]:
    """What this version understands of what a node says."""
    said = codec.loads_object(info_json)
    return {name: said[name] for name in _SAID if name in said}
