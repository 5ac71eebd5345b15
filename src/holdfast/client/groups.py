"""The parts of a client: queues, dead letters, operations, nodes, locks, schedules, decisions, conflicts and
tokens. `scripts/client_fronts.py` writes their blocking forms.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from holdfast.client.admin_models import (
    ConflictView,
    DeadGroup,
    LockView,
    NodeView,
    OperationView,
    QueueView,
    ScheduleView,
    Settled,
    TokenView,
)
from holdfast.client.api import Api, given
from holdfast.client.models import (
    DecisionView,
    Json,
    TaskRow,
)

Action = Literal["replay", "discard", "abort", "pause", "resume", "reassign"]
Take = Literal["server", "client", "merged"]


class Group:
    """A part of a client."""

    def __init__(self, api: Api) -> None:
        self._api = api


class Queues(Group):
    """Queues by name."""

    async def list(self) -> list[QueueView]:
        return await self._api.all(QueueView, "queues")

    async def get(self, name: str) -> QueueView:
        return await self._api.get(QueueView, "queues", name)

    async def pause(self, name: str, *, reason: str = "") -> QueueView:
        """Starts no task of the queue until it is resumed."""
        return await self._api.send(
            QueueView, "POST", "queues", name, "pause", body={"reason": reason}
        )

    async def resume(self, name: str, *, reason: str = "") -> QueueView:
        return await self._api.send(
            QueueView, "POST", "queues", name, "resume", body={"reason": reason}
        )


class DeadLetters(Group):
    """Tasks that failed for good."""

    async def groups(self, *, limit: int = 50) -> list[DeadGroup]:
        """Dead letters by cause, the largest group first."""
        return await self._api.all(DeadGroup, "dead-letters", "groups", limit=limit)

    def list(self, q: str = "", *, limit: int | None = None) -> AsyncIterator[TaskRow]:
        return self._api.rows(TaskRow, "dead-letters", limit=limit, q=q)


class Operations(Group):
    """Changes of many tasks at once."""

    async def run(
        self,
        action: Action,
        *,
        q: str | None = None,
        ids: Sequence[str] | None = None,
        reason: str = "",
        dry_run: bool = False,
        expect_count: int | None = None,
    ) -> OperationView:
        """Changes the tasks of `ids`, or those that match `q`."""
        body = given(action=action, q=q, reason=reason, expect_count=expect_count)
        if ids is not None:
            body["ids"] = [*ids]
        if dry_run:
            body["dry_run"] = True
        return await self._api.send(OperationView, "POST", "operations", body=body)

    def list(self, *, limit: int | None = None) -> AsyncIterator[OperationView]:
        return self._api.rows(OperationView, "operations", limit=limit)

    async def get(self, operation_id: str) -> OperationView:
        return await self._api.get(OperationView, "operations", operation_id)

    async def stop(self, operation_id: str) -> OperationView:
        return await self._api.send(OperationView, "POST", "operations", operation_id, "stop")


class Nodes(Group):
    """Workers and plugins."""

    async def list(self) -> list[NodeView]:
        return await self._api.all(NodeView, "nodes")

    async def get(self, node_id: str) -> NodeView:
        return await self._api.get(NodeView, "nodes", node_id)

    async def cordon(self, node_id: str, *, reason: str = "") -> NodeView:
        """The node gets no new claims."""
        return await self._act(node_id, "cordon", reason)

    async def uncordon(self, node_id: str, *, reason: str = "") -> NodeView:
        return await self._act(node_id, "uncordon", reason)

    async def drain(self, node_id: str, *, reason: str = "") -> NodeView:
        """The node gets no new claims and ends what it runs."""
        return await self._act(node_id, "drain", reason)

    async def quarantine(self, node_id: str, *, reason: str = "") -> NodeView:
        return await self._act(node_id, "quarantine", reason)

    async def revoke(self, node_id: str, *, reason: str = "") -> NodeView:
        """Fences the node and ends its credential."""
        return await self._act(node_id, "revoke", reason)

    async def _act(self, node_id: str, act: str, reason: str) -> NodeView:
        return await self._api.send(
            NodeView, "POST", "nodes", node_id, act, body={"reason": reason}
        )


class LockViews(Group):
    """Named locks."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[LockView]:
        return self._api.rows(LockView, "locks", limit=limit)

    async def get(self, resource: str) -> LockView:
        return await self._api.get(LockView, "locks", resource)

    async def revoke(self, resource: str, *, reason: str = "") -> dict[str, Any]:
        """Takes the lock from its holder. Returns the entry of its audit."""
        return await self._api.send(
            dict[str, Any], "POST", "locks", resource, "revoke", body={"reason": reason}
        )


