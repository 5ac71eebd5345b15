"""Nodes that push and pull, for tests of the exchange."""

from __future__ import annotations

from typing import Any

from holdfast.core.exchange.item import Item
from holdfast.core.speaking import Voice
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.exchange.exchange import Exchange
from holdfast.sync.exchange.push_state import ItemResult
from holdfast.sync.nodes.claims import TaskClaims
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.rows import RegisteredNode

PROJECT = "forge"


class Plugin:
    """A registered node."""

    def __init__(self, store: Store, name: str, project: str = PROJECT) -> None:
        self.store = store
        self.name = name
        self.project = project
        self.exchange = Exchange(store)
        self.claims = TaskClaims(store)
        self.nodes = Nodes(store)

    async def start(self, **fields: Any) -> Plugin:
        request = {"node": self.name, "project": self.project, **fields}
        await self.nodes.register(Registration(**request), By("user:admin"))
        return self

    @property
    def voice(self) -> Voice:
        return Voice(self.name)

    async def row(self) -> RegisteredNode:
        return await self.nodes.get(self.name)

    async def push(self, *items: dict[str, Any], **fields: Any) -> list[ItemResult]:
        answer = await self.exchange.push(
            fields.pop("voice", self.voice),
            self.project,
            [Item(**item) for item in items],
            **fields,
        )
        return answer.pushed.results

    async def one(self, **item: Any) -> ItemResult:
        [result] = await self.push(item)
        return result

    async def create(self, name: str = "task-1", **fields: Any) -> ItemResult:
        result = await self.one(id=name, expected_version=0, **fields)
        assert result.success, result
        return result

    async def id_of(self, name: str) -> str:
        [task] = (await self.exchange.pull(await self.row(), self.project, names=[name])).tasks
        return task.task_id

    async def claim(self, name: str = "task-1", **fields: Any) -> Any:
        return await self.claims.claim(
            fields.pop("voice", self.voice), await self.id_of(name), **fields
        )
