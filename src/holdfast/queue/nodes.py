"""Use cases of nodes: the processes that run tasks, and whether each still reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core import codec, node as rules
from holdfast.core.check import check_flag
from holdfast.queue.session import Sessions
from holdfast.store.rows import NodeRow


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


class Nodes:
    """What may be asked of the nodes of a store."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def list(self, *, live: bool = True) -> list[Node]:
        """The nodes; with `live` false also those that no longer report and are not yet removed."""
        check_flag("live", live)
        store = (await self._sessions.open()).store
        nodes = nodes_at(await store.reads.nodes(), store.now())
        return [node for node in nodes if node.is_live] if live else nodes


def nodes_at(rows: Sequence[NodeRow], now: float) -> list[Node]:
    """The nodes of the store, and which of them are live at this time."""
    return [_node(row, now) for row in rows]


def _node(row: NodeRow, now: float) -> Node:
    said = _known(row.info_json)
    is_live = rules.is_live(row.seen_at, rules.lease_seconds_of(said), now)
    return Node(row.id, row.started_at, row.seen_at, is_live, **said)


def _known(info_json: str) -> dict[str, Any]:
    """What this version understands of what a node says."""
    said = codec.loads_object(info_json)
    return {name: said[name] for name in _SAID if name in said}
