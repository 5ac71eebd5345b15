"""Snapshots of a project, a person and the system: counts, open decisions and conflicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.channel import Channel, ChannelKind
from holdfast.core.decision import DecisionState
from holdfast.queue import views
from holdfast.queue.decisions import Decisions
from holdfast.sync import views as hub_views
from holdfast.sync.live_reads import LISTED_MAX, LiveReads


class StoreSummary:
    """See `directory.Summary`. Counts come from counters; each list has at most `LISTED_MAX` rows."""

    def __init__(self, reads: LiveReads, decisions: Decisions, now: Callable[[], float]) -> None:
        self._reads = reads
        self._decisions = decisions
        self._now = now

    async def __call__(self, channel: Channel, projects: frozenset[str] | None) -> dict[str, Any]:
        """`projects` are those that the reader may see; None: all."""
        if channel.kind is ChannelKind.USER:
            name = f"user:{channel.name}"
            return {"user": channel.name, "decisions": await self._open(projects, (name,))}
        is_one = channel.kind is ChannelKind.PROJECT and channel.name != ALL_PROJECTS
        project = channel.name if is_one else None
        conflicts = await self._reads.conflicts(project)
        return {
            "project": project or ALL_PROJECTS,
            "counts": await self._reads.counts(project),
            "decisions": await self._open(projects if project is None else {project}, None),
            "conflicts": [hub_views.conflict_row(conflict) for conflict in conflicts],
        }

    async def _open(
        self, projects: frozenset[str] | set[str] | None, assignees: tuple[str, ...] | None
    ) -> list[dict[str, Any]]:
        decisions = await self._decisions.list(
            state=DecisionState.OPEN,
            assignees=assignees,
            projects=None if projects is None else sorted(projects),
            limit=LISTED_MAX,
        )
        return [views.decision(decision, self._now()) for decision in decisions]
