"""The JSON objects of the fleet, as in `models`: hosts and groups."""

from __future__ import annotations

import msgspec

from holdfast.client.models import Json


class HostAgentView(msgspec.Struct, frozen=True, kw_only=True):
    """The agent of a host, as it was last heard of."""

    node_id: str
    live: bool
    version: str
    incarnation: int
    seen_at: str | None
    seen_seconds_ago: float
    capabilities: Json


class HostSlotView(msgspec.Struct, frozen=True, kw_only=True):
    """The execution that holds the slot of a host."""

    execution_id: str
    token: int
    since: str | None


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host in a list."""

    id: str
    name: str
    project: str
    driver: str
    address: str
    labels: dict[str, str]
    state: str
    agent: HostAgentView | None
    slot: HostSlotView | None
    created_at: str | None
    updated_at: str | None
    version: int


class HostView(HostRow, frozen=True, kw_only=True):
    """A host with its facts, its groups and the blocks that count for it."""

    groups: list[str]
    facts: dict[str, Json]
    blocks: list[str] = []


class HostSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that a selector stands for."""

    selector: str
    count: int
    folded: str
    hosts: list[str]


class HostImport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an import."""

    added: int
    changed: int
    unchanged: int
    failed: int
    errors: list[dict[str, Json]]
    """The first of the entries that were not imported."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A named selector."""

    name: str
    project: str
    selector: str
    created_at: str | None
    version: int
