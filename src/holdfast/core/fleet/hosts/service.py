"""Whether a host would take up an execution now, and the one word that every face shows for a host.

`store.conditions` has the rule of `HostService` over rows. Never: I/O, clocks.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.fleet.model import Agent, Host, HostState
from holdfast.core.node_identity import SHUT_OUT, NodeState


class HostService(StrEnum):
    """Whether a host would take up an execution now."""

    READY = "ready"
    CLOSED = "closed"
    """It takes nothing new: it is cordoned, or its agent said so with its newest sync."""
    SILENT = "silent"
    """It does not answer, or was removed."""


class HostStanding(StrEnum):
    """Where a host stands, in one word."""

    READY = "ready"
    """It takes the next command at once."""
    BUSY = "busy"
    """It answers, and an execution has its slot."""
    CLOSED = "closed"
    """It answers and takes nothing new: its agent drains, updates or is full, or its node was taken out of
    service."""
    SILENT = "silent"
    """It does not answer. Commands wait for it."""
    NO_AGENT = "no_agent"
    """No agent has enrolled for it yet."""
    SHUT_OUT = "shut_out"
    """Its agent is quarantined or revoked: an operator has to admit it."""
    CORDONED = "cordoned"
    """An operator has taken it out of service."""
    GONE = "gone"
    """It was removed."""


def standing_of(
    host: Host,
    agent: Agent | None,
    node_state: NodeState | None,
    *,
    is_pushed: bool,
    is_busy: bool,
    since: float,
) -> HostStanding:
    """What keeps a host from the next command, the strongest reason first. `is_pushed`: a process of the
    server reaches it, and the host has no agent. `since`: what was heard or tried before is old."""
    if host.state is not HostState.ACTIVE:
        return HostStanding.GONE if host.state is HostState.GONE else HostStanding.CORDONED
    if is_pushed:
        has_failed = host.unreachable_at is not None and host.unreachable_at >= since
        is_closed = False
    elif agent is None:
        return HostStanding.NO_AGENT
    else:
        has_failed, is_closed = agent.seen_at < since, agent.is_closed
    if node_state in SHUT_OUT:
        return HostStanding.SHUT_OUT
    if has_failed:
        return HostStanding.SILENT
    if is_closed or node_state not in (None, NodeState.LIVE):
        return HostStanding.CLOSED
    return HostStanding.BUSY if is_busy else HostStanding.READY
