"""What a waiting task waits at: its gate.

The gate is the first reason that keeps a task out of the line: a hold, a decision, an assignment to a node
or the preference for one, then a full limit. A queued task without a gate is ready. Names that start with
`!` are reasons of this module; every other gate is the name of a limit, and a claim sets it
(`store/scripts/limits.py`).
Never: I/O.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core.event import PAUSED, RUN
from holdfast.core.task import Status, Task

MARK: Final = "!"
"""The first character of gates that are not limits. Names of types and limits do not start with it."""
HELD: Final = "!held"
NODE: Final = "!node:"
PREFERENCE: Final = "!prefers:"
NODE_ACTOR: Final = "node:"
"""How the name of an actor begins that is a node."""
BLOCK_ACTOR: Final = "block:"
"""How the name of an actor begins that is a block of the fleet. Its id follows."""
DECISION: Final = "!decision:"


def of_node(node: str) -> str:
    """The gate of tasks that only this node may claim."""
    return NODE + node


def of_preference(node: str) -> str:
    """The gate of tasks that this node gets first, as long as it is live."""
    return PREFERENCE + node


def of_reserved(node: str) -> list[str]:
    """The gates of tasks that are reserved for this node."""
    return [of_node(node), of_preference(node)]


def preferred_node(gate: str | None) -> str | None:
    """The node that a task at this gate prefers."""
    if gate is None or not gate.startswith(PREFERENCE):
        return None
    return gate.removeprefix(PREFERENCE)


def without_preference(task: Task) -> Task:
    """The task as it leaves the gate of the node that it prefers. An assignment by an operator stays."""
    if preferred_node(task.gate) is None:
        return task
    return replace(task, assigned_to=None, assigned_until=None)


def of_decision(decision_id: str) -> str:
    """The gate of a paused task that waits for this decision."""
    return DECISION + decision_id


def is_limit(gate: str | None) -> bool:
    """Whether the task is parked at a limit."""
    return gate is not None and not gate.startswith(MARK)


def is_held(task: Task) -> bool:
    """Whether an operator or a node holds a task that has not ended."""
    return task.held_by is not None and task.status in _WAITING


def desired(task: Task) -> str:
    """`paused` for a task that a hold, a pause or a decision keeps from running, else `run`."""
    return PAUSED if task.status is Status.PAUSED or is_held(task) else RUN


def is_of_node(held_by: str | None) -> bool:
    """Whether a node holds the task, not an operator."""
    return held_by is not None and held_by.startswith(NODE_ACTOR)


def is_of_block(held_by: str | None) -> bool:
    """Whether a block holds the task, not an operator."""
    return held_by is not None and held_by.startswith(BLOCK_ACTOR)


def yields(task: Task, actor: str) -> bool:
    """Whether the hold of the task gives way to a hold by this actor. A node lifts its own hold and a block
    ends by itself, so the hold of an operator takes their place."""
    if is_of_block(task.held_by):
        return not actor.startswith((NODE_ACTOR, BLOCK_ACTOR))
    return is_of_node(task.held_by) and not actor.startswith(NODE_ACTOR)


def decision_of(task: Task) -> str | None:
    """The id of the decision that a paused task waits for."""
    gate = task.gate
    return gate.removeprefix(DECISION) if gate is not None and gate.startswith(DECISION) else None


def is_assigned(task: Task, now: float) -> bool:
    """Whether only the node of `assigned_to` may claim the task."""
    return task.assigned_to is not None and (
        task.assigned_until is None or task.assigned_until > now
    )


def gate_of(task: Task, now: float) -> str | None:
    """The gate of a task that is, or becomes, queued. None: it is ready."""
    if task.held_by is not None:
        return HELD
    if task.assigned_to is not None and is_assigned(task, now):
        return of_node(task.assigned_to)
    return None


def at_gate(task: Task, now: float) -> Task:
    """The task, which is or becomes queued, at the gate that applies. An assignment that has ended leaves it:
    a ready task has none, so a claim need not look."""
    gate = gate_of(task, now)
    if gate is None and task.assigned_until is not None and task.assigned_until <= now:
        return replace(task, gate=None, assigned_to=None, assigned_until=None)
    return task if gate == task.gate else replace(task, gate=gate)


_WAITING: Final = frozenset({Status.BLOCKED, Status.QUEUED, Status.PAUSED})
