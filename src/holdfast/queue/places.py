"""What surrounds tasks: queues with their pauses, and the nodes that run them."""

from __future__ import annotations

import msgspec

from holdfast.core.check import check_flag
from holdfast.queue.nodes import Node, live_nodes, nodes_of
from holdfast.queue.observe import Observe
from holdfast.store.reads import QueuePause


class QueueView(msgspec.Struct, frozen=True):
    """One queue: its tasks by status, and who paused it."""

    name: str
    counts: dict[str, int]
    paused_at: float | None = None
    paused_by: str | None = None
    reason: str | None = None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None


class Places(Observe):
    """The part of a queue that lists what is not a task."""

    async def get_queues(self) -> list[QueueView]:
        """Every queue that has tasks, types or a pause, by name."""
        backend = await self._open()
        by_queue = (await self.get_stats()).by_queue
        types = await backend.store.reads.types()
        pauses = {pause.name: pause for pause in await backend.store.reads.queues()}
        names = sorted({*by_queue, *pauses, *(row.queue for row in types)})
        none = QueuePause("", None, None, None)
        return [
            QueueView(name, by_queue.get(name, {}), pause.paused_at, pause.paused_by, pause.reason)
            for name in names
            for pause in (pauses.get(name, none),)
        ]

    async def get_nodes(self, *, live: bool = True) -> list[Node]:
        """The processes that run tasks; with `live` false also those not heard of lately."""
        check_flag("live", live)
        backend = await self._open()
        return await (live_nodes(backend) if live else nodes_of(backend))
