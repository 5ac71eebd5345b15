"""Offers that an agent refuses for good, whatever its state.

Promises: what is refused here ends the execution; what may pass later is judged by `runs.py`.
"""

from __future__ import annotations

from holdfast.agent import builtins
from holdfast.agent.run import result_of
from holdfast.agent.settings import AgentSettings
from holdfast.core.fleet.agents.wire import AgentOffer, AgentResult


def never_runs(offer: AgentOffer, settings: AgentSettings) -> AgentResult | None:
    """Why this agent never runs such an offer. None: it may."""
    if not settings.allows(offer.command_type, offer.kind):
        allow = ",".join((*settings.allow, offer.command_type))
        reason = (
            f"the agent does not allow command type '{offer.command_type}': if it should, start the agent "
            f"with --allow '{allow}'"
        )
        return result_of(offer, "refused", reason)
    if offer.kind == "builtin" and (not offer.argv or offer.argv[0] not in builtins.BUILTINS):
        return result_of(offer, "refused", "this version of the agent does not know the builtin")
    if offer.kind == "builtin" and offer.argv[0] == builtins.UPDATE:
        if not settings.update_argv:
            return result_of(offer, "refused", "the agent has no command for updates")
    elif offer.kind not in ("noop", "builtin", "argv", "shell") or (
        offer.kind in ("argv", "shell") and not offer.argv
    ):
        return result_of(offer, "refused", f"the agent cannot run kind '{offer.kind}'")
    return None
