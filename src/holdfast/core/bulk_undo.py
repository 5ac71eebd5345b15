"""The undo of a bulk run: which runs have one, and which tasks it changes.

A pause has a true inverse: a resume puts a task back as it was, apart from a runner that has lost it. The
other actions have none.
Promises: an undo changes only tasks that the run still holds, not those that were paused before it, by
others, or again after a resume, though by the same actor for the same reason: a hold names its run.
Never: I/O, clocks.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.task import TERMINAL, Task
from holdfast.core.transition import hold_of
from holdfast.errors import IllegalTransition

PAUSE: Final = "pause"
INSTEAD: Final = {
    "replay": "its tasks may have run: abort those that wait with `holdfast op run abort`",
    "discard": "its tasks have ended for good: enqueue them again with `holdfast task copy`",
    "abort": "its tasks have ended for good: enqueue them again with `holdfast task copy`",
    "resume": "its tasks may have started: pause them with `holdfast op run pause`",
    "reassign": "it does not know where its tasks were: reassign them with `holdfast op run reassign`",
}
"""Why the other actions have no undo, and what to use."""


class Undo(msgspec.Struct, frozen=True):
    """What an undo takes back: the hold of a run."""

    run_id: str
    held_by: str

    def covers(self, task: Task) -> bool:
        """Whether the task still has the hold of the run."""
        return task.held_by == self.held_by and task.status not in TERMINAL


def undo_of(run_id: str, action: str, actor: str, reason: str) -> Undo:
    """The undo of a run that has ended or was stopped. IllegalTransition if its action has none."""
    if action != PAUSE:
        raise IllegalTransition(f"operation {run_id} cannot be undone: {INSTEAD[action]}")
    return Undo(run_id, hold_of(actor, reason, run_id))
