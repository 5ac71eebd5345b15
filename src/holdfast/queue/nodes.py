"""Use cases of nodes, which are the processes that run tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core import codec, node as rules
from holdfast.core.check import check_flag
from holdfast.core.lease import renewal_interval
from holdfast.core.loop_block import LoopBlock, block_of
from holdfast.core.node_identity import NodeState
from holdfast.queue.session import Sessions
from holdfast.store.rows import NodeRow


class Node(msgspec.Struct, frozen=True):
    """A node and what it reports about itself."""

    id: str
    started_at: float
    seen_at: float
    is_live: bool
    lease_seconds: float = rules.DEFAULT_LEASE_SECONDS
    heartbeat_seconds: float = renewal_interval(rules.DEFAULT_LEASE_SECONDS)
    """The time between two of its heartbeats."""
    types: list[str] = []
    queues: list[str] = []
    project: str | None = None
    """The project that its credential is of. None: it has the database."""
    projects: list[str] | None = None
    """The projects that a process with the database is limited to. None: all."""
    workers: int = 0
    busy: int = 0
    skipped: dict[str, str] = {}
    """Schedules that the node cannot fire, with the reason."""
    deaf_handlers: int = 0
    """Handlers that ignore their cancellation. Each occupies a worker."""
    abandoned_threads: int = 0
    """Threads of handlers that still run after their attempt ended. With 16 of them the node starts no
    task that needs a thread."""
    troubles: int = 0
    """Unexpected errors of the engine since it started."""
    blocks: int = 0
    """How often a handler has blocked the event loop since the start."""
    blocked: LoopBlock | None = None
    """The block of its event loop, while a handler blocks it."""
    type_options: dict[str, dict[str, Any]] | None = None
    """The options of each type that are not the default. None if the version of the node does not report
    them."""
    state: str = NodeState.LIVE.value
    """Whether an operator has taken the node out of service: `core.node_identity.NodeState`."""

    @property
    def may_claim(self) -> bool:
        """Whether the node reports and is in service."""
        return self.is_live and self.state == NodeState.LIVE

    def serves(self, project: str) -> bool:
        """Whether the node runs tasks of this project."""
        if self.projects is not None:
            return project in self.projects
        return self.project in (None, project)


_REPORTED: Final = (
    "project",
    "projects",
    "types",
    "queues",
    "workers",
    "busy",
    "lease_seconds",
    "skipped",
    "deaf_handlers",
    "abandoned_threads",
    "troubles",
    "blocks",
    "type_options",
)


class Nodes:
    """The use cases of the nodes of a store."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def list(self, *, live: bool = True) -> list[Node]:
        """Returns the live nodes. With `live=False`, also nodes that no longer report and are not yet
        removed."""
        check_flag("live", live)
        store = (await self._sessions.open()).store
        nodes = nodes_at(await store.reads.nodes(), store.now())
        return [node for node in nodes if node.is_live] if live else nodes

    async def runners(self) -> Sequence[Node]:
        """Returns the live nodes that run tasks: all but the agents of hosts."""
        store = (await self._sessions.open()).store
        return [node for node in nodes_at(await store.reads.runners(), store.now()) if node.is_live]


def nodes_at(rows: Sequence[NodeRow], now: float) -> list[Node]:
    """Decodes the rows of nodes, and decides which nodes are live at this time."""
    return [_node(row, now) for row in rows]


def _node(row: NodeRow, now: float) -> Node:
    report = _report(row.info_json)
    is_live = rules.is_live(row.seen_at, rules.lease_seconds_of(report), now)
    return Node(row.id, row.started_at, row.seen_at, is_live, **report, state=row.state)


def _report(info_json: str) -> dict[str, Any]:
    """The fields of a report that this version has. A newer node may send others."""
    fields = codec.loads_object(info_json)
    report: dict[str, Any] = {name: fields[name] for name in _REPORTED if name in fields}
    report["heartbeat_seconds"] = rules.heartbeat_seconds_of(fields)
    block = block_of(fields)
    return report if block is None else report | {"blocked": block}
