"""Channels of the live feed: their names, and who may subscribe.

Promises: a channel names one topic of `event_kinds.py`; the table below is the only rule of access; an object
of a foreign project is answered like one that does not exist. Never: reads a store. The gateway looks up the
project of the object and passes it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.access import (
    ALL_PROJECTS,
    Allowed,
    DenialReason,
    Denied,
    Principal,
    Verdict,
    judge,
)
from holdfast.core.check import check_id, shown
from holdfast.core.event_kinds import SYSTEM_ADMIN, SYSTEM_EVENTS
from holdfast.core.rights import ROLES_OF, Operation, Role
from holdfast.errors import InvalidInput


class ChannelKind(StrEnum):
    """What a channel is about."""

    TASK = "task"
    NODE = "node"
    JOB = "job"
    HOST = "host"
    QUEUE = "queue"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"


NEEDS: Final[dict[ChannelKind, Operation]] = {
    ChannelKind.TASK: Operation.EVENTS_READ,
    ChannelKind.PROJECT: Operation.EVENTS_READ,
    ChannelKind.QUEUE: Operation.QUEUES_READ,
    ChannelKind.NODE: Operation.NODES_READ,
    ChannelKind.JOB: Operation.JOBS_READ,
    ChannelKind.HOST: Operation.JOBS_READ,
    ChannelKind.USER: Operation.EVENTS_READ,
    ChannelKind.SYSTEM: Operation.EVENTS_READ,
}
"""The operation that a subscriber must be allowed to do."""
_ALIASES: Final = {"worker": ChannelKind.NODE}


class Channel(msgspec.Struct, frozen=True):
    """A parsed channel."""

    kind: ChannelKind
    name: str

    @property
    def topic(self) -> str:
        """`worker:ID` and `node:ID` are one topic."""
        return f"{self.kind}:{self.name}"


class ChannelObject(msgspec.Struct, frozen=True):
    """The object of a channel, as the store has it."""

    project: str
    """`all` for what all projects share."""
    topic: str
    """The topic by the store's id: a channel may name a task by its client id."""
    owner_node: str | None = None


def parse_channel(text: object) -> Channel:
    """The channel that a client names. InvalidInput for any other text."""
    if isinstance(text, str):
        prefix, colon, name = text.partition(":")
        kind = _ALIASES.get(prefix) or (ChannelKind(prefix) if prefix in _KINDS else None)
        if kind is ChannelKind.SYSTEM and text != SYSTEM_EVENTS:
            kind = None
        if kind is not None and colon:
            return Channel(kind, check_id("channel", name))
    raise InvalidInput(
        f"channel {shown(text)} is not a channel: use task:ID, node:ID, worker:ID, job:ID, host:ID, "
        f"queue:NAME, project:ID, user:NAME or {SYSTEM_EVENTS}"
    )


_KINDS: Final = frozenset(kind.value for kind in ChannelKind)


def may_subscribe(principal: Principal, channel: Channel, found: ChannelObject) -> Verdict:
    """Whether the principal may read the channel of this object."""
    if channel.kind is ChannelKind.USER and not _is_person(principal, channel.name):
        return _denied(principal, channel, DenialReason.NOT_OWN)
    is_shared = channel.kind in _SHARED
    project = next(iter(principal.projects), found.project) if is_shared else found.project
    owner = channel.name if channel.kind is ChannelKind.NODE else found.owner_node
    return judge(principal, NEEDS[channel.kind], project=project, owner_node=owner)


_SHARED: Final = frozenset({ChannelKind.QUEUE, ChannelKind.USER})
"""Channels of no project: a principal of any project may read them. Their events are filtered."""


def topics_for(principal: Principal, found: ChannelObject) -> frozenset[str]:
    """The topics that a subscription receives. Events about credentials are for administrators."""
    if found.topic == SYSTEM_EVENTS and _is_admin(principal):
        return frozenset({SYSTEM_EVENTS, SYSTEM_ADMIN})
    return frozenset({found.topic})


def _is_person(principal: Principal, name: str) -> bool:
    return principal.name == f"user:{name}" or _is_admin(principal)


def _is_admin(principal: Principal) -> bool:
    allowed = judge(principal, Operation.TOKENS_MANAGE, project=ALL_PROJECTS)
    is_admin = Role.ADMIN in principal.roles & ROLES_OF[principal.kind]
    return is_admin and isinstance(allowed, Allowed)


def _denied(principal: Principal, channel: Channel, reason: DenialReason) -> Denied:
    return Denied(reason, f"{principal.name} may not read {channel.topic}")
