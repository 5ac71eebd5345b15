"""Which agents may speak.

Promises: of the processes that use the identity of a host, the one that has started last. Never: I/O, clocks.
"""

from __future__ import annotations

from holdfast.core.fleet.agents.facts import AgentStanding
from holdfast.core.fleet.agents.wire import AgentSync
from holdfast.core.fleet.model import HostState
from holdfast.core.node_identity import SHUT_OUT


def fenced(standing: AgentStanding, message: AgentSync) -> str | None:
    """Why the agent may not speak. None: it may."""
    if standing.node_state in SHUT_OUT:
        return f"the agent of host '{standing.host}' is {standing.node_state}"
    if standing.host_state is HostState.GONE and standing.slot.claim_id is None:
        return f"host '{standing.host}' was removed"
    if message.incarnation != standing.incarnation:
        return (
            f"incarnation {message.incarnation} of the agent of host '{standing.host}' is not the current "
            f"one ({standing.incarnation}): start again"
        )
    return None
