"""The parts of a client for hosts, groups of hosts and blocks.
`scripts/client_fronts.py` writes their blocking forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from holdfast.client.api import Api, Rows, decoded, given
from holdfast.client.fleet_models import (
    BlockRow,
    BlockView,
    GroupView,
    HostImport,
    HostRow,
    HostSelection,
    HostView,
)
from holdfast.client.groups import Group
from holdfast.client.models import Json

HostState = Literal["active", "cordoned"]
HostDriver = Literal["agent", "ssh", "simulated"]
InventoryFormat = Literal["jsonl", "text", "ansible", "ansible-json"]
Effect = Literal["refuse", "hold"]
OnRunning = Literal["finish", "pause", "abort"]
OnLift = Literal["requeue", "drop", "reapprove"]


class OfProject(Group):
    """A part whose calls are about one project: that of the call, else that of the client."""

    def __init__(self, api: Api, project: str | None = None) -> None:
        super().__init__(api)
        self._project = project

    def _of(self, project: str | None) -> str | None:
        return self._project if project is None else project


class Hosts(OfProject):
    """The machines of the fleet."""

    def list(
        self,
        *,
        selector: str | None = None,
        q: str | None = None,
        state: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Rows[HostRow]:
        """The hosts by name. `q`: text that the names contain. A selector stands alone."""
        query = {"selector": selector, "q": q, "state": state, "project": self._of(project)}
        return self._api.rows(HostRow, "hosts", limit=limit, **query)

    async def get(self, host: str, *, project: str | None = None) -> HostView:
        """One host, by its name or id, with its facts, groups and blocks."""
        return await self._api.get(HostView, "hosts", host, project=self._of(project))

    async def select(self, selector: str, *, project: str | None = None) -> HostSelection:
        """The hosts that a selector stands for now."""
        query = {"selector": selector, "project": self._of(project)}
        return await self._api.get(HostSelection, "hosts", "select", **query)

    async def add(
        self,
        name: str,
        *,
        driver: HostDriver = "agent",
        address: str = "",
        labels: Mapping[str, str] | None = None,
        project: str | None = None,
        reason: str = "",
    ) -> HostRow:
        """Adds a host."""
        body = given(project=self._of(project), labels=labels)
        body |= {"name": name, "driver": driver, "address": address, "reason": reason}
        return await self._api.send(HostRow, "POST", "hosts", body=body)

    async def edit(
        self,
        host: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        address: str | None = None,
        driver: HostDriver | None = None,
        state: HostState | None = None,
        project: str | None = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> HostRow:
        """Changes fields of a host. A label of None is removed."""
        body = given(
            labels=labels,
            address=address,
            driver=driver,
            state=state,
            expected_version=expected_version,
        )
        body["reason"] = reason
        query = given(project=self._of(project))
        answer = await self._api.call("PATCH", "hosts", host, body=body, query=query)
        return decoded(answer.body, HostRow)

    async def remove(self, host: str, *, project: str | None = None, reason: str = "") -> HostRow:
        """The host gets no executions any more. Those that run on it go on."""
        query = given(project=self._of(project), reason=reason)
        answer = await self._api.call("DELETE", "hosts", host, query=query)
        return decoded(answer.body, HostRow)

    async def import_hosts(
        self,
        hosts: Sequence[Mapping[str, Any]] | None = None,
        *,
        text: str | None = None,
        format: InventoryFormat = "jsonl",
        groups: bool = False,
        project: str | None = None,
        reason: str = "",
    ) -> HostImport:
        """Adds and changes many hosts: entries, or a text. A wrong one is named in the answer."""
        body = given(project=self._of(project), hosts=hosts, text=text)
        body |= {"reason": reason}
        if text is not None:
            body |= {"format": format, "groups": groups}
        return await self._api.send(HostImport, "POST", "hosts", "import", body=body)


class HostGroups(OfProject):
    """Named selectors of hosts."""

    def list(self, *, project: str | None = None, limit: int | None = None) -> Rows[GroupView]:
        """The groups by name."""
        return self._api.rows(GroupView, "groups", limit=limit, project=self._of(project))

    async def get(self, name: str, *, project: str | None = None) -> GroupView:
        """One group."""
        return await self._api.get(GroupView, "groups", name, project=self._of(project))

    async def add(
        self, name: str, selector: str, *, project: str | None = None, reason: str = ""
    ) -> GroupView:
        """Adds a group."""
        body = given(project=self._of(project))
        body |= {"name": name, "selector": selector, "reason": reason}
        return await self._api.send(GroupView, "POST", "groups", body=body)

    async def edit(
        self,
        name: str,
        selector: str,
        *,
        project: str | None = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> GroupView:
        """Gives a group another selector."""
        body = given(expected_version=expected_version)
        body |= {"selector": selector, "reason": reason}
        query = given(project=self._of(project))
        answer = await self._api.call("PATCH", "groups", name, body=body, query=query)
        return decoded(answer.body, GroupView)

    async def remove(self, name: str, *, project: str | None = None, reason: str = "") -> GroupView:
        """Removes a group that nothing uses. Returns it as it was."""
        query = given(project=self._of(project), reason=reason)
        answer = await self._api.call("DELETE", "groups", name, query=query)
        return decoded(answer.body, GroupView)


class Blocks(OfProject):
    """What keeps commands off hosts."""

    def list(
        self,
        *,
        host: str | None = None,
        lifted: bool = False,
        project: str | None = None,
        limit: int | None = None,
    ) -> Rows[BlockRow]:
        """The blocks by time of creation. `host`: those that count for a host now. `lifted`: the
        latest that are over."""
        query = {"host": host, "lifted": lifted or None, "project": self._of(project)}
        return self._api.rows(BlockRow, "blocks", limit=limit, **query)

    async def get(self, block_id: str) -> BlockView:
        """One block with the hosts that it is about."""
        return await self._api.get(BlockView, "blocks", block_id)

    async def add(
        self,
        reason: str,
        *,
        host: str | None = None,
        selector: str | None = None,
        command_type: str = "*",
        owner: str = "",
        effect: Effect = "refuse",
        on_running: OnRunning = "finish",
        on_lift: OnLift = "requeue",
        window: Mapping[str, Json] | None = None,
        expires_at: str | None = None,
        expires_in_seconds: float | None = None,
        project: str | None = None,
    ) -> BlockRow:
        """Adds a block for a host, or for the hosts of a selector."""
        body = given(
            host=host,
            selector=selector,
            window=window,
            expires_at=expires_at,
            expires_in_seconds=expires_in_seconds,
            project=self._of(project),
        )
        body |= {"reason": reason, "command_type": command_type, "owner": owner}
        body |= {"effect": effect, "on_running": on_running, "on_lift": on_lift}
        return await self._api.send(BlockRow, "POST", "blocks", body=body)

    async def edit(
        self,
        block_id: str,
        *,
        reason: str | None = None,
        command_type: str | None = None,
        owner: str | None = None,
        effect: Effect | None = None,
        on_running: OnRunning | None = None,
        on_lift: OnLift | None = None,
        window: Mapping[str, Json] | UnsetType | None = UNSET,
        expires_in_seconds: float | UnsetType | None = UNSET,
        expected_version: int | None = None,
    ) -> BlockRow:
        """Changes fields of a block. None removes its window or its end."""
        body = given(
            reason=reason,
            command_type=command_type,
            owner=owner,
            effect=effect,
            on_running=on_running,
            on_lift=on_lift,
            expected_version=expected_version,
        )
        for name, value in (("window", window), ("expires_in_seconds", expires_in_seconds)):
            if value is not UNSET:
                body[name] = value
        return await self._api.send(BlockRow, "PATCH", "blocks", block_id, body=body)

    async def lift(self, block_id: str, *, reason: str = "") -> BlockRow:
        """Ends a block. What it held goes on as its `on_lift` says."""
        answer = await self._api.call("DELETE", "blocks", block_id, query={"reason": reason})
        return decoded(answer.body, BlockRow)