class Schedules(Group):
    """Tasks that are enqueued at set times."""

    async def list(self) -> list[ScheduleView]:
        return await self._api.all(ScheduleView, "schedules")

    async def get(self, name: str) -> ScheduleView:
        return await self._api.get(ScheduleView, "schedules", name)

    async def put(
        self,
        name: str,
        spec: str,
        type: str,
        payload: Json = None,
        *,
        timezone: str = "UTC",
        queue: str | None = None,
        priority: str | int | None = None,
        reason: str = "",
    ) -> ScheduleView:
        """Adds the schedule, or changes it."""
        body = given(spec=spec, type=type, timezone=timezone, queue=queue, priority=priority)
        body |= {"payload": payload, "reason": reason}
        return await self._api.send(ScheduleView, "PUT", "schedules", name, body=body)

    async def remove(self, name: str) -> ScheduleView:
        return await self._api.send(ScheduleView, "DELETE", "schedules", name)

    async def pause(self, name: str, *, reason: str = "") -> ScheduleView:
        body = {"reason": reason}
        return await self._api.send(ScheduleView, "POST", "schedules", name, "pause", body=body)

    async def resume(self, name: str, *, reason: str = "") -> ScheduleView:
        body = {"reason": reason}
        return await self._api.send(ScheduleView, "POST", "schedules", name, "resume", body=body)


class Decisions(Group):
    """Questions of tasks to people."""

    def list(
        self, q: str = "state:open", *, limit: int | None = None
    ) -> AsyncIterator[DecisionView]:
        return self._api.rows(DecisionView, "decisions", limit=limit, q=q)

    async def get(self, decision_id: str) -> DecisionView:
        return await self._api.get(DecisionView, "decisions", decision_id)

    async def decide(
        self,
        decision_id: str,
        choice: Json,
        *,
        data: Json = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> DecisionView:
        """Answers it. AlreadyDecided when another answer, or the deadline, was first."""
        body = given(data=data, expected_version=expected_version)
        body |= {"choice": choice, "reason": reason}
        return await self._api.send(DecisionView, "POST", "decisions", decision_id, body=body)


class Conflicts(Group):
    """Writes of nodes that the server could not join."""

    def list(self, q: str = "", *, limit: int | None = None) -> AsyncIterator[ConflictView]:
        return self._api.rows(ConflictView, "conflicts", limit=limit, q=q or None)

    async def get(self, conflict_id: str) -> ConflictView:
        return await self._api.get(ConflictView, "conflicts", conflict_id)

    async def settle(
        self,
        conflict_id: str,
        take: Take,
        *,
        merged: Json = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> Settled:
        """Ends the conflict with one of its sides, or with a third content."""
        body = given(merged=merged, expected_version=expected_version)
        body |= {"take": take, "reason": reason}
        return await self._api.send(Settled, "POST", "conflicts", conflict_id, "settle", body=body)


class Tokens(Group):
    """Credentials. Only an admin may read or change them."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[TokenView]:
        return self._api.rows(TokenView, "tokens", limit=limit)

    async def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        projects: Sequence[str] | None = None,
        scopes: Sequence[str] | None = None,
        expires_in_seconds: float | None = None,
        reason: str = "",
    ) -> TokenView:
        """The answer has the secret, once."""
        body = given(projects=projects, scopes=scopes, expires_in_seconds=expires_in_seconds)
        body |= {"name": name, "roles": roles, "reason": reason}
        return await self._api.send(TokenView, "POST", "tokens", body=body)

    async def create_join(
        self,
        *,
        project: str = "default",
        kind: Literal["node", "agent"] = "node",
        uses: int = 1,
        expires_in_seconds: float | None = None,
        reason: str = "",
    ) -> TokenView:
        """A token with which nodes register."""
        body = given(expires_in_seconds=expires_in_seconds)
        body |= {"project": project, "kind": kind, "uses": uses, "reason": reason}
        return await self._api.send(TokenView, "POST", "join-tokens", body=body)

    async def rotate(self, token_id: str) -> TokenView:
        """Gives the token another secret."""
        return await self._api.send(TokenView, "POST", "tokens", token_id, "rotate")

    async def revoke(self, token_id: str) -> TokenView:
        return await self._api.send(TokenView, "DELETE", "tokens", token_id)
