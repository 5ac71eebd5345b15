"""The JSON objects of the fleet, as in `models`: hosts, groups and blocks. `job_models` has those of jobs."""

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
    standing: str | None
    """In one word: `ready`, `busy`, `closed` (it takes nothing new), `silent`, `no_agent`, `shut_out`,
    `cordoned` or `gone`. None in the answer to a change."""
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
    """The first of the entries that were not imported: `nth` and `name` of an entry, or `line` of a text."""
    groups: list[str] = []
    """The groups of the text that were added or changed."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A named selector."""

    name: str
    project: str
    selector: str
    created_at: str | None
    version: int


class BlockRow(msgspec.Struct, frozen=True, kw_only=True):
    """A block in a list. Either `host` or `selector` says what it is about."""

    id: str
    project: str
    host: str | None
    host_id: str | None
    selector: str | None
    command_type: str
    reason: str
    owner: str
    effect: str
    on_running: str
    on_lift: str
    window: dict[str, Json] | None
    expires_at: str | None
    remaining_seconds: float | None
    """Until it ends by itself."""
    active: bool
    """Whether it counts now: it is not over, and its window is open."""
    until: str | None
    """When it stops to count by itself, if it counts now."""
    next_windows: list[str]
    """When its next windows begin."""
    warnings: list[str]
    """Why it may not do what was meant, e.g. that no command type matches."""
    lifted_at: str | None
    lifted_by: str
    created_at: str | None
    version: int


class BlockView(BlockRow, frozen=True, kw_only=True):
    """A block with the hosts that it is about."""

    affects: int
    folded: str
