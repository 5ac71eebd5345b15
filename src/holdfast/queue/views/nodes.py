"""Nodes in JSON. What only nodes with an identity have comes from `sync`."""

from __future__ import annotations

from typing import Any

from holdfast.client import admin_models as models
from holdfast.core.loop_block import LoopBlock
from holdfast.core.node_identity import NodeState
from holdfast.queue.nodes import Node
from holdfast.queue.views.values import View, at, known_time, parsed, shown

_REPORTED = (
    "lease_seconds", "heartbeat_seconds", "workers", "busy", "queues", "types", "skipped", "deaf_handlers",
    "abandoned_threads", "troubles", "blocks",
)  # fmt: skip


def node(of: Node, now: float, identity: dict[str, Any] | None = None) -> View:
    """A node. `identity` has further fields of one that has registered."""
    return shown(
        models.NodeView(
            id=of.id,
            live=of.is_live,
            started_at=at(of.started_at),
            seen_at=at(of.seen_at),
            seen_seconds_ago=round(max(0.0, now - of.seen_at), 3),
            **{name: getattr(of, name) for name in _REPORTED},
            blocked=None if of.blocked is None else _block(of.blocked),
            **(identity or {}),
        )
    )


def _block(of: LoopBlock) -> models.NodeBlock:
    seconds = round(of.seconds, 3)
    return models.NodeBlock(seconds=seconds, task_id=of.task_id, task_type=of.task_type)


def read_node(view: View) -> Node:
    given = parsed(view, models.NodeView)
    block = given.blocked
    reported = {name: getattr(given, name) for name in _REPORTED if name in view}
    return Node(
        given.id,
        known_time(given.started_at),
        known_time(given.seen_at),
        bool(given.live),
        **reported,
        blocked=None if block is None else LoopBlock(block.seconds, block.task_id, block.task_type),
        state=given.state or NodeState.LIVE.value,
    )
