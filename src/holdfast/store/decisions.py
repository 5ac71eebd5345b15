"""The decisions of a store: ask, answer, expire, read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.core import codec, decision as rules
from holdfast.core.decision import Choice, Decision, DecisionState, Question
from holdfast.core.transition import Refusal
from holdfast.store.access import Access
from holdfast.store.beside import Beside
from holdfast.store.script import Guard, guarded
from holdfast.store.scripts import decisions as scripts
from holdfast.store.scripts.audit import Act
from holdfast.store.scripts.decision_rows import read_decision
from holdfast.store.scripts.decisions import Asked

ACT: Final = Act("decisions.decide")
ANSWERED_SECONDS: Final = 3_600.0
"""How long the node that asked is sent the answer while no worker has claimed the task."""
ANSWERS_MAX: Final = 100
"""Answers that a node is sent at once."""


class AskedPoint(NamedTuple):
    """The checkpoint with which a task asked."""

    type: str
    note: str
    data: codec.Json
    created_at: float


class DecisionStore:
    """The part of a store that keeps decisions. Readers see a decision as it is at the store's time."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    async def ask(
        self, task_id: str, fence: int, question: Question, *, guard: Guard | None = None
    ) -> Decision | Asked | Refusal:
        """Asks on behalf of a run: the kept answer, or the run ends and its task waits. `guard`: runs before,
        in the same transaction."""
        decision_id = self._new_id()
        return await self._access.run(
            lambda dialect, ids, now: guarded(
                guard,
                scripts.ask(
                    task_id,
                    fence,
                    question,
                    decision_id=decision_id,
                    now=now,
                    record_id=ids.record(now),
                    recorder=dialect,
                ),
            )
        )

    async def decide(
        self,
        decision_id: str,
        choice: Choice,
        *,
        act: Act = ACT,
        affinity_seconds: float = 0.0,
        beside: Beside | None = None,
    ) -> Decision:
        """Answers a decision and resumes its task, which prefers the node that asked. Raises AlreadyDecided
        if another answer was first."""
        since = self._access.now()
        decision = await self._access.run(
            lambda dialect, ids, now: scripts.decide(
                decision_id,
                choice,
                act=act,
                now=now,
                record_id=ids.record(now),
                recorder=dialect,
                affinity_seconds=affinity_seconds,
                beside=beside,
            )
        )
        if decision.at is not None and decision.at >= since:  # a repeat shows an older answer
            self._access.watch.decision_ended(decision)
        return decision

    async def lapse(self, decision_id: str) -> Decision | None:
        """Ends a decision whose deadline has passed. None if there is nothing to end."""
        decision = await self._access.run(
            lambda dialect, ids, now: scripts.lapse(
                decision_id, now=now, record_id=ids.record(now), recorder=dialect
            )
        )
        if decision is not None:
            self._access.watch.decision_ended(decision)
        return decision

    async def get(self, decision_id: str) -> Decision | None:
        rows = await self._access.rows("get_decision", id=decision_id)
        return self._shown(rows)[0] if rows else None

    async def of_tasks(self, task_ids: Sequence[str]) -> list[Decision]:
        """All decisions of these tasks, in the order in which they were asked."""
        return self._shown(await self._access.rows("decisions_of", ids=list(task_ids)))

    async def answers_for(self, node: str) -> list[Decision]:
        """Questions of this node that have ended and whose tasks wait for a claim, in the order of their
        ends."""
        since = self._access.now() - ANSWERED_SECONDS
        rows = await self._access.rows(
            "answers_for_node", node=node, since=since, limit=ANSWERS_MAX
        )
        return self._shown(rows)

    async def find(
        self,
        *,
        state: DecisionState | None = None,
        projects: Sequence[str] | None = None,
        assignees: Sequence[str] | None = None,
        node: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> list[Decision]:
        """One page, the latest first. `assignees`: only those that one of these names may answer. `node`:
        those that runs of this node asked."""
        params = {
            "projects": None if projects is None else sorted(projects),
            "assignees": None if assignees is None else sorted(assignees),
            "node": node,
            "after": after,
            "limit": limit,
        }
        if state is DecisionState.OPEN:
            rows = self._shown(await self._access.rows("open_decisions", **params))
            return [row for row in rows if row.state is DecisionState.OPEN]
        text = None if state is None else state.value
        return self._shown(await self._access.rows("find_decisions", state=text, **params))

    async def count_open(self) -> int:
        """How many decisions of all projects are open."""
        return int((await self._access.rows("count_open_decisions"))[0][0])

    async def checkpoint(self, decision_id: str) -> AskedPoint | None:
        """What the task saved with its question. None if it has saved too much since."""
        rows = await self._access.rows("get_checkpoint", id=decision_id)
        if not rows:
            return None
        kind, note, data_json, created_at = rows[0]
        return AskedPoint(kind, note, codec.loads(data_json), created_at)

    def _shown(self, rows: list[tuple[object, ...]]) -> list[Decision]:
        now = self._access.now()
        return [rules.as_of(read_decision(row), now) for row in rows]

    def _new_id(self) -> str:
        ids, now = self._access.ids, self._access.now()
        return rules.PREFIX + ids.task(now).replace("-", "")


__all__ = ["Act", "Asked", "AskedPoint", "DecisionStore"]
