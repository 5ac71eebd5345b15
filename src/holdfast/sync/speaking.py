"""The sender of a request of a node, judged in the transaction of what it asks for.

Promises: the row of the node is locked until the commit, so no registration and no change of its state comes
between the judgement and the effect. The row is locked before tasks, as a registration does (lock order).
Requests of one node are one after the other, but not its messages, which only keep registrations and changes
of its state away (`worker.messages`).
"""

from __future__ import annotations

from typing import assert_never

from holdfast.core import speaking as rules
from holdfast.core.node_identity import NodeState
from holdfast.core.speaking import NodeAct, NodeStanding, Silence, Voice
from holdfast.store.script import Guard, Script, call
from holdfast.sync.errors import NodeFenced, NotClaimable
from holdfast.sync.rows import RegisteredNode, own, unknown_node

__all__ = ["Guard", "check_voice", "heard"]
NODE_STATE = "node_state"
"""The reason of a claim that the state of the node does not allow."""


def heard(voice: Voice, act: NodeAct = NodeAct.SPEAK) -> Script[RegisteredNode]:
    """The node that speaks, locked. UnknownNode, NodeFenced or NotClaimable if it may not do this."""
    rows = yield call(own("hear_node"), id=voice.node)
    row = RegisteredNode(*rows[0]) if rows else None
    if row is None or row.registered_at is None:
        raise unknown_node(voice.node)
    check_voice(row, voice, act)
    return row


def check_voice(row: RegisteredNode, voice: Voice, act: NodeAct = NodeAct.SPEAK) -> None:
    """NodeFenced or NotClaimable if the node may not do this."""
    silence = rules.judge(voice, NodeStanding(NodeState(row.state), row.incarnation), act)
    match silence:
        case None:
            return
        case Silence.SHUT_OUT:
            raise NodeFenced(f"node '{row.id}' is {row.state}: an operator has to admit it again")
        case Silence.ENDED | Silence.UNKNOWN:
            has = "has ended" if silence is Silence.ENDED else "was never given out"
            raise NodeFenced(
                f"incarnation {voice.incarnation} of node '{row.id}' {has} (now {row.incarnation}): "
                "register again"
            )
        case Silence.NO_TASKS:
            raise NotClaimable(f"node '{row.id}' is {row.state}: it gets no tasks", NODE_STATE)
        case _:
            assert_never(silence)
