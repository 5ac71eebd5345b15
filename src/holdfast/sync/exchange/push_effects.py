"""What the store does for each verdict on a pushed item.

Promises: every change of a task is a command that `core.decide` rules on. Content is applied before a status
that may end the task. Never: decides who wins (`core/exchange/conflict.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, command as c, gate
from holdfast.core.claim_by_id import ClaimById
from holdfast.core.decide import enqueued
from holdfast.core.event import NewEvent, with_result
from holdfast.core.exchange.item import LABELS_MAX, Item
from holdfast.core.exchange.merge import NO_LABELS, Stamp, join_progress
from holdfast.core.exchange.push import Current, PushItem, fence_of
from holdfast.core.exchange.strategy import Unmerged, apply_change
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.exchange.verdict import Action, Verdict
from holdfast.core.four_eyes import with_submitter
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.submit import METADATA_BYTES_MAX, submit
from holdfast.core.task import Status, Task
from holdfast.core.transition import Refusal, Transition
from holdfast.store.script import Script
from holdfast.store.scripts import apply
from holdfast.store.scripts.claim_by_id import claim_loaded
from holdfast.sync.exchange.push_state import PushState
from holdfast.sync.rows import RegisteredNode
from holdfast.sync.sync_task import (
    SyncRow,
    content_of,
    metadata_json,
    stamps_json,
)


class Sender(msgspec.Struct, frozen=True):
    """The node that pushes."""

    node: str
    kind: str
    incarnation: int
    must_fence: bool
    """It promised to send the fence always, so none is implied."""
    clock: int = 0
    """Its logical clock."""
    rules: HubRules = RULES

    @property
    def actor(self) -> str:
        return gate.NODE_ACTOR + self.node

    def incarnation_of(self, item: Item) -> int:
        """The incarnation that an item speaks for. One that lacks a promised fence speaks for none."""
        return -1 if self.must_fence and item.fence is None else self.incarnation


def sender_of(row: RegisteredNode, rules: HubRules) -> Sender:
    must_fence = rules.must_fence(row.capabilities)
    return Sender(row.id, row.kind, row.incarnation, must_fence, row.clock, rules)


class Judged(msgspec.Struct, frozen=True):
    """An item about a task that exists, and the verdict on it."""

    item: Item
    task: Task
    """As it was before the item."""
    current: Current
    """What the rules have read of the task."""
    pushed: PushItem
    """The item as the rules have read it."""
    verdict: Verdict


class Stopped(Exception):
    """An effect that the store refuses. The item is undone."""

    def __init__(self, error: SyncError, detail: str) -> None:
        super().__init__(detail)
        self.error = error
        self.detail = detail


def create(state: PushState, item: Item, sender: Sender, project: str, task_id: str) -> None:
    """Adds a task. One that asks for `paused` is held by the node."""
    now = state.work.now
    request = item.creation(project)
    request = replace(
        request,
        metadata=with_submitter(request.metadata, sender.actor),
        progress_timeout_seconds=sender.rules.progress_timeout_seconds,
    )
    task = submit(request, task_id=task_id, now=now, id_given=False).task
    state.work.load([task])
    state.work.events.append(enqueued(task, now))
    state.work.count(task, 1)
    state.created.append(task)
    state.names[item.id] = task_id
    row = SyncRow(project, item.id, task_id, created_hash=item.request_hash)
    state.rows[task_id] = row
    content = content_of(task, row)
    stamp = Stamp(1, item.mutation_id or "")
    after = apply_change(
        replace(content, metadata={}, labels=NO_LABELS),
        item.change,
        version=1,
        base_version=1,
        stamp=stamp,
        strategies=state.strategies,
    )
    assert not isinstance(after, Unmerged)
    state.rows[task_id] = replace(row, content_json=stamps_json(after))
    if item.status == Status.PAUSED:
        run(state, task_id, c.Pause(sender.actor, "created on hold"))


def edit(state: PushState, item: Item, task: Task, sender: Sender) -> None:
    """Applies the content of an item, by the strategies of the project."""
    row = state.row(task)
    content = content_of(task, row)
    after = apply_change(
        content,
        item.change,
        version=task.version,
        base_version=item.expected_version,
        stamp=Stamp(task.version + 1, item.mutation_id or ""),
        strategies=state.strategies,
    )
    if isinstance(after, Unmerged):
        raise AssertionError("the rules accepted content that cannot be merged")
    text = metadata_json(after)
    if len(text.encode()) > METADATA_BYTES_MAX:
        raise Stopped(SyncError.INVALID_INPUT, "the metadata would be too large: remove keys")
    if len(after.labels.members) > LABELS_MAX:
        raise Stopped(
            SyncError.INVALID_INPUT, f"a task has at most {LABELS_MAX} labels: remove some"
        )
    payload = after.payload_json if after.payload_json != task.payload_json else None
    tags = tuple(sorted(after.labels.members))
    run(state, task.id, c.Edit(sender.actor, payload, metadata_json=text, tags=tags))
    state.rows[task.id] = replace(state.row(task), content_json=stamps_json(after))


def run(state: PushState, task_id: str, command: c.Command, fence: int | None = None) -> None:
    """Carries out a command. A repeat of what was applied before is no error."""
    ruling = apply.carry_out(state.work, c.Instruction(task_id, command, fence))
    if isinstance(ruling, Refusal) and ruling.code != "already-applied":
        raise Stopped(SyncError.INVALID_TRANSITION, ruling.message)


def observe(state: PushState, judged: Judged) -> None:
    """Joins what the runner observed. A stuck task runs again if the verdict says so. Otherwise it stays as
    it is: any report would say that it runs."""
    task, before, progress = judged.task, judged.current.progress, judged.pushed.progress
    is_unstuck = judged.verdict.is_unstuck
    if task.status is Status.STUCK and not is_unstuck:
        return
    joined = before if progress is None else join_progress(before, progress)
    text = None
    if joined != before:
        fields = {"fence": joined.fence, "iteration": joined.iteration, "done": joined.done}
        text = codec.dumps({**fields, "phase": joined.phase})
    if text is not None or is_unstuck:
        report = c.Report(progress_json=text, merge=True, is_running=is_unstuck)
        run(state, task.id, report, task.fence)


def keep_evidence(state: PushState, judged: Judged, sender: Sender) -> None:
    """Records a result that came too late."""
    item, task = judged.item, judged.task
    data: dict[str, Any] = {
        "fence": fence_of(judged.pushed, judged.current) or 0,
        "current_fence": task.fence,
        "node": sender.node,
    }
    if item.error is not None:
        data["error"] = item.error.message
    else:
        with_result(data, item.result_json)
    now, project = state.work.now, task.event_project
    late = NewEvent("task.late", now, task.id, task.type, data, project, task.version)
    state.work.mention([late])


def claim(state: PushState, item: Item, task: Task, sender: Sender) -> Script[None]:
    """Claims a task that the node has just resumed."""
    claim_id = item.claim_id or f"{sender.node}#{sender.incarnation}"
    request = ClaimById(task.id, sender.node, claim_id, sender.rules.lease_seconds(None))
    answer = yield from claim_loaded(state.work, request)
    if not isinstance(answer, Transition):
        detail = answer.message if isinstance(answer, Refusal) else "its lease has just ended"
        raise Stopped(SyncError.NOT_CLAIMABLE, detail)


Make = Callable[[Item, Task, Sender], c.Command]
COMMANDS: Final[dict[Action, Make]] = {
    Action.COMPLETE: lambda item, task, sender: c.Complete(item.result_json),
    Action.FAIL: lambda item, task, sender: c.Fail(
        item.failure(task.type), final=item.error is not None and not item.error.retryable
    ),
    Action.RELEASE: lambda item, task, sender: c.Release("the node gave it back"),
    Action.CANCEL: lambda item, task, sender: c.Cancel("the node says that it is not wanted"),
    Action.STALL: lambda item, task, sender: c.GetStuck("the node says that it is stuck"),
    Action.PAUSE: lambda item, task, sender: c.Suspend(sender.actor, "paused by its runner"),
    Action.RESUME: lambda item, task, sender: c.Resume(sender.actor),
    Action.RESUME_AND_CLAIM: lambda item, task, sender: c.Resume(sender.actor),
}
OF_A_RUNNER: Final = frozenset(
    {Action.COMPLETE, Action.FAIL, Action.RELEASE, Action.CANCEL, Action.STALL, Action.PAUSE}
)


def carry_out(state: PushState, judged: Judged, sender: Sender) -> Script[None]:
    """The effect of an accepted verdict on a task that exists."""
    item, task, action = judged.item, judged.task, judged.verdict.action
    has_edit = action in (Action.EDIT, Action.MERGE_CONTENT)
    content = judged.verdict.content
    if has_edit or (content is not None and content.error is None):
        edit(state, item, task, sender)
    if action is Action.MERGE_OBSERVED:
        observe(state, judged)
    elif (make := COMMANDS.get(action)) is not None:
        fence = task.fence if action in OF_A_RUNNER else None
        run(state, task.id, make(item, task, sender), fence)
        if action is Action.RESUME_AND_CLAIM:
            yield from claim(state, item, state.work.tasks[task.id], sender)
    _note_claim(state, task, sender, action)


def _note_claim(state: PushState, task: Task, sender: Sender, action: Action) -> None:
    """Remembers the claim under which the node spoke: it may repeat itself after the run has ended."""
    after = state.work.tasks[task.id]
    row = state.row(task)
    if action in OF_A_RUNNER or action is Action.MERGE_OBSERVED:
        row = row.claimed(sender.node, sender.incarnation, task.fence, task.claim_id)
    elif action is Action.RESUME_AND_CLAIM:
        row = row.claimed(sender.node, sender.incarnation, after.fence, after.claim_id)
    state.rows[task.id] = row
