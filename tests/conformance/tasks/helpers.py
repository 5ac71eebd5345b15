"""Short forms of calls that many tests of a store make."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from holdfast.core.claiming import ClaimRequest
from holdfast.core.command import Command, Complete, Fail, Instruction
from holdfast.core.decide import Refusal, Ruling, Transition
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.event import Event, Position
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import Submission, submit
from holdfast.core.task import Failure, FailureKind, Status, Task
from holdfast.store.feed import Page
from holdfast.store.store import Store
from tests.statements import query

TYPES = ("work", "other", "limited")
_numbers = itertools.count(1)


def asked(store: Store, task_id: str | None = None, **fields: Any) -> Submission:
    """A submission with a given id. Default ids are short and sort in the order of their creation."""
    return _submitted(store, task_id, id_given=True, **fields)


def fresh(store: Store, task_id: str | None = None, **fields: Any) -> Submission:
    """A submission with a generated id, as the shortcuts require."""
    return _submitted(store, task_id, id_given=False, **fields)


def _submitted(store: Store, task_id: str | None, *, id_given: bool, **fields: Any) -> Submission:
    request = {"type": "work", "payload": {"n": 1}} | fields
    name = task_id or f"task-{next(_numbers):06}"
    return submit(EnqueueRequest(**request), task_id=name, now=store.now(), id_given=id_given)


def after(*parents: str, policy: DependencyPolicy = DependencyPolicy.FAIL) -> tuple[Edge, ...]:
    return tuple(Edge(parent, policy) for parent in parents)


async def put(store: Store, task_id: str | None = None, **fields: Any) -> str:
    """Enqueues one task on the general path."""
    return (await store.insert([asked(store, task_id, **fields)]))[0].task_id


async def put_plain(store: Store, count: int, **fields: Any) -> list[str]:
    """Enqueues tasks in one batch, by the shortcut."""
    inserted = await store.insert([fresh(store, **fields) for _ in range(count)])
    return [answer.task_id for answer in inserted]


def claim_request(
    limit: int = 10,
    *,
    node: str = "node-a",
    queues: Iterable[str] = ("default",),
    types: Iterable[str] = TYPES,
    lease_seconds: float = 9.0,
    expected: int | None = None,
    projects: tuple[str, ...] | None = None,
) -> ClaimRequest:
    return ClaimRequest(
        node=node,
        queues=tuple(queues),
        types=tuple(types),
        limit=limit,
        lease_seconds=lease_seconds,
        expected=expected,
        projects=projects,
    )


async def claim(store: Store, limit: int = 10, **fields: Any) -> list[Task]:
    return (await store.claim(claim_request(limit, **fields))).tasks


async def claim_ids(store: Store, limit: int = 10, **fields: Any) -> list[str]:
    return [task.id for task in await claim(store, limit, **fields)]


async def claim_one(store: Store, **fields: Any) -> Task:
    tasks = await claim(store, 1, **fields)
    assert len(tasks) == 1, "nothing could be claimed"
    return tasks[0]


async def get(store: Store, task_id: str) -> Task:
    return (await store.reads.get([task_id]))[task_id]


async def status(store: Store, task_id: str) -> Status:
    return (await get(store, task_id)).status


async def statuses(store: Store) -> dict[str, str]:
    return {task.id: task.status.value for task in await all_tasks(store)}


async def order(store: Store, task_id: str, command: Command, **belief: Any) -> Ruling:
    return (await store.apply([Instruction(task_id, command, **belief)]))[0]


async def runner_says(store: Store, task: Task, command: Command) -> Ruling:
    """Sends a command of a runner, with the fence of its claim."""
    return await order(store, task.id, command, fence=task.fence)


async def complete(store: Store, task: Task, result_json: str = "null") -> Ruling:
    return (
        await store.finish([(task, Instruction(task.id, Complete(result_json), fence=task.fence))])
    )[0]


def failing(message: str = "boom", *, final: bool = False) -> Fail:
    failure = Failure(FailureKind.ERROR, message, "ValueError", fingerprint=f"print {message}")
    return Fail(failure, final=final)


async def kill(store: Store, task_id: str) -> None:
    """Makes the task a dead letter: claims it and fails it permanently."""
    task = await claim_until(store, task_id)
    assert isinstance(await runner_says(store, task, failing(final=True)), Transition)


async def claim_until(store: Store, task_id: str) -> Task:
    """Claims until this task is claimed. Tasks that are claimed before it stay running."""
    while True:
        task = await claim_one(store)
        if task.id == task_id:
            return task


async def finish_all(store: Store) -> list[str]:
    """Completes everything that can be claimed. Returns the ids in the order of their claims."""
    done: list[str] = []
    while tasks := await claim(store):
        for task in tasks:
            assert isinstance(await complete(store, task), Transition)
            done.append(task.id)
    return done


async def read_all(store: Store, at: Position | None = None, limit: int = 500) -> list[Event]:
    """Reads the feed from a position to its head, and checks that it has no gaps."""
    events: list[Event] = []
    while True:
        page = await store.feed.read(at, limit)
        assert isinstance(page, Page), page
        if not page.events:
            break
        events += page.events
        at = page.position
    offsets = [event.position.offset for event in events]
    if offsets:
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    return events


async def kinds(store: Store, task_id: str) -> list[str]:
    return [event.kind for event in await store.feed.history(task_id)]


async def all_tasks(store: Store) -> list[Task]:
    tasks: list[Task] = []
    at: str | None = None
    while page := await store.reads.find(after=at, limit=100):
        tasks += page
        at = page[-1].id
    return tasks


async def check_counters(store: Store) -> None:
    """Checks that the counters equal a count of the rows."""
    counted = {tuple(row[:4]): row[4] for row in await store.feed.counters()}
    real = Counter(
        (t.queue, t.type, int(t.priority), t.status.value) for t in await all_tasks(store)
    )
    assert counted == dict(real)


async def check_limits(store: Store, *names: str) -> None:
    """Checks that each limit counts its running and its parked tasks."""
    tasks = await all_tasks(store)
    rows = await query(store, "get_limits", names=list(names))
    for name, _, running, parked, *_ in rows:
        assert running == sum(t.status is Status.RUNNING and name in t.limit_names for t in tasks)
        assert parked == sum(t.status is Status.QUEUED and t.gate == name for t in tasks)


def shown(task: Task) -> dict[str, Any]:
    """The visible fields, without the request hash."""
    return {f: getattr(task, f) for f in task.__struct_fields__ if f != "request_hash"}


def code(ruling: Ruling) -> str:
    """'moved', or the code of the refusal."""
    return ruling.code if isinstance(ruling, Refusal) else "moved"
