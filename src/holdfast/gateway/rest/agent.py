"""The table of `/agent/v1`: what agents ask."""

from __future__ import annotations

from typing import Final

from holdfast.core.fleet.agents.wire import SYNC_BYTES_MAX, AgentEnrol, AgentStart, AgentSync
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations.fleet import agents
from holdfast.gateway.rest.route import Route

PREFIX: Final = "/agent/v1"
ROUTES: Final = (
    Route(
        "POST",
        "/enrol",
        agents.enrol,
        "Make the agent of a host",
        body=AgentEnrol,
        operation=O.AGENTS_ENROL,
        is_entry=True,
    ),
    Route(
        "POST",
        "/start",
        agents.start,
        "Begin a new incarnation of an agent",
        body=AgentStart,
        operation=O.AGENTS_SYNC,
    ),
    Route(
        "POST",
        "/sync",
        agents.sync,
        "Report, and get what is to do",
        body=AgentSync,
        operation=O.AGENTS_SYNC,
        body_bytes=SYNC_BYTES_MAX,
    ),
)
