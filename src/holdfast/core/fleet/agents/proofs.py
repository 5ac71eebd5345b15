"""What the result of a run proves about its token.

Promises: in doubt nothing is proved, so a slot stays taken. Never: I/O, clocks.
"""

from __future__ import annotations

from holdfast.core.fleet.agents.facts import Run
from holdfast.core.fleet.agents.wire import AgentResult
from holdfast.core.fleet.model import Agent
from holdfast.core.start_once import RunPhase, phase_of


def has_no_go(run: Run, token: int) -> bool:
    """Whether the token never got a go."""
    return run.execution.token == token and run.execution.go_at is None


def is_of_copy(run: Run, result: AgentResult) -> bool:
    """Whether a copy of the journal speaks, which another process goes on with: a host or container that was
    cloned. The go was for an accept, which the agent has in its journal before it sends it."""
    is_after_accept = not has_no_go(run, result.token) and not run.job.command.is_idempotent
    return result.is_unheard and is_after_accept


def proves_no_start(agent: Agent, run: Run, result: AgentResult) -> bool:
    """Without a go nothing has started. A journal knows the tokens since it was begun; a run that the agent
    called started did start."""
    if has_no_go(run, result.token):
        return True
    if result.token <= agent.journal_token or is_of_copy(run, result):
        return False
    return not (run.holds(result.token) and phase_of(run.task) is RunPhase.STARTED)


def proves_end(agent: Agent, run: Run, result: AgentResult) -> bool:
    """Whether the token surely does not run any more."""
    if has_no_go(run, result.token):
        return True
    if result.token > agent.journal_token and not is_of_copy(run, result):
        return True
    return result.state == "exited" or result.token <= agent.boot_token
