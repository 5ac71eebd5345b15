"""A wrong argument is a typed error with the same code on every store, and nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Task, TaskQueue
from holdfast.engine.handle import TaskHandle
from holdfast.queue.settings import Settings
from tests.bad_input import Surface, answer, cases
from tests.error_tree import in_order

CODES = {error.code for error in in_order()} - {"internal"}
QUEUE = Surface(
    TaskQueue,
    kinds={
        **dict.fromkeys(("task_id", "name"), "known id"),
        **dict.fromkeys(("get_task.task_id", "schedule.name", "actor", "group_id"), "name"),
        **dict.fromkeys(("id", "register_handler.type"), "name"),
        **dict.fromkeys(("type", "queue", "fingerprint", "prefix", "key", "task.name"), "name?"),
        **dict.fromkeys(
            ("idempotency_key", "enqueue.id", "enqueue_group.id", "find_tasks.after"), "name?"
        ),
        **dict.fromkeys(("task.queue", "register_handler.queue"), "name"),
        **dict.fromkeys(("enqueue.type", "schedule.type"), "known type"),
        **dict.fromkeys(("reason", "find_tasks.q", "weights.after"), "text"),
        "intervene.reason": "because",
        "intervene.type": "intervention",
        **dict.fromkeys(("intervene.args", "patch"), "map"),
        "intervene.id": "name?",
        "expires_seconds": "number",
        **dict.fromkeys(("decisions.after",), "name?"),
        **dict.fromkeys(("decision_id",), "name"),
        **dict.fromkeys(("decide.choice", "decide.data"), "json"),
        "decisions.state": "state",
        **dict.fromkeys(("assignees", "projects", "tags"), "some names"),
        "project": "project",
        "enqueue.project": "project",
        "progress_timeout": "number?",
        **dict.fromkeys(("payload", "edit_task.payload"), "json"),
        "metadata": "dict?",
        **dict.fromkeys(("max_attempts", "max_deaths", "concurrency", "key_concurrency"), "whole?"),
        **dict.fromkeys(("discard_dead.limit", "replay_dead.limit", "max_depth"), "whole?"),
        "expected_version": "whole?",
        **dict.fromkeys(("limit", "offset", "burst", "max_workers", "min_workers"), "whole"),
        **dict.fromkeys(("default_max_attempts", "start.max_deaths"), "whole"),
        "count": "signed",
        "weight": "whole",
        "set_weight.key": "name or none",
        **dict.fromkeys(("delay", "base_retry_delay", "start.max_retry_delay"), "number"),
        **dict.fromkeys(("shutdown_timeout", "lease_seconds", "ageing_seconds"), "number"),
        **dict.fromkeys(("keep_done", "keep_dead", "keep_events", "keep_conflicts"), "number"),
        **dict.fromkeys(("keep_sync_log", "keep_tombstones", "keep_mutations"), "number"),
        **dict.fromkeys(("keep_output", "affinity_seconds", "reassign_fallback_seconds"), "number"),
        **dict.fromkeys(("keep_audit", "decision_deadline"), "number?"),
        **dict.fromkeys(("task.keep_done", "register_handler.keep_done"), "number?"),
        **dict.fromkeys(("timeout", "retry_delay", "max_retry_delay", "task_timeout"), "number?"),
        **dict.fromkeys(("max_age", "replay_dead.rate"), "number?"),
        **dict.fromkeys(("rate", "key_rate"), "rate?"),
        **dict.fromkeys(("live", "follow", "dry_run", "merge", "fair"), "flag"),
        "priority": "priority?",
        **dict.fromkeys(("task.priority", "register_handler.priority"), "priority"),
        "status": "status?",
        "depends_on": "edges",
        "tasks": "tasks",
        "events.after": "position?",
        "spec": "spec",
        "cron": "spec?",
        "run_at": "moment?",
        "unique": "unique?",
        "timezone": "zone",
        "isolation": "isolation?",
        **dict.fromkeys(("retry_on", "give_up_on"), "errors?"),
        **dict.fromkeys(("handler", "hook", "middleware.function"), "callable"),
        "function": "callable?",
        "tx": "tx?",
        **dict.fromkeys(("queues", "start.projects"), "names"),
    },
    good={
        "task_id": "mine",
        "intervene.type": "PAUSE",
        "intervene.reason": "a reason",
        "decision_id": "dec_1",
        "choice": "yes",
        "name": "s",
        "type": "echo",
        "payload": 1,
        "spec": "@every 60",
        "handler": lambda task: None,
        "hook": lambda: None,
        "middleware.function": lambda ctx, call_next: call_next(),
        "tasks": [{"type": "echo"}],
        "count": 1,
        "set_weight.key": "acme",
        "weight": 2,
        "register_handler.type": "other",
        "register_handler.cron": None,
        "events.follow": False,
        "task.name": "other",
    },
    options={"settings": dict.fromkeys(Settings.__struct_fields__)},
)
HANDLE = Surface(
    TaskHandle,
    kinds={"timeout": "number?", "actor": "name", "reason": "text"},
    good={},
    leave_out=frozenset(each for each in dir(str) if not each.startswith("_")),
)
CONTEXT = Surface(
    Context,
    kinds={
        "done": "share",
        "note": "text",
        "checkpoint": "json",
        "step": "name",
        "effect": "callable",
        "request": "json",
        "on_error": "callable",
        "tx": "tx?",
        "question": "because",
        "options": "words",
        "decide.key": "name?",
        "deadline": "number?",
        "default": "json",
        "assignees": "some names",
        "schema": "schema?",
        "data": "json",
        "phase": "phase?",
        "iteration": "whole?",
        "output.data": "output",
        "stream": "stream",
        "tokens": "total",
        "checkpoint.type": "because",
    },
    good={
        "output.data": "x",
        "type": "plan",
        "done": 0.5,
        "checkpoint": 1,
        "step": "s",
        "effect": lambda turn: None,
        "question": "Go?",
        "options": ["yes", "no"],
    },
    # The arguments of `enqueue` are those of the task: see test_ways_in.py.
    leave_out=frozenset({"do_step", "enqueue", "request_cancel", "step_ask"}),
    options={"totals": {"tokens": 1}},
)


async def echo(task: Task) -> Any:
    return task.payload


@pytest.fixture
async def queues(tmp_path: Path, pg_dsn: str) -> AsyncIterator[list[TaskQueue]]:
    """The same in every store: a task, a schedule."""
    found = [TaskQueue(url) for url in ("sqlite://", f"sqlite:///{tmp_path}/q.db", pg_dsn)]
    for queue in found:
        queue.register_handler("echo", echo)
        await queue.enqueue("echo", id="mine", delay=1e6)
        await queue.schedule("s", "@every 1000000", "echo")
    yield found
    for queue in found:
        await queue.stop()


async def state(queue: TaskQueue) -> tuple[Any, ...]:
    """Everything that a call could have written."""
    return (
        await queue.position(),
        await queue.find_tasks(),
        await queue.get_schedules(),
        await queue.get_queues(),
        queue.definitions.handlers.types(),
        queue.definitions.schedules,
        queue.settings,
        queue.is_running(),
    )


async def codes_of(surface: Surface, target: object) -> list[tuple[str, str]]:
    """Each wrong call, and its answer."""
    return [(str(case), await answer(surface, target, case)) for case in cases(surface)]


def check_same(found: list[list[tuple[str, str]]]) -> None:
    """One typed error for each wrong call, the same everywhere."""
    bad = []
    for answers in zip(*found, strict=True):
        codes = {code for _, code in answers}
        if len(codes) > 1 or not codes <= CODES:
            bad.append(f"{answers[0][0]}: {[code for _, code in answers]}")
    if bad:
        pytest.fail("\n".join(bad))


async def test_a_wrong_call_of_a_queue_is_a_typed_error_and_writes_nothing(
    queues: list[TaskQueue],
) -> None:
    before = [await state(queue) for queue in queues]
    check_same([await codes_of(QUEUE, queue) for queue in queues])
    assert [await state(queue) for queue in queues] == before


async def test_a_wrong_call_of_a_handle_is_a_typed_error(queues: list[TaskQueue]) -> None:
    handles = [await queue.enqueue("echo", id="mine", delay=1e6) for queue in queues]
    check_same([await codes_of(HANDLE, handle) for handle in handles])


async def test_a_wrong_call_of_a_context_is_a_typed_error_and_writes_nothing(
    queues: list[TaskQueue],
) -> None:
    found: list[list[tuple[str, str]]] = []

    async def work(task: Task, ctx: Context) -> None:
        found.append(await codes_of(CONTEXT, ctx))

    for queue in queues:
        queue.register_handler("work", work)
        async with queue:
            task = await queue.enqueue("work", max_attempts=1)
            await task.result(60)
            kinds = [event.kind for event in await queue.history(task)]
            assert kinds == ["task.enqueued", "task.started", "task.completed"]
    check_same(found)
