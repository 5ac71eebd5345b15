"""How far the live nodes of a store are behind its feed."""

from __future__ import annotations

from typing import Final

from holdfast.core.event import Position
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.nodes.scripts import unread_since
from holdfast.sync.rows import own

NODES_MAX: Final = 1_000
"""Nodes that one reading has."""


async def read_lags(store: Store, rules: HubRules = RULES) -> list[tuple[str, int, float]]:
    """(kind, events, seconds) of each live node that has said how far it has read."""
    head = await store.feed.head()
    now = store.now()
    rows = await store.read(lambda: _positions(head, now - rules.silent_seconds))
    behind = sorted({read_to for _, read_to in rows if read_to < head.offset})
    unread = await store.read(lambda: unread_since(behind)) if behind else {}
    return [
        (kind, max(0, head.offset - read_to), max(0.0, now - unread.get(read_to, now)))
        for kind, read_to in rows
    ]


def _positions(head: Position, since: float) -> Script[list[tuple[str, int]]]:
    rows = yield call(own("live_positions"), epoch=head.epoch, since=since, limit=NODES_MAX)
    return [(kind, int(read_to)) for kind, read_to in rows]
