"""Laws about interventions and decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from holdfast.core.event import Event
from holdfast.core.gate import decision_of
from holdfast.sim.outcome import Outcome

ENDS: Final = ("intervention.applied", "intervention.refused", "intervention.expired")
ANSWERS: Final = ("decision.decided", "decision.expired", "decision.cancelled")
ASKED: Final = "checkpoint.hitl_required"


def interventions_end_once(outcome: Outcome) -> Iterator[str]:
    """An intervention is issued once, and its command ends once."""
    for name, kinds in (("issued", ("intervention.issued",)), ("ended", ENDS)):
        times = Counter(e.intervention_id for e in outcome.events if e.kind in kinds)
        for intervention_id, n in times.items():
            if n > 1:
                yield f"intervention {intervention_id} was {name} {n} times"


def decided_tasks_resume(outcome: Outcome) -> Iterator[str]:
    """A decision ends once for each time that it is asked, and no task waits for one that has ended."""
    open_by_id: dict[str, Event] = {}
    for event in outcome.events:
        if event.kind == ASKED:
            open_by_id[event.decision_id] = event
        elif event.kind in ANSWERS and open_by_id.pop(event.decision_id, None) is None:
            yield f"decision {event.decision_id} of {event.task_id} ended twice"
    for task in outcome.tasks.values():
        decision_id = decision_of(task)
        if decision_id is not None and decision_id not in open_by_id:
            yield f"{task.id} waits for decision {decision_id}, which has ended"
