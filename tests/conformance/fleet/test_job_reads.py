"""What is shown of jobs: counts without a scan, pages with filters, reasons, the plan."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Evidence, Force, Instruction
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.model import HostState, JobStatus
from holdfast.core.fleet.rollout.policy import (
    BudgetName,
    GateMode,
    HaltMode,
    HostOrder,
    RolloutRequest,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.search import parse
from holdfast.core.task import FailureKind, Status
from holdfast.core.transition import Transition
from holdfast.errors import NotFound
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.details import HostReads
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.fleet.jobs.matrix import KINDS, LETTERS, JobMatrix
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.jobs.why import Cause, ExecutionReasons
from holdfast.queue.by import By
from holdfast.store.search import search
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT, events
from tests.statements import execute

WAVES = RolloutRequest(
    waves=(2, "rest"), max_in_flight=2, order=HostOrder.NAME, budget={BudgetName.FAILED: None},
    canary_budget=None,
)  # fmt: skip


def reads_of(fleet: FleetBench) -> JobReads:
    return JobReads(fleet.store, fleet.rules)


async def test_the_counts_add_up_at_every_moment(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(6)
    await Blocks(store).add(PROJECT, NewBlock(host="web-006", reason="no"), BY)
    reads = reads_of(fleet)
    job_id = (await fleet.create(names, rollout=WAVES, external_id="one")).job.id
    detail = await reads.detail(job_id)
    assert (detail.kinds, detail.statuses["NEW"]) == ({"new": 6}, 6)
    await fleet.plan(job_id)
    assert (await reads.detail(job_id)).kinds == {"awaiting_wave": 4, "queued": 2}
    first, second = await fleet.queued(job_id)
    run = await fleet.start(first)
    assert (await reads.detail(job_id)).kinds == {"awaiting_wave": 4, "queued": 1, "starting": 1}
    await fleet.complete(run)
    await fleet.fail(second)
    uncounted = await reads.detail(job_id)
    assert uncounted.kinds == {"awaiting_wave": 4, "failed": 1, "succeeded": 1}
    await fleet.run_out(job_id)
    ended = await reads.detail(job_id)
    assert ended.kinds == {"blocked": 1, "failed": 1, "succeeded": 4}
    assert ended.statuses == {
        "NEW": 0, "QUEUED": 0, "RUNNING": 0, "SUCCESS": 4, "FAILED": 1, "TIMEOUT": 0, "BLOCKED": 1,
        "CANCELLED": 0,
    }  # fmt: skip
    assert [wave.size for wave in ended.rollout.state.waves] == [2, 4]


async def test_a_search_finds_executions_by_job_and_host(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    one, two = [(await fleet.create(names)).job.id for _ in range(2)]

    async def found(text: str) -> set[str]:
        return {row.id for row in (await search(store, parse(text))).rows}

    of_one, of_two = await found(f"job:{one}"), await found(f"job:{two}")
    assert (len(of_one), len(of_two), of_one & of_two) == (2, 2, set())
    assert await found("job:*") == of_one | of_two == await found("host:*")
    assert await found(f"-job:{one}") == of_two
    on_first = await found("host:web-001")
    assert len(on_first) == len(on_first & of_one) * 2 == 2
    assert await found(f"host:web-001 job:{one}") == on_first & of_one
    assert await found("job:other") == await found("host:other") == set()


async def test_hosts_that_do_not_answer_or_are_busy_are_shown_so(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(1))).job.id
    await fleet.plan(job_id)
    clock.pause(fleet.rules.silent_seconds + 1.0)
    assert (await reads_of(fleet).detail(job_id)).kinds == {"host_unreachable": 1}
    page = await reads_of(fleet).executions(await fleet.job(job_id), kind="host_unreachable")
    assert len(page.items) == 1


async def test_the_matrix_shows_each_host_as_the_list_of_executions_does(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(6)
    hosts = Hosts(store)
    for n, name in enumerate(names):
        host = await hosts.get(PROJECT, name)
        await hosts.edit(host.id, BY, labels={"site": "ams1" if n < 4 else "fra1", "role": "web"})
    await Blocks(store).add(PROJECT, NewBlock(host="web-006", reason="no"), BY)
    job_id = (await fleet.create(names, rollout=WAVES)).job.id
    matrix = JobMatrix(store, fleet.rules)

    async def check() -> list[str]:
        job = await fleet.job(job_id)
        found = await matrix.cells(job, names=True)
        page = await reads_of(fleet).executions(job)
        kinds = [KINDS[LETTERS.index(letter)].value for letter in found.cells]
        assert kinds == [view.shown.kind.value for view in page.items]
        assert found.hosts == [view.execution.host for view in page.items]
        return kinds

    assert await check() == ["new"] * 6
    await fleet.plan(job_id)
    first, second = await fleet.queued(job_id)
    run = await fleet.start(first)
    assert sorted(set(await check())) == ["awaiting_wave", "queued", "starting"]
    clock.pause(fleet.rules.silent_seconds + 1.0)
    assert "host_unreachable" in await check()
    await fleet.complete(run)
    await fleet.fail(second)
    await check()
    await fleet.run_out(job_id)
    assert sorted(await check()) == ["blocked", "failed", *["succeeded"] * 4]
    found = await matrix.cells(await fleet.job(job_id), names=True)
    assert found.waves == [1, 1, 2, 2, 2, 2]
    assert found.labels == {"site": ["ams1"] * 4 + ["fra1"] * 2}
    bare = await matrix.cells(await fleet.job(job_id))
    assert (bare.hosts, bare.waves, bare.labels) == ([], [], {})
    assert len(LETTERS) >= len(KINDS)


async def test_hosts_whose_agents_are_silent_are_listed(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    await Hosts(store).add(PROJECT, HostEntry(name="without-agent"), BY)
    reads = HostReads(store, fleet.rules)
    assert await reads.silent(PROJECT) == []
    clock.pause(fleet.rules.silent_seconds + 1.0)
    first = await reads.silent(PROJECT, limit=2)
    rest = await reads.silent(PROJECT, after=first[-1].name)
    assert [host.name for host in [*first, *rest]] == names
    host = await Hosts(store).get(PROJECT, names[0])
    await Hosts(store).edit(host.id, BY, state="cordoned")
    assert [one.name for one in await reads.silent(PROJECT)] == names[1:]


async def test_a_host_is_live_in_lists_as_long_as_it_is_for_jobs(
    store: Store, clock: VirtualClock
) -> None:
    """With a heartbeat of a second, too: what is heard is noted each 5 s."""
    fleet = FleetBench(store, FleetRules(heartbeat_seconds=1.0))
    job = (await fleet.create(await fleet.add_hosts(1))).job
    await fleet.plan(job.id)
    [host] = await Hosts(store).list(PROJECT)
    for seconds, is_live in ((6.0, True), (2.0, False)):
        clock.pause(seconds)
        [details] = await HostReads(store, fleet.rules).details([host])
        assert details.is_live is is_live
        kinds = (await reads_of(fleet).detail(job.id)).kinds
        assert kinds == {"queued" if is_live else "host_unreachable": 1}


async def test_executions_come_in_pages_with_filters(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(5)
    job_id = (await fleet.create(names, rollout=WAVES)).job.id
    await fleet.plan(job_id)
    first, second = await fleet.queued(job_id)
    await fleet.succeed(first)
    await fleet.fail(second)
    await fleet.plan(job_id)
    job, reads = await fleet.job(job_id), reads_of(fleet)
    page = await reads.executions(job, limit=3)
    assert [view.execution.host for view in page.items] == names[:3]
    rest = await reads.executions(job, after=page.next, limit=3)
    assert ([view.execution.host for view in rest.items], rest.next) == (names[3:], None)
    failed = await reads.executions(job, status="FAILED")
    assert [view.task.id for view in failed.items] == [second.id]
    wave = await reads.executions(job, wave=1)
    assert len(wave.items) == 2
    one = await reads.executions(job, host=names[4])
    assert [view.execution.host for view in one.items] == [names[4]]
    _, view = await reads.execution(second.id)
    assert (view.shown.status.value, view.shown.kind.value) == ("FAILED", "failed")
    with pytest.raises(NotFound):
        await reads.execution("none")


async def test_a_page_reads_no_more_than_it_shows(store: Store) -> None:
    fleet = FleetBench(store)
    job = (await fleet.create(await fleet.add_hosts(3))).job
    last = (await fleet.executions(job.id))[-1]
    await execute(store, "written:DELETE FROM holdfast_task WHERE id = :id", id=last.task_id)
    page = await reads_of(fleet).executions(job, limit=2)
    assert [view.execution.nth for view in page.items] == [0, 1]


async def test_jobs_are_found_by_id_and_external_id(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    jobs = [(await fleet.create(names, external_id=f"job-{n}")).job.id for n in range(3)]
    reads = reads_of(fleet)
    assert (await reads.find("job-1")).id == jobs[1]
    assert [job.id for job in await reads.many([jobs[2], "none", jobs[0]])] == [jobs[2], jobs[0]]
    assert (await reads.find(jobs[2], [PROJECT])).id == jobs[2]
    with pytest.raises(NotFound):
        await reads.find(jobs[0], ["other"])
    with pytest.raises(NotFound):
        await reads.find("job-9")
    assert [job.id for job in await reads.list()] == jobs[::-1]
    assert [job.id for job in await reads.list(before=jobs[2], limit=1)] == [jobs[1]]
    assert await reads.list(projects=["other"]) == []
    await fleet.run_out(jobs[0])
    assert [j.id for j in await reads.list(status=JobStatus.SUCCESS.value)] == [jobs[0]]


async def test_why_names_what_an_execution_waits_for(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(5)
    job_id = (await fleet.create(names, rollout=WAVES)).job.id
    await fleet.plan(job_id)

    async def codes(nth: int) -> list[str]:
        return [cause.code for cause in await causes_of(fleet, job_id, names[nth])]

    assert await codes(4) == ["wave"]
    assert await codes(0) == ["queued"]
    await JobControl(store, fleet.rules, fleet.bus).pause(job_id, BY)
    assert await codes(4) == ["halt", "wave"]
    await Blocks(store).add(PROJECT, NewBlock(host=names[0], reason="disk"), BY)
    host = await Hosts(store).get(PROJECT, names[0])
    await Hosts(store).edit(host.id, BY, state=HostState.CORDONED.value)
    assert await codes(0) == ["halt", "block", "host_cordoned"]
    clock.pause(fleet.rules.silent_seconds + 1.0)
    assert await codes(1) == ["halt", "host_unreachable"]


async def test_why_says_how_to_go_on(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    rollout = RolloutRequest(waves=(1, "rest"), order=HostOrder.NAME, gate=GateMode.ASK)
    created = await fleet.create(names, command_type="shell", command="true", rollout=rollout)
    job_id = created.job.id
    approval, wave = await causes_of(fleet, job_id, names[1])
    assert (approval.code, wave.code) == ("approval", "wave")
    assert f"`holdfast job show {job_id}` says who" in approval.text
    assert wave.text.endswith("no wave is open yet")
    bob = Person("user:bob", frozenset({"role:approver"}))
    await Approvals(store, fleet.rules, fleet.bus).approve(job_id, bob, By("user:bob", "yes"))
    await fleet.plan(job_id)
    for task in await fleet.queued(job_id):
        await fleet.succeed(task)
    await fleet.plan(job_id)
    [asked] = await causes_of(fleet, job_id, names[1])
    assert f"`holdfast job promote {job_id}`" in asked.text


async def causes_of(fleet: FleetBench, job_id: str, host: str) -> list[Cause]:
    job = await fleet.job(job_id)
    [view] = (await reads_of(fleet).executions(job, host=host)).items
    return (await ExecutionReasons(fleet.store, fleet.rules).why(job, view)).causes


async def test_the_plan_says_wave_and_whether_a_host_would_run(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(4)
    await Blocks(store).add(PROJECT, NewBlock(host=names[3], reason="disk"), BY)
    job = (await fleet.create(names, rollout=WAVES)).job
    plan = await reads_of(fleet).plan(job)
    assert [(p.execution.host, p.wave, p.would_run) for p in plan] == [
        (names[0], 1, True),
        (names[1], 1, True),
        (names[2], 2, True),
        (names[3], 2, False),
    ]
    assert "disk" in plan[3].reason


async def test_drift_is_shown_and_never_followed(store: Store) -> None:
    fleet = FleetBench(store)
    await fleet.add_hosts(2, labels={"role": "web"})
    job = (await fleet.create(selector="role=web")).job
    host = await Hosts(store).get(PROJECT, "web-001")
    await Hosts(store).edit(host.id, BY, labels={"role": "db"})
    gone = await Hosts(store).get(PROJECT, "web-002")
    await Hosts(store).remove(gone.id, BY)
    found = await reads_of(fleet).drift(job)
    assert (found.changed, found.gone) == (("web-001",), ("web-002",))


async def adopt(store: Store, task_id: str) -> None:
    """An operator takes over the late result of a failed execution."""
    force = Force("user:ann", Status.COMPLETED, "its host says so", evidence=Evidence(1, "0"))
    [ruling] = await store.apply([Instruction(task_id, force)])
    assert isinstance(ruling, Transition)


async def test_a_late_result_that_an_operator_takes_over_is_counted_as_it_is_shown(
    store: Store,
) -> None:
    """Everywhere, and the status of the job that has ended stays."""
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(2))).job.id
    await fleet.plan(job_id)
    lost, other = await fleet.queued(job_id)
    await fleet.fail(lost, FailureKind.LOST)
    await fleet.fail(other)
    ended = await fleet.plan(job_id)
    reads = JobReads(store, fleet.rules)
    assert (await reads.detail(job_id)).kinds == {"failed": 1, "lost": 1}
    await adopt(store, lost.id)
    assert (await reads.detail(job_id)).kinds == {"failed": 1, "succeeded": 1}
    assert await fleet.pipeline.due_jobs() == [job_id]
    for _ in ("corrected", "as before"):
        job = await fleet.plan(job_id)
        detail = await reads.detail(job_id)
        [row] = await reads.list()
        assert (
            (job.status, job.version) == (ended.status, ended.version) == (row.status, row.version)
        )
        assert detail.kinds == counts_of(row) == {"failed": 1, "succeeded": 1}
        assert (detail.rollout.state.ended.success, detail.rollout.corrected) == (1, 1)
    assert {v.shown.kind.value for v in (await reads.executions(ended)).items} == {
        "failed",
        "succeeded",
    }
    assert job_id not in await fleet.pipeline.due_jobs(), "it is not counted twice"
    [event] = await events(store, "job.corrected")
    assert event.data["kinds"] == {"failed": 1, "succeeded": 1}


async def test_a_job_that_goes_on_is_judged_by_late_results_that_were_taken_over(
    store: Store,
) -> None:
    fleet = FleetBench(store)
    made = RolloutRequest(
        waves=("rest",), max_in_flight=2, budget={BudgetName.LOST: 0}, on_breach=HaltMode.PAUSE
    )
    job_id = (await fleet.create(await fleet.add_hosts(3), rollout=made)).job.id
    await fleet.plan(job_id)
    lost, other = await fleet.queued(job_id)
    await fleet.fail(lost, FailureKind.LOST)
    assert (await fleet.plan(job_id)).status is JobStatus.PAUSED
    await adopt(store, lost.id)
    assert (await fleet.plan(job_id)).status is JobStatus.PAUSED, "people have to look at it"
    await JobControl(store, fleet.rules, fleet.bus).resume(job_id, BY)
    await fleet.plan(job_id)
    await fleet.succeed(other)
    await fleet.plan(job_id)
    [last] = await fleet.queued(job_id)
    await fleet.succeed(last)
    job = await fleet.plan(job_id)
    assert (job.status, counts_of(job)) == (JobStatus.SUCCESS, {"succeeded": 3})
