"""Interventions: one transaction with the task, the ladder of the runner, the table of type by status."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core import command as c
from holdfast.core.intervention import (
    AckOutcome,
    Intervention,
    InterventionState,
    InterventionType,
    NewIntervention,
)
from holdfast.core.intervention_args import command_of, intervention_request
from holdfast.core.task import RunId, Status, Task
from holdfast.core.transition import Refusal
from holdfast.engine.due_changes import DueChanges
from holdfast.errors import IdempotencyConflict, InvalidInput
from holdfast.store.audit import AuditStore
from holdfast.store.interventions import Issued
from holdfast.store.store import Store
from holdfast.testing import VirtualClock
from tests.conformance.tasks.helpers import (
    after,
    check_counters,
    claim_one,
    code,
    failing,
    get,
    kinds,
    order,
    put,
    runner_says,
)

T, S = InterventionType, InterventionState
REASON = "a reason that is long enough"


def request(
    kind: InterventionType, task_id: str = "a", *, id: str = "", **fields: Any
) -> NewIntervention:
    args = fields.pop("args", None)
    asked = intervention_request(kind, REASON, args)
    return NewIntervention(
        id=id or f"ivn_{kind}",
        task_id=task_id,
        type=kind,
        command=command_of(asked, "user:ann"),
        actor="user:ann",
        reason=REASON,
        args_json=asked.args_json,
        **fields,
    )


async def issue(store: Store, made: NewIntervention) -> Intervention:
    answer = await store.interventions.issue(made)
    assert isinstance(answer, Issued), answer
    return answer.intervention


async def row(store: Store, id: str) -> Intervention:
    found = await store.interventions.get(id)
    assert found is not None
    return found


async def test_an_intervention_without_a_runner_is_applied_at_once(store: Store) -> None:
    await put(store, "a")
    made = await issue(store, request(T.PAUSE))
    assert (made.state, made.target_node) == (S.APPLIED, None)
    assert made.effect is not None
    assert (made.effect.before, made.effect.after) == ("queued", "queued")
    assert (await get(store, "a")).gate == "!held"
    assert (await kinds(store, "a"))[-3:] == [
        *("task.held", "intervention.issued", "intervention.applied"),
    ]
    entry = (await AuditStore(store).before(2**53, 1))[0]
    assert (entry.operation, entry.actor, entry.subject) == ("tasks.intervene", "user:ann", "a")
    same = await issue(store, request(T.PAUSE, id="ivn_2"))
    assert (same.effect, same.state) == (None, S.APPLIED)


async def test_the_ladder_of_a_runner(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    made = await issue(store, request(T.PAUSE))
    assert (made.state, made.target_node, made.target_fence) == (S.ISSUED, "node-a", task.fence)
    assert (await get(store, "a")).status is Status.PAUSED
    assert await store.interventions.deliver("node-b") == []
    first = await store.interventions.deliver("node-a")
    assert [(command.id, command.state) for command in first] == [(made.id, S.DELIVERED)]
    assert await store.interventions.deliver("node-a") == first  # Until it is acknowledged.
    assert await store.interventions.acknowledge(made.id, AckOutcome.DONE, node="node-b") is None
    acked = await store.interventions.acknowledge(made.id, AckOutcome.DONE, "ok", node="node-a")
    assert acked is not None
    assert (acked.state, acked.detail) == (S.APPLIED, "ok")
    assert await store.interventions.deliver("node-a") == []
    again = await store.interventions.acknowledge(made.id, AckOutcome.REFUSED, node="node-a")
    assert again == acked
    steps = [kind for kind in await kinds(store, "a") if kind.startswith("intervention")]
    assert steps == ["intervention.issued", "intervention.delivered", "intervention.applied"]
    await check_counters(store)


async def test_a_refusal_of_the_runner_leaves_the_task_as_it_is(store: Store) -> None:
    await put(store, "a")
    await claim_one(store)
    made = await issue(store, request(T.ABORT))
    refused = await store.interventions.acknowledge(made.id, AckOutcome.REFUSED, "busy")
    assert refused is not None
    assert refused.state is S.REFUSED
    assert (await get(store, "a")).status is Status.ABORTED


async def test_a_command_ends_when_the_lease_would_have_ended(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "a")
    await claim_one(store, lease_seconds=9.0)
    made = await issue(store, request(T.ABORT))
    due = DueChanges(store, lambda: None)
    assert 0.0 < (await due.round() or 0.0) <= 9.0
    clock.set(clock.now() + 9.0)
    assert await due.round() == 0.0
    assert (await row(store, made.id)).state is S.APPLIED
    assert await due.round() is None


async def test_expiry_ends_the_delivery_and_not_the_effect(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, "a")
    await claim_one(store, lease_seconds=600.0)
    made = await issue(store, request(T.ABORT, expires_seconds=60.0))
    clock.set(clock.now() + 61.0)
    assert await store.interventions.deliver("node-a") == []
    assert (await row(store, made.id)).state is S.EXPIRED
    assert (await get(store, "a")).status is Status.ABORTED


async def test_a_new_claim_ends_the_commands_of_older_fences(store: Store) -> None:
    await put(store, "a")
    await claim_one(store, lease_seconds=600.0)
    made = await issue(store, request(T.RELEASE_LOCK))
    again = await claim_one(store)
    assert await store.interventions.deliver("node-a") == []
    ended = await row(store, made.id)
    assert (ended.state, ended.detail) == (S.APPLIED, "fenced")
    assert code(await runner_says(store, again, c.Complete("1"))) == "moved"


async def test_a_process_applies_what_its_handlers_have_unwound(store: Store) -> None:
    await put(store, "a")
    task = await claim_one(store)
    made = await issue(store, request(T.PAUSE))
    await store.interventions.unwind([task.run], has_stopped=False)
    assert (await row(store, made.id)).state is S.DELIVERED
    await store.interventions.unwind([RunId("a", 99)], has_stopped=True)
    assert (await row(store, made.id)).state is S.DELIVERED
    await store.interventions.unwind([task.run], has_stopped=True)
    assert (await row(store, made.id)).state is S.APPLIED


async def test_the_same_id_again_gets_the_same_answer(store: Store) -> None:
    await put(store, "a")
    await claim_one(store)
    made = await issue(store, request(T.PAUSE, id="ivn_x"))
    await order(store, "a", c.Resume("bob"))
    events = await kinds(store, "a")
    answer = await store.interventions.issue(request(T.PAUSE, id="ivn_x"))
    assert isinstance(answer, Issued)
    assert (answer.intervention, answer.is_repeat) == (made, True)
    assert (await get(store, "a")).status is Status.QUEUED
    assert await kinds(store, "a") == events
    with pytest.raises(IdempotencyConflict):
        await store.interventions.issue(request(T.ABORT, id="ivn_x"))


async def test_a_refused_command_writes_nothing(store: Store) -> None:
    await put(store, "a")
    events = await kinds(store, "a")
    for made, reason in (
        (request(T.RELEASE_LOCK), "not-locked"),
        (request(T.RESUME), "illegal-transition"),
        (request(T.PAUSE, expected_version=9), "version-conflict"),
        (request(T.PAUSE, task_id="none"), "not-found"),
    ):
        answer = await store.interventions.issue(made)
        assert isinstance(answer, Refusal)
        assert answer.code == reason
        assert await store.interventions.get(made.id) is None
    assert await kinds(store, "a") == events
    assert await AuditStore(store).before(2**53, 10) == []
    with pytest.raises(InvalidInput, match="nowhere"):
        await store.interventions.issue(request(T.REASSIGN, args={"to_node": "nowhere"}))


async def test_interventions_of_a_task_the_latest_first(store: Store) -> None:
    await put(store, "a")
    await issue(store, request(T.PAUSE, id="ivn_1"))
    await issue(store, request(T.RESUME, id="ivn_2"))
    rows = await store.interventions.of_task("a", limit=10)
    assert [item.id for item in rows] == ["ivn_2", "ivn_1"]
    assert [
        item.id for item in await store.interventions.of_task("a", after="ivn_2", limit=10)
    ] == ["ivn_1"]


# -- the table ---------------------------------------------------------------------------------------

NO, LOCK = "illegal-transition", "not-locked"
STATUSES = (
    *(Status.BLOCKED, Status.QUEUED, Status.RUNNING, Status.PAUSED),
    *(Status.STUCK, Status.FAILED, Status.COMPLETED, Status.ABORTED),
)
TABLE: dict[str, tuple[InterventionType, dict[str, object], tuple[str, ...]]] = {
    "abort": (T.ABORT, {}, ("aborted",) * 6 + (NO, NO)),
    "pause": (T.PAUSE, {}, ("blocked", "queued", "paused", "same", "queued", NO, NO, NO)),
    "resume": (T.RESUME, {}, (NO, NO, NO, "queued", "queued", NO, NO, NO)),
    "retry": (T.RETRY, {}, (NO, "same", NO, NO, "queued", "queued", NO, NO)),
    "retry later": (
        T.RETRY,
        {"delay_seconds": 5.0},
        (NO, "queued", NO, NO, "queued", "queued", NO, NO),
    ),
    "retry with a payload": (
        T.RETRY,
        {"payload": {"n": 2}},
        (NO, "queued", NO, NO, "queued", "queued", NO, NO),
    ),
    "reassign": (
        T.REASSIGN,
        {"to_node": "node-b"},
        ("blocked", "queued", "queued", "paused", "queued", NO, NO, NO),
    ),
    "release": (T.RELEASE_LOCK, {}, (LOCK, LOCK, "queued", LOCK, "queued", LOCK, LOCK, LOCK)),
    "force queued": (
        T.FORCE_STATUS,
        {"status": "queued"},
        ("queued", "same", "queued", "queued", "queued", "queued", NO, NO),
    ),
    "force paused": (
        T.FORCE_STATUS,
        {"status": "paused"},
        (NO, "queued", "paused", "same", NO, NO, NO, NO),
    ),
    "force failed": (
        T.FORCE_STATUS,
        {"status": "failed"},
        ("failed", NO, "failed", "failed", "failed", NO, NO, NO),
    ),
    "force completed": (
        T.FORCE_STATUS,
        {"status": "completed", "result": 1},
        (NO, NO, "completed", "completed", "completed", NO, NO, NO),
    ),
    "force running": (T.FORCE_STATUS, {"status": "running"}, (NO,) * 8),
}


async def in_status(store: Store, status: Status) -> Task:
    """The task `a` in a status, by commands."""
    if status is Status.BLOCKED:
        await put(store, "parent", queue="elsewhere")
        await put(store, "a", depends_on=after("parent"))
        return await get(store, "a")
    await put(store, "a")
    commands: dict[Status, tuple[c.Command, ...]] = {
        Status.PAUSED: (c.Pause("bob"),),
        Status.STUCK: (c.GetStuck("slow"),),
        Status.FAILED: (failing(final=True),),
        Status.COMPLETED: (c.Complete("1"),),
        Status.ABORTED: (c.Abort("bob"),),
    }
    if status is not Status.QUEUED:
        task = await claim_one(store)
        for command in commands.get(status, ()):
            assert code(await runner_says(store, task, command)) == "moved"
    return await get(store, "a")


@pytest.mark.parametrize("name", TABLE)
async def test_type_by_status(store: Store, name: str) -> None:
    kind, args, cells = TABLE[name]
    await store.heartbeat("node-b", "{}", [], 9.0)
    for status, expected in zip(STATUSES, cells, strict=True):
        task = await in_status(store, status)
        assert task.status is status
        answer = await store.interventions.issue(request(kind, id=f"ivn_{status}", args=args))
        now = await get(store, "a")
        if isinstance(answer, Refusal):
            assert answer.code == expected, status
            assert now == task
        else:
            made = answer.intervention
            effect = "same" if made.effect is None else made.effect.after
            assert effect == expected, status
            assert now.status.value == (status.value if effect == "same" else expected)
            taken = status in (Status.RUNNING, Status.STUCK)
            assert made.state is (S.ISSUED if taken else S.APPLIED)
            assert not taken or now.fence > task.fence
        await check_counters(store)
        await _away(store)


async def _away(store: Store) -> None:
    """Ends all tasks and forgets them, so that the next case starts with an empty store."""
    for task_id in ("a", "parent"):
        await order(store, task_id, c.Abort("cleaner"))
    later = store.now() + 1.0
    await store.prune(before=later, dead_before=later, feed_before=0.0)
