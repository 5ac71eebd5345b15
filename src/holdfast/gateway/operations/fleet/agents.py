"""Operations of agents: enrol, start, sync.

Promises: an agent speaks for the host of its credential and for no other. A sync is held until there is
something to say; a gateway that stops answers it. A credential that ends meanwhile gets no answer.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from holdfast.core.errors import Forbidden
from holdfast.core.fleet.agents.wire import AgentEnrol, AgentStart, AgentSync
from holdfast.core.rights import Operation, PrincipalKind
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue.by import By

O: Final = Operation  # noqa: E741


async def enrol(call: Call, body: AgentEnrol) -> Answer:
    """Makes the agent of a host, and the host if there is none of its name."""
    project = call.home
    allowed = call.authorise(O.AGENTS_ENROL, project=project)
    if call.principal.kind is not PrincipalKind.JOIN or call.token_id is None:
        raise Forbidden("an agent enrols with a join token: make one with `holdfast token create`")
    by = call.by(O.AGENTS_ENROL, project=project, subject=f"host:{body.host}", actor=allowed.actor)
    enrolled = await call.services.agents.agents.enrol(
        project, body, by, join_token_id=call.token_id
    )
    call.services.wake()
    return Answer(enrolled, secret=True)


async def start(call: Call, body: AgentStart) -> Answer:
    """Begins a new incarnation of the agent. Earlier ones are fenced."""
    host_id = speaking_for(call)
    started = await call.services.agents.agents.start(host_id, body, By(call.principal.name))
    call.services.wake()
    return Answer(started)


async def sync(call: Call, body: AgentSync) -> Answer:
    """Takes what the agent reports, and answers what it has to do."""
    host_id, door = speaking_for(call), call.services.agents
    watching = call.services.agent_credentials.watching
    with watching(call.digest, partial(door.end_poll, host_id)) as credential:
        answer = await door.sync(host_id, body, is_ended=lambda: credential.is_lost)
        credential.check()
    return Answer(answer)


def speaking_for(call: Call) -> str:
    """The host of the credential. Forbidden for a credential that is not an agent's."""
    host_id = call.principal.node
    call.authorise(O.AGENTS_SYNC, project=call.home, owner_node=host_id)
    if host_id is None:
        raise Forbidden("this credential is not of an agent")
    return host_id
