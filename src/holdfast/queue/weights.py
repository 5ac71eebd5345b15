"""Use cases of the weights of keys: read, set.

Promises: a weight is set with its actor and reason, and counts from the next claim on. A type that neither
the store nor this process has raises UnknownType.
"""

from __future__ import annotations

from typing import Final

from holdfast.bus.port import FEED
from holdfast.core.check import check_name, check_text, check_whole
from holdfast.core.turns import WEIGHT_MAX, WeightChange
from holdfast.queue.by import By
from holdfast.queue.session import Sessions
from holdfast.queue.types import KnownTypes
from holdfast.store.rows import KeyWeight

PAGE_MAX: Final = 1_000


def checked(type: str, key: str, weight: int) -> WeightChange:
    """The change, or InvalidInput. The empty key is that of tasks without a key."""
    check_name("type", type)
    if key != "":
        check_name("key", key)
    return WeightChange(type, key, check_whole("weight", weight, least=1, most=WEIGHT_MAX))


class Weights:
    """The use cases of the weights of a store."""

    def __init__(self, sessions: Sessions, types: KnownTypes) -> None:
        self._sessions = sessions
        self._types = types

    async def list(self, type: str, *, after: str = "", limit: int = 100) -> list[KeyWeight]:
        """The keys of a type whose weight is not 1, in order, behind the key `after`."""
        check_name("type", type)
        check_text("after", after)
        check_whole("limit", limit, least=1, most=PAGE_MAX)
        store = (await self._sessions.open()).store
        return await store.reads.weights(type, after, limit)

    async def set(self, type: str, key: str, weight: int, by: By) -> None:
        """Sets how many tasks a key starts in one turn. 1 is the weight of all other keys."""
        change = checked(type, key, weight)
        resources = await self._sessions.open()
        await self._types.find(resources.store, type)
        await resources.store.upkeep.set_weight(
            change, actor=by.actor, reason=by.reason, beside=by.beside
        )
        resources.bus.publish(FEED)
