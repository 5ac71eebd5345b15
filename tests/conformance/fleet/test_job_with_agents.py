"""Jobs and agents together: from the request to counted results, with what may come between."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import JobStatus
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.batch import OFFER_LOOK
from holdfast.fleet.agents.parts import AgentMessage
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.fleet.jobs.outputs import JobOutputs
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.jobs.why import ExecutionReasons
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    chunk,
    enrol,
    exited,
    join_token,
    revoke_slot,
    running,
)
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.conformance.tasks.helpers import check_counters


async def joined(fleet: FleetBench, count: int) -> dict[str, TestAgent]:
    """Hosts with agents, by name."""
    agents = Agents(fleet.store, fleet.rules)
    token = await join_token(fleet.store)
    names = [f"web-{n:03}" for n in range(1, count + 1)]
    return {
        name: TestAgent(agents, await enrol(agents, fleet.store, name, token)) for name in names
    }


async def started(agent: TestAgent, *, is_asked: bool = True) -> tuple[str, int]:
    """The agent takes its offer and starts. Returns the execution and the token."""
    [offer] = (await agent.sync()).offers
    token = (offer.execution, offer.token)
    if is_asked and not offer.go:
        answer = await agent.sync(**accept(*token))
        assert [(go.execution, go.token) for go in answer.go] == [token]
    await agent.sync(**running(*token))
    return token


async def test_a_job_from_the_request_to_its_outputs(store: Store) -> None:
    fleet = FleetBench(store)
    agents = await joined(fleet, 3)
    job = (await fleet.create(list(agents), command_type="exec", command="uname")).job
    await fleet.publish()
    run = ("", 0)
    for agent in agents.values():
        run = await started(agent)
        done = exited(*run, sizes={"stdout": 6})
        answer = await agent.sync(chunks=[chunk(run[0], b"Linux\n", token=run[1])], results=[done])
        assert answer.acks == [done.id]
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.SUCCESS, {"succeeded": 3})
    folded = await JobOutputs(store).folded(ended)
    assert [(g.count, g.hosts, g.sample) for g in folded.groups] == [
        (3, "web-[001-003]", "Linux\n")
    ]
    _, view = await JobReads(store, fleet.rules).execution(run[0])
    assert (await JobOutputs(store).log(view, start=1, limit_bytes=3)).data == b"inu"
    await check_counters(store)


async def test_a_busy_host_waits_its_turn_and_spends_nothing(store: Store) -> None:
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    first = (await fleet.create(["web-001"], command_type="exec", command="true")).job
    second = (await fleet.create(["web-001"], command_type="exec", command="true")).job
    await fleet.publish()
    run = await started(agent)
    assert (await agent.sync(**running(*run))).offers == []
    waiting = first.id if run[0] in await fleet.tasks(second.id) else second.id
    reads = JobReads(store, fleet.rules)
    assert (await reads.detail(waiting)).kinds == {"host_busy": 1}
    job = await fleet.job(waiting)
    [view] = (await reads.executions(job)).items
    why = await ExecutionReasons(store, fleet.rules).why(job, view)
    assert [cause.code for cause in why.causes] == ["host_busy"]
    other = second.id if waiting == first.id else first.id
    assert f"`holdfast job show {other}`" in why.causes[0].text
    [offer] = (await agent.sync(results=[exited(*run)])).offers
    assert offer.execution == view.task.id
    assert (await fleet.tasks(waiting))[offer.execution].attempts == 1


async def test_why_says_that_an_agent_takes_nothing(store: Store) -> None:
    """A drained agent is live, so nothing else tells what its executions wait for."""
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    drain = (await fleet.create(["web-001"], command_type="exec", command="true")).job
    await fleet.publish()
    run = await started(agent)
    await agent.sync(results=[exited(*run)], capacity=0)
    assert (await fleet.plan(drain.id)).status is JobStatus.SUCCESS
    job_id = (await fleet.create(["web-001"], command_type="exec", command="true")).job.id
    await fleet.publish()
    assert (await agent.sync(capacity=0)).offers == []
    late = AgentMessage(agent.host_id, replace(agent.message().sync, seq=1))

    async def causes() -> list[str]:
        job = await fleet.job(job_id)
        [view] = (await JobReads(store, fleet.rules).executions(job)).items
        return [c.code for c in (await ExecutionReasons(store, fleet.rules).why(job, view)).causes]

    assert await causes() == ["agent_closed"]
    assert (await agent.send(late)).offers == []
    assert await causes() == ["agent_closed"]
    assert (await agent.sync()).offers
    assert "agent_closed" not in await causes()


async def test_a_host_ends_the_same_by_an_offer_and_by_the_rollout(
    store: Store, clock: VirtualClock
) -> None:
    """One host comes too late for its offer; the rollout ends the other one."""
    fleet = FleetBench(store)
    agents = await joined(fleet, 2)
    fields = {"command_type": "exec", "command": "true", "not_after_seconds": 60.0}
    job = (await fleet.create(list(agents), **fields)).job
    await fleet.publish()
    clock.set(clock.now() + 61.0)
    assert (await agents["web-001"].sync()).offers == []
    assert (await fleet.statuses(job.id)) == {"aborted": 1, "queued": 1}
    assert counts_of(await fleet.plan(job.id)) == {"timeout_delivery": 2}
    [detail] = {execution.detail for execution in await fleet.executions(job.id)}
    assert "did not take it up in time" in detail


async def test_paused_jobs_do_not_keep_a_host_from_others(store: Store) -> None:
    """However many there are: they come before the one that may start."""
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    fields = {"command_type": "exec", "command": "true"}
    control = JobControl(store, fleet.rules, fleet.bus)
    for _ in range(OFFER_LOOK):
        job = (await fleet.create(["web-001"], **fields)).job
        await fleet.publish()
        await control.pause(job.id, BY)
    free = (await fleet.create(["web-001"], **fields)).job
    await fleet.publish()
    [offer] = (await agent.sync()).offers
    assert offer.job == free.id
    [news] = await agent.agents.news([agent.host_id])
    assert (news.waiting, news.due_at) == (0, None)


async def test_a_killed_execution_is_confirmed_by_its_agent(store: Store) -> None:
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    job = (await fleet.create(["web-001"], command_type="exec", command="sleep 9")).job
    await fleet.publish()
    run = await started(agent)
    await JobControl(store, fleet.rules, fleet.bus).abort(job.id, BY, mode="kill")
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.CANCELLED, {"cancelled_unconfirmed": 1})
    [order] = (await agent.sync(**running(*run))).commands
    assert (order.type, order.execution, order.id[:4]) == ("ABORT", run[0], "ivn_")
    killed = exited(*run, exit_code=None, signal=15, killed=True)
    await agent.sync(results=[killed])
    reads = JobReads(store, fleet.rules)
    assert (await reads.detail(job.id)).kinds == {"cancelled_killed": 1}
    intervention = await store.interventions.get(order.id)
    assert intervention is not None
    assert intervention.state.value == "applied"


async def test_a_command_that_ended_under_a_revoked_slot_is_killed_at_once(store: Store) -> None:
    """Its agent reported the end before the abort, so there is nothing to confirm."""
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    job = (await fleet.create(["web-001"], command_type="exec", command="sleep 9")).job
    await fleet.publish()
    run = await started(agent)
    await revoke_slot(store, agent.host_id)
    await agent.sync(results=[exited(*run)])
    await JobControl(store, fleet.rules, fleet.bus).abort(job.id, BY, mode="kill")
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.CANCELLED, {"cancelled_killed": 1})


async def test_a_job_that_ends_between_attempts_shows_the_failure(
    store: Store, clock: VirtualClock
) -> None:
    """The command ran, so its host is no host that did not take it up in time."""
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    fields = {"command_type": "exec", "command": "make", "idempotent": True}
    job = (await fleet.create(["web-001"], not_after_seconds=60.0, **fields)).job
    await fleet.publish()
    run = await started(agent)
    await agent.sync(results=[exited(*run, exit_code=2)])
    assert (await fleet.statuses(job.id)) == {"queued": 1}
    clock.set(clock.now() + 61.0)
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.FAILED, {"failed": 1})
    [view] = (await JobReads(store, fleet.rules).executions(ended)).items
    assert "exit code 2; it was not tried again" in view.shown.reason


async def test_a_halted_job_gives_no_go(store: Store) -> None:
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    job = (await fleet.create(["web-001"], command_type="exec", command="true")).job
    await fleet.publish()
    [offer] = (await agent.sync()).offers
    await JobControl(store, fleet.rules, fleet.bus).abort(job.id, BY)
    answer = await agent.sync(**accept(offer.execution, offer.token))
    assert answer.go == []
    assert [one.execution for one in answer.withdraw] == [offer.execution]
    assert counts_of(await fleet.plan(job.id)) == {"cancelled_before_start": 1}


async def test_a_block_that_comes_before_the_offer_holds_until_it_is_lifted(store: Store) -> None:
    fleet = FleetBench(store)
    agent = (await joined(fleet, 1))["web-001"]
    job = (await fleet.create(["web-001"], command_type="exec", command="true")).job
    await fleet.publish()
    new = NewBlock(host="web-001", reason="disk", effect="hold")
    held = await Blocks(store).add(PROJECT, new, BY)
    assert (await agent.sync()).offers == []
    assert (await JobReads(store, fleet.rules).detail(job.id)).kinds == {"held_by_block": 1}
    await Blocks(store).lift(held.id, BY)
    assert await Deadlines(store, fleet.rules, fleet.bus).release_held() == 1
    run = await started(agent)
    await agent.sync(results=[exited(*run)])
    assert (await fleet.plan(job.id)).status is JobStatus.SUCCESS


async def test_a_host_that_falls_silent_after_its_go_is_unknown_then_lost(
    store: Store, clock: VirtualClock
) -> None:
    """Also if it is the only host: agents are served, though none has spoken for long."""
    fleet = FleetBench(store)
    agents = await joined(fleet, 1)
    service = agents["web-001"].agents
    job = (await fleet.create(["web-001"], command_type="exec", command="true")).job
    await fleet.publish()
    await service.serve()
    await started(agents["web-001"])
    reads = JobReads(store, fleet.rules)
    for _ in range(14):
        clock.pause(5.0)
        await service.serve()
    await store.sweep()
    await fleet.plan(job.id)
    detail = await reads.detail(job.id)
    assert detail.kinds == {"unknown": 1}
    assert detail.rollout.unknown == 1
    for _ in range(181):
        clock.pause(5.0)
        await service.serve()
    await store.sweep()
    ended = await fleet.plan(job.id)
    assert (ended.status, counts_of(ended)) == (JobStatus.FAILED, {"lost": 1})
