"""What the fleet forgets: whole jobs, hosts that were removed, entries of the outbox."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort
from holdfast.core.fleet.agents.run_output import StreamState, write_states
from holdfast.core.fleet.model import (
    FLEET_QUEUE,
    FLEET_TYPE,
    SLOT,
    ApprovalRequest,
    ApprovalState,
    Execution,
    Job,
    JobStatus,
    Vote,
    job_id_at,
)
from holdfast.core.retention import DAY_SECONDS, HubRetention
from holdfast.fleet import retention
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.retention import FleetPruning, FleetRetention, PruningLoop
from holdfast.fleet.rows import APPROVALS, EXECUTIONS, JOBS, VOTES
from holdfast.store.store import Store
from tests.backends import Bench, SqliteBench
from tests.conformance.fleet.support import BY, PROJECT, add_host
from tests.conformance.tasks.helpers import asked, order
from tests.statements import execute

KEPT = ("job", "execution", "approval", "vote", "blob", "outbox", "output", "task")


async def count(bench: Bench, table: str) -> int:
    rows = await bench.sql(f"SELECT count(*) FROM holdfast_{table}")
    return int(rows[0][0])


async def counts(bench: Bench) -> dict[str, int]:
    return {table: await count(bench, table) for table in KEPT}


async def insert(bench: Bench, table: str, **row: Any) -> None:
    values = ", ".join(literal(bench, value) for value in row.values())
    await bench.sql(f"INSERT INTO holdfast_{table} ({', '.join(row)}) VALUES ({values})")


def literal(bench: Bench, value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if isinstance(bench, SqliteBench) else f"'\\x{value.hex()}'"
    return "NULL" if value is None else repr(value)


async def make_job(bench: Bench, store: Store, name: str, hosts: int, *, ended: int) -> list[str]:
    """A finished job, of whose executions some have ended. Each has output in one blob alone and in one
    that all share."""
    now = store.now()
    job = Job(
        id=f"job_{name}",
        project=PROJECT,
        external_id=None,
        request_hash="h",
        spec_json="{}",
        digest="d1:x",
        approval_state=ApprovalState.APPROVED,
        status=JobStatus.FAILED,
        hosts=hosts,
        created_by="user:ann",
        created_at=now,
        finished_at=now,
        not_after=now,
    )
    await insert(bench, "job", **JOBS.columns(job))
    new = [asked(store, type=FLEET_TYPE, queue=FLEET_QUEUE) for _ in range(hosts)]
    tasks = [inserted.task_id for inserted in await store.insert(new)]
    for task_id in tasks[:ended]:
        await order(store, task_id, Abort("user:ann", "a test"))
    for nth, task_id in enumerate(tasks):
        streams = {"stdout": f"{name}-{nth}", "stderr": "shared"}
        states = {
            stream: StreamState(bytes=1, kept=1, sha256=sha256)
            for stream, sha256 in streams.items()
        }
        execution = Execution(
            task_id=task_id,
            job_id=job.id,
            nth=nth,
            host_id=f"hst_{nth}",
            host=f"h{nth}",
            output_json=write_states(states),
            ended_at=now if nth < ended else None,
        )
        await insert(bench, "execution", **EXECUTIONS.columns(execution))
        await add_blob(bench, f"{name}-{nth}", 1)
    await approve(bench, name, now)
    for kind, subject in (("PLAN_JOB", job.id), ("RUN_EXECUTION", tasks[0])):
        times = {"created_at": now, "due_at": now}
        await insert(bench, "outbox", kind=kind, subject=subject, payload_json="{}", **times)
    return tasks


async def approve(bench: Bench, name: str, now: float) -> None:
    approval = ApprovalRequest(
        id=f"apr_{name}",
        project=PROJECT,
        job_id=f"job_{name}",
        digest="d1:x",
        rule_json="{}",
        state="approved",
        requested_by="user:ann",
        created_at=now,
        expires_at=now,
        ended_at=now,
    )
    await insert(bench, "approval", **APPROVALS.columns(approval))
    vote = Vote(
        approval_id=approval.id,
        voter="user:bob",
        verdict="approve",
        reason="",
        digest="d1:x",
        at=now,
    )
    await insert(bench, "vote", **VOTES.columns(vote))


async def add_blob(bench: Bench, sha256: str, refs: int) -> None:
    await insert(bench, "blob", sha256=sha256, size=1, data=b"x", refs=refs)


def later(clock: VirtualClock, days: float) -> None:
    clock.set(clock.now() + days * DAY_SECONDS)


async def test_a_job_goes_with_all_that_belongs_to_it(
    bench: Bench, store: Store, clock: VirtualClock
) -> None:
    await add_blob(bench, "shared", 4)
    old = await make_job(bench, store, "old", 3, ended=3)
    await execute(store, "insert_output", [(old[0], 1, "stdout", 0, 2, "6f6b")], now=store.now())
    later(clock, 20)
    young = await make_job(bench, store, "young", 1, ended=1)
    assert await FleetPruning(store).prune() == 0
    later(clock, 11)
    assert await FleetPruning(store).prune() == 1
    left = dict(zip(KEPT, (1, 1, 1, 1, 2, 2, 0, 1), strict=True))
    assert await counts(bench) == left
    assert await bench.sql("SELECT sha256, refs FROM holdfast_blob ORDER BY sha256") == [
        ("shared", 1),
        ("young-0", 1),
    ]
    assert set(await store.reads.get([*old, *young])) == set(young)
    [counter] = [row for row in await store.feed.counters() if row[-1]]
    assert counter[3:] == ("aborted", 1)
    later(clock, 20)
    assert await FleetPruning(store).prune() == 1
    assert set((await counts(bench)).values()) == {0}


async def test_a_large_job_goes_in_several_transactions(
    bench: Bench, store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EXECUTIONS_MAX", 2)
    monkeypatch.setattr(retention, "JOBS_MAX", 1)
    await add_blob(bench, "shared", 9)
    await make_job(bench, store, "a", 5, ended=5)
    await make_job(bench, store, "b", 4, ended=4)
    later(clock, 31)
    script = partial(retention.forget_job, job_id="job_a", is_first=True)
    assert await store.run(script) is None
    assert (await count(bench, "execution"), await count(bench, "job")) == (7, 2)
    assert await FleetPruning(store).prune() == 2
    assert set((await counts(bench)).values()) == {0}
    assert await store.run(script) is False


async def test_a_job_with_an_open_execution_stays_whole(
    bench: Bench, store: Store, clock: VirtualClock
) -> None:
    await make_job(bench, store, "open", 3, ended=2)
    later(clock, 31)
    before = await counts(bench)
    assert await FleetPruning(store).prune() == 0
    assert await counts(bench) == before


async def test_the_retention_of_tasks_leaves_executions_to_their_jobs(
    bench: Bench, store: Store, clock: VirtualClock
) -> None:
    tasks = await make_job(bench, store, "a", 2, ended=2)
    plain = (await store.insert([asked(store)]))[0].task_id
    await order(store, plain, Abort("user:ann", ""))
    await execute(store, "insert_output", [(tasks[0], 1, "stdout", 0, 2, "6f6b")], now=store.now())
    now = store.now()
    keep = HubRetention(output_seconds=100.0)
    await store.prune(before=now + 1, dead_before=now + 1, feed_before=0.0, keep=keep)
    assert set(await store.reads.get([*tasks, plain])) == set(tasks)
    assert await count(bench, "output") == 1


async def test_entries_of_the_outbox_go_when_they_are_done(
    bench: Bench, store: Store, clock: VirtualClock
) -> None:
    now = store.now()
    entry = {"kind": "WEBHOOK", "subject": "whk_1", "payload_json": "{}", "created_at": now}
    await insert(bench, "outbox", **entry, due_at=now, done_at=now)
    await insert(bench, "outbox", **entry, due_at=now)
    later(clock, 8)
    assert await FleetPruning(store).prune() == 1
    assert await count(bench, "outbox") == 1
    assert await FleetPruning(store, FleetRetention(delivery_seconds=0.0)).prune() == 0


async def name_host(bench: Bench, store: Store, host_id: str) -> None:
    """A job that is not over, with an execution of the host."""
    now = store.now()
    job = Job(
        id=f"{job_id_at(now)}x",
        project=PROJECT,
        external_id=None,
        request_hash="h",
        spec_json="{}",
        digest="d1:x",
        approval_state=ApprovalState.APPROVED,
        status=JobStatus.PAUSED,
        hosts=1,
        created_by="user:ann",
        created_at=now,
        not_after=now,
    )
    await insert(bench, "job", **JOBS.columns(job))
    execution = Execution(task_id="t", job_id=job.id, nth=0, host_id=host_id, host="named")
    await insert(bench, "execution", **EXECUTIONS.columns(execution))


async def test_a_removed_host_is_forgotten_when_nothing_names_it(
    bench: Bench, store: Store, clock: VirtualClock
) -> None:
    hosts = Hosts(store)
    made = [await add_host(store, name) for name in ("gone", "named", "held", "there")]
    for host in made[:3]:
        await hosts.remove(host.id, BY)
    await name_host(bench, store, made[1].id)
    slot = {"resource": f"{SLOT}{made[2].id}", "claim_id": "e", "clock_at": store.now()}
    await insert(bench, "lease", **slot)
    later(clock, 31)
    assert await FleetPruning(store).prune() == 1
    left = await hosts.pinned([host.id for host in made])
    assert sorted(host.name for host in left.values()) == ["held", "named", "there"]


async def test_a_loop_prunes(bench: Bench, store: Store, clock: VirtualClock) -> None:
    loop = PruningLoop(FleetPruning(store, FleetRetention(job_seconds=0.0)), clock)
    await make_job(bench, store, "a", 1, ended=1)
    later(clock, 0.1)
    assert await loop.step() == retention.FIRST_SECONDS
    assert await loop.step() == retention.PRUNE_SECONDS
    assert (loop.troubles, await count(bench, "job")) == (0, 0)
