"""The door of this process, as an agent in it sees it."""

from __future__ import annotations

from holdfast.core.fleet.agents.wire import (
    WAIT_SECONDS_MAX,
    AgentStart,
    AgentStarted,
    AgentSync,
    AgentSyncAnswer,
)
from holdfast.fleet.agents.door import AgentDoor
from holdfast.queue.by import By


class DoorTransport:
    """See `holdfast.agent.ports.Transport`."""

    def __init__(self, door: AgentDoor, host_id: str, actor: str) -> None:
        self._door = door
        self._host_id = host_id
        self._by = By(actor=actor)

    async def start(self, start: AgentStart) -> AgentStarted:
        return await self._door.agents.start(self._host_id, start, self._by)

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        return await self._answer(sync, WAIT_SECONDS_MAX)

    async def _answer(self, sync: AgentSync, wait_max: float) -> AgentSyncAnswer:
        return await self._door.sync(self._host_id, sync, wait_max=wait_max)
