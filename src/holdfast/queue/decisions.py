"""Use cases of decisions: list, read, answer.

Promises: an answer is in one transaction with the resumption of its task and the audit. Of two answers one
counts; the other gets AlreadyDecided with the decision as it stands. A repeat of an answer gets the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from msgspec import UNSET

from holdfast import errors
from holdfast.bus.port import FEED, WORK, of_node
from holdfast.core.check import check_choice, check_name, check_names, check_page
from holdfast.core.decision import Choice, Decision, DecisionState, choice_json
from holdfast.queue.by import By
from holdfast.queue.session import Sessions
from holdfast.queue.settings import SettingsInForce
from holdfast.store.decisions import ACT, Act, AskedPoint


class DecisionFilter(TypedDict, total=False):
    """Which decisions a list has."""

    state: DecisionState | str
    """`open`, `decided`, `expired` or `cancelled`; all if left out."""
    assignees: Sequence[str]
    """Only those that one of these names (`user:NAME`, `role:NAME`) may answer."""
    projects: Sequence[str]
    after: str
    """The last id of the previous page."""
    limit: int


class ChoiceOptions(TypedDict, total=False):
    """What an answer may say beside its choice."""

    data: object
    reason: str
    actor: str
    expected_version: int


class Decisions:
    """The use cases of decisions."""

    def __init__(self, sessions: Sessions, settings: SettingsInForce) -> None:
        self._sessions = sessions
        self._settings = settings

    async def list(
        self,
        *,
        state: DecisionState | str | None = None,
        assignees: Sequence[str] | None = None,
        projects: Sequence[str] | None = None,
        node: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Decision]:
        """Returns one page of the decisions that match, the latest first. `node`: those of its runs."""
        store = (await self._sessions.open()).store
        return await store.decisions.find(
            state=None if state is None else check_choice("state", state, DecisionState),
            assignees=None if assignees is None else check_names("assignees", assignees),
            projects=None if projects is None else check_names("projects", projects),
            node=node,
            after=None if after is None else check_name("after", after),
            limit=check_page(limit),
        )

    async def get(self, decision_id: str) -> Decision:
        """Returns one decision. Raises NotFound if it does not exist."""
        check_name("decision_id", decision_id)
        store = (await self._sessions.open()).store
        decision = await store.decisions.get(decision_id)
        if decision is None:
            raise errors.NotFound(f"there is no decision {decision_id}")
        return decision

    async def asked_point(self, decision_id: str) -> AskedPoint | None:
        """Returns the checkpoint with which the task asked, if it is still stored."""
        return await (await self._sessions.open()).store.decisions.checkpoint(decision_id)

    async def decide(
        self,
        decision_id: str,
        choice: object,
        *,
        data: object = UNSET,
        reason: str = "",
        actor: str = "api",
        expected_version: int | None = None,
    ) -> Decision:
        """Answers a decision on behalf of an embedded caller."""
        return await self.answer(
            decision_id, choice, By(actor, reason, expected_version), data=data
        )

    async def answer(
        self, decision_id: str, choice: object, by: By, *, data: object = UNSET, act: Act = ACT
    ) -> Decision:
        """Answers a decision and resumes its task."""
        check_name("decision_id", decision_id)
        resources = await self._sessions.open()
        answer = Choice(
            choice_json=choice_json(choice),
            actor=by.actor,
            reason=by.reason,
            data_json=None if data is UNSET else choice_json(data),
            expected_version=by.expected_version,
        )
        decision = await resources.store.decisions.decide(
            decision_id,
            answer,
            act=act,
            affinity_seconds=self._settings.current.affinity_seconds,
            beside=by.beside,
        )
        resources.bus.publish(of_node(decision.node))
        resources.bus.publish(WORK)
        resources.bus.publish(FEED)
        return decision
