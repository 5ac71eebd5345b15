"""Who speaks for a node: the one rule about the sender of every request of a node.

A request names a node and, if it knows it, the incarnation that sent it. The row of the node has the current
incarnation and the state that operators gave it.
Promises: an older incarnation changes nothing; a node that is shut out changes nothing; a node that gets no
tasks may end the runs that it has. Every transport asks `judge` with the row that its transaction has locked.
Never: reads a store or a credential.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.core.node_identity import SHUT_OUT, NodeState, may_claim


class Voice(msgspec.Struct, frozen=True):
    """The sender that a request names."""

    node: str
    incarnation: int | None = None
    """None: the request names none. It then counts as one of the current incarnation."""


class NodeStanding(msgspec.Struct, frozen=True):
    """What the store has of the node."""

    state: NodeState
    incarnation: int


class NodeAct(StrEnum):
    """What a request of a node asks for."""

    SPEAK = "speak"
    """Anything but new tasks."""
    CLAIM = "claim"


class Silence(StrEnum):
    """Why a request of a node is refused."""

    SHUT_OUT = "shut_out"
    ENDED = "ended"
    """A newer incarnation exists."""
    UNKNOWN = "unknown"
    """The store has not given out this incarnation."""
    NO_TASKS = "no_tasks"


def judge(voice: Voice, standing: NodeStanding, act: NodeAct = NodeAct.SPEAK) -> Silence | None:
    """Why the node may not do this. None: it may."""
    if standing.state in SHUT_OUT:
        return Silence.SHUT_OUT
    named = voice.incarnation
    if named is not None and named < standing.incarnation:
        return Silence.ENDED
    if named is not None and named > standing.incarnation:
        return Silence.UNKNOWN
    if act is NodeAct.CLAIM and not may_claim(standing.state):
        return Silence.NO_TASKS
    return None
