"""The share of a replay that fails: refused tasks, and tasks that are dead letters again.

A replay that queues a task has not shown that it works. While it goes on, it looks at the tasks that it has
queued, at most once in `LOOK_SECONDS`, and stops when the share of `stop_on_fail_share` is exceeded. Of more
than `LOOK_MAX` tasks the latest are looked at, and stand for the others. Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core.bulk import FAIL_LEAST, BulkAction, BulkRun, BulkState

LOOK_SECONDS: Final = 1.0
"""The pause between two looks at tasks that were replayed."""
LOOK_MAX: Final = 1_000
"""Tasks that one look counts."""


def is_due(run: BulkRun, now: float) -> bool:
    """Whether the next step of a run is a look."""
    return (
        run.spec.action is BulkAction.REPLAY
        and run.spec.stop_on_fail_share is not None
        and run.judged >= FAIL_LEAST
        and not run.is_watching
        and now >= run.progress.looked_at + LOOK_SECONDS
    )


def judged_tasks(run: BulkRun, ids: Sequence[str]) -> Sequence[str]:
    """The tasks to look at: those that were judged since the last resume, the latest `LOOK_MAX`. `ids`: all
    tasks of the run."""
    aside = set(run.progress.aside)
    end = run.position - run.progress.absent + len(aside)
    judged = [task_id for task_id in ids[:end] if task_id not in aside]
    return judged[-min(run.judged, LOOK_MAX) :]


def counted(run: BulkRun, looked: int, dead: int, now: float) -> BulkRun:
    """The run after a look. `dead`: how many of the `looked` tasks have died since the run was made."""
    share = run.spec.stop_on_fail_share
    assert share is not None
    again = dead if looked >= run.judged else round(dead * run.judged / looked)
    after = replace(
        run,
        updated_at=now,
        version=run.version + 1,
        progress=replace(run.progress, again=again, looked_at=now),
    )
    if run.refused + again <= share * run.judged:
        return after
    refused = f", {run.refused} were refused" if run.refused else ""
    about = "" if looked >= run.judged else "about "
    detail = f"{about}{again} of {run.judged} tasks failed again{refused}: more than {share:.0%}"
    return replace(after, state=BulkState.STOPPED, detail=detail)
