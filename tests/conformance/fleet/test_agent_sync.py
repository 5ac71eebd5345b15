"""Syncs of agents against both databases: offers, results, slots, blocks, repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.core.command import Abort, Instruction
from holdfast.core.errors import NodeFenced
from holdfast.core.fleet.agents.facts import Run
from holdfast.core.fleet.agents.offer_rules import BlockVerdict
from holdfast.core.fleet.agents.wire import AgentCommandAck, AgentSyncAnswer
from holdfast.core.fleet.model import Block, BlockEffect
from holdfast.core.intervention import InterventionState, InterventionType, NewIntervention
from holdfast.core.task import FailureKind, Priority, Status
from holdfast.errors import InvalidInput, NotFound
from holdfast.fleet.agents.sources import StoredBlocks
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.store.script import Script
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    IDEMPOTENT,
    TestAgent,
    accept,
    add_job,
    chunk,
    enrol,
    exited,
    get_execution,
    get_task,
    join_token,
    later,
    make_agents,
    revoke_slot,
    running,
    set_job,
    slot_of,
)
from tests.conformance.fleet.support import BY, events


async def make_agent(store: Store, name: str = "web-1") -> TestAgent:
    agents = make_agents(store)
    return TestAgent(agents, await enrol(agents, store, name))


async def started(store: Store, agent: TestAgent) -> str:
    """An execution that runs on the host of the agent."""
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await agent.sync(**accept(execution))
    await agent.sync(**running(execution))
    return execution


async def test_an_agent_that_speaks_for_another_host_is_refused(store: Store) -> None:
    """Its own report is not acknowledged with it; the other host goes on."""
    agents = make_agents(store)
    ours = TestAgent(agents, await enrol(agents, store, "web-1"))
    other = TestAgent(agents, await enrol(agents, store, "web-2"))
    execution = await started(store, ours)
    before = (await get_task(store, execution), await get_execution(store, execution))
    parts: list[dict[str, Any]] = [
        {"results": [exited(execution)]},
        {"refuses": [exited(execution, state="never_started")]},
        running(execution),
        accept(execution),
        {"chunks": [chunk(execution, b"x")]},
    ]
    for part in parts:
        # Both in one batch, so that the task is locked for its own host.
        for messages in ([other.message(**part)], [other.message(**part), ours.message()]):
            answers = await agents.sync(messages)
            assert isinstance(answers[0], InvalidInput)
            assert "web-2" in str(answers[0])
            assert all(isinstance(answer, AgentSyncAnswer) for answer in answers[1:])
    after = (await get_task(store, execution), await get_execution(store, execution))
    assert replace(after[0], lease_until=None) == replace(before[0], lease_until=None)
    assert after[1] == before[1]
    assert (await ours.sync(results=[exited(execution)])).acks == [f"{execution}-1"]


async def test_offer_accept_go_started_result(store: Store) -> None:
    agent = await make_agent(store)
    [execution] = await add_job(store, [agent.host_id])
    answer = await agent.sync()
    assert [(one.execution, one.token, one.go) for one in answer.offers] == [(execution, 1, False)]
    assert await slot_of(store, agent.host_id) == (1, execution)
    answer = await agent.sync(**accept(execution))
    assert [(one.execution, one.token) for one in answer.go] == [(execution, 1)]
    await agent.sync(**running(execution))
    answer = await agent.sync(results=[exited(execution)])
    assert answer.acks == [f"{execution}-1"]
    assert answer.acked_token == 1
    assert (await get_task(store, execution)).status is Status.COMPLETED
    row = await get_execution(store, execution)
    assert (row.exit_code, row.token, row.ended_at is None) == (0, 1, False)
    assert await slot_of(store, agent.host_id) == (1, None)
    kinds = [event.kind for event in await events(store, "task.")]
    assert kinds == [
        "task.enqueued",
        "task.started",
        "task.progress",
        "task.progress",
        "task.completed",
    ]


async def test_one_transaction_serves_many_agents(store: Store) -> None:
    agents = make_agents(store)
    join = await join_token(store)
    hosts = [TestAgent(agents, await enrol(agents, store, f"web-{n}", join)) for n in range(5)]
    executions = await add_job(store, [host.host_id for host in hosts])
    answers = await agents.sync([host.message() for host in hosts])
    offered = [a.offers[0].execution for a in answers if isinstance(a, AgentSyncAnswer)]
    assert offered == executions
    await agents.sync([h.message(**accept(e)) for h, e in zip(hosts, executions, strict=True)])
    await agents.sync(
        [h.message(results=[exited(e)]) for h, e in zip(hosts, executions, strict=True)]
    )
    for execution in executions:
        assert (await get_task(store, execution)).status is Status.COMPLETED


async def test_the_end_of_a_run_and_the_next_offer_are_one_transaction(store: Store) -> None:
    agent = await make_agent(store)
    [low] = await add_job(store, [agent.host_id])
    [high] = await add_job(store, [agent.host_id], priority=Priority.HIGH)
    answer = await agent.sync()
    assert [one.execution for one in answer.offers] == [high]
    await agent.sync(**accept(high))
    answer = await agent.sync(results=[exited(high)])
    assert [(one.execution, one.token) for one in answer.offers] == [(low, 2)]


async def test_a_repeated_sync_changes_nothing_and_is_answered_alike(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    message = agent.message(results=[exited(execution)])
    first = await agent.send(message)
    before = len(await events(store))
    task, row = await get_task(store, execution), await get_execution(store, execution)
    assert await agent.send(message) == first
    assert len(await events(store)) == before
    assert await get_task(store, execution) == task
    assert await get_execution(store, execution) == row


async def test_an_answer_that_got_lost_is_given_again(store: Store) -> None:
    """The offer was committed, the answer was lost, and another gateway gets the repeat."""
    agent = await make_agent(store)
    [execution] = await add_job(store, [agent.host_id])
    message = agent.message()
    await agent.send(message)  # the answer is lost
    agent.agents = make_agents(store)
    answer = await agent.send(message)
    assert [(one.execution, one.token) for one in answer.offers] == [(execution, 1)]
    go = agent.message(**accept(execution))
    await agent.send(go)
    assert [one.token for one in (await agent.send(go)).go] == [1]
    task = await get_task(store, execution)
    assert (task.fence, task.attempts) == (1, 1)


async def test_an_idempotent_command_gets_its_go_with_the_offer_and_another_attempt(
    store: Store,
) -> None:
    agent = await make_agent(store)
    [execution] = await add_job(store, [agent.host_id], IDEMPOTENT, attempts=2)
    assert (await agent.sync()).offers[0].go
    await agent.sync(results=[exited(execution, exit_code=1)])
    task = await get_task(store, execution)
    assert (task.status, task.attempts) == (Status.QUEUED, 1)
    assert await slot_of(store, agent.host_id) == (1, None)


async def test_an_agent_that_may_not_speak_is_refused_alone(store: Store) -> None:
    agents = make_agents(store)
    join = await join_token(store)
    one, other = [TestAgent(agents, await enrol(agents, store, f"web-{n}", join)) for n in range(2)]
    [execution] = await add_job(store, [other.host_id])
    old = one.message()
    stale = replace(old, sync=replace(old.sync, incarnation=9))
    unknown = replace(old, host_id="hst_none")
    answers = await agents.sync([stale, unknown, other.message()])
    assert isinstance(answers[0], NodeFenced)
    assert isinstance(answers[1], NotFound)
    assert isinstance(answers[2], AgentSyncAnswer)
    assert answers[2].offers[0].execution == execution


async def test_a_cancelled_command_is_stopped_and_confirmed(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    await store.apply([Instruction(execution, Abort("user:ann", "wrong"))])
    [command] = (await agent.sync(**running(execution))).commands
    assert (command.type, command.token) == ("ABORT", 1)
    assert await slot_of(store, agent.host_id) == (1, execution)
    killed = exited(execution, exit_code=None, signal=15, killed=True)
    await agent.sync(results=[killed])
    row = await get_execution(store, execution)
    assert (row.outcome, row.signal) == ("cancelled_killed", 15)
    assert await slot_of(store, agent.host_id) == (1, None)


async def test_the_intervention_that_cancels_a_run_is_applied_when_its_host_confirms(
    store: Store,
) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    new = NewIntervention(
        id="ivn_1",
        task_id=execution,
        type=InterventionType.ABORT,
        command=Abort("user:ann", "wrong"),
        actor="user:ann",
        reason="wrong",
    )
    await store.interventions.issue(new)
    [command] = (await agent.sync(**running(execution))).commands
    assert (command.id, command.token) == ("ivn_1", 1)
    row = await store.interventions.get("ivn_1")
    assert row is not None
    assert row.state is InterventionState.DELIVERED
    done = AgentCommandAck("ivn_1", "done")
    killed = exited(execution, exit_code=None, signal=15, killed=True)
    await agent.sync(results=[killed], command_acks=[done])
    row = await store.interventions.get("ivn_1")
    assert row is not None
    assert row.state is InterventionState.APPLIED
    assert (await get_execution(store, execution)).outcome == "cancelled_killed"


async def test_a_revoked_slot_is_free_and_its_old_token_counts_no_more(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    [second] = await add_job(store, [agent.host_id])
    await revoke_slot(store, agent.host_id)
    answer = await agent.sync(**running(execution))
    assert [one.type for one in answer.commands] == ["ABORT"]
    assert not answer.offers, "the agent still runs the old one"
    answer = await agent.sync(results=[exited(execution)])
    assert [(one.execution, one.token) for one in answer.offers] == [(second, 3)]
    assert (await get_task(store, execution)).status is Status.RUNNING
    assert (await get_execution(store, execution)).late_json is not None
    assert [event.kind for event in await events(store, "task.late")] == ["task.late"]


async def test_lease_ends_stuck_then_lost_then_late(bench: Bench, store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    later(bench, 61.0)
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.STUCK
    later(bench, 901.0)
    await store.sweep()
    task = await get_task(store, execution)
    assert task.status is Status.FAILED
    assert task.failure is not None
    assert task.failure.kind is FailureKind.LOST
    assert await slot_of(store, agent.host_id) == (1, execution), "it may still run"
    await agent.sync(results=[exited(execution)])
    assert (await get_task(store, execution)).status is Status.FAILED
    assert (await get_execution(store, execution)).late_json is not None
    assert await slot_of(store, agent.host_id) == (1, None)


async def test_an_agent_that_comes_back_reconciles_its_stuck_task(
    bench: Bench, store: Store
) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    later(bench, 61.0)
    await store.sweep()
    await agent.sync(**running(execution))
    task = await get_task(store, execution)
    assert task.status is Status.RUNNING
    assert task.lease_until == store.now() + 60.0
    assert len(await events(store, "execution.reconciled")) == 1


async def test_a_renewal_lengthens_the_lease(bench: Bench, store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    later(bench, 20.0)
    await agent.sync(**running(execution))
    assert (await get_task(store, execution)).lease_until == store.now() + 60.0


async def test_a_job_that_was_halted_gets_no_go_and_then_ends(store: Store) -> None:
    agent = await make_agent(store)
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await set_job(store, execution, halt_json='{"mode":"drain","reason":"too many failed"}')
    answer = await agent.sync(**accept(execution))
    assert [one.token for one in answer.withdraw] == [1]
    assert not answer.go
    await agent.sync()
    assert (await get_task(store, execution)).status is Status.ABORTED
    row = await get_execution(store, execution)
    assert (row.outcome, row.detail) == ("skipped", "too many failed")
    assert row.ended_at is not None


async def test_a_cordoned_host_gets_nothing_new(store: Store) -> None:
    agent = await make_agent(store)
    [execution] = await add_job(store, [agent.host_id])
    await Hosts(store).edit(agent.host_id, BY, state="cordoned")
    assert not (await agent.sync()).offers
    await Hosts(store).edit(agent.host_id, BY, state="active")
    assert [one.execution for one in (await agent.sync()).offers] == [execution]


async def test_a_paused_queue_gets_no_offers(store: Store) -> None:
    agent = await make_agent(store)
    await add_job(store, [agent.host_id])
    await store.upkeep.pause_queue("fleet", actor="user:ann", reason="x")
    assert not (await agent.sync()).offers


async def test_blocks_are_judged_with_the_offer(store: Store) -> None:
    refuse = Block(
        id="blk_1",
        project="default",
        host_id="h",
        command_type="*",
        reason="disk swap",
        owner="user:ann",
        created_at=0.0,
    )
    hold = replace(refuse, id="blk_2", effect=BlockEffect.HOLD)
    verdicts: dict[str, Block] = {}

    class Blocks(StoredBlocks):
        def verdicts(
            self, runs: Sequence[Run], epochs: Mapping[str, int], now: float
        ) -> Script[BlockVerdict]:
            yield from ()
            return lambda run: verdicts.get(run.task.id)

    agents = make_agents(store, blocks=Blocks())
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [refused] = await add_job(store, [agent.host_id])
    [held] = await add_job(store, [agent.host_id])
    [free] = await add_job(store, [agent.host_id])
    verdicts |= {refused: refuse, held: hold}
    assert [one.execution for one in (await agent.sync()).offers] == [free]
    assert (await get_task(store, refused)).status is Status.ABORTED
    assert (await get_execution(store, refused)).outcome == "blocked"
    task = await get_task(store, held)
    assert (task.status, task.held_by) == (
        Status.QUEUED,
        "block:blk_2: block blk_2 of user:ann: disk swap, until it is lifted",
    )
    assert (await get_execution(store, held)).block_id == "blk_2"
