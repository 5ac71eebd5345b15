"""Jobs with random ends, orders, blocks, times and crashes: the laws of a rollout hold after every act.

Laws: the window is never exceeded by hosts that may start; nothing is admitted after a final halt, while
paused or without an approval; every host ends once and is counted once, in the bucket that its task says;
the job ends.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Abort, Instruction
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.jobs.status import may_move
from holdfast.core.fleet.model import ApprovalState, Job, JobStatus
from holdfast.core.fleet.rollout.policy import (
    BudgetName,
    HaltMode,
    HostOrder,
    RolloutRequest,
    size_of,
)
from holdfast.core.fleet.status import shown
from holdfast.core.task import ENDED, FailureKind, Status, Task
from holdfast.errors import Conflict, HoldfastError
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl, RolloutChange
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.jobs.job_rows import counts_of, rollout_of
from holdfast.queue.by import By
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.conformance.fleet.test_job_crashes import Crash, DyingStore
from tests.conformance.tasks.helpers import check_counters

SEEDS: Final = 12
ACTS: Final = 60
BOB = Person("user:bob", frozenset({"role:approver"}))


class World:
    """One job under random acts."""

    def __init__(self, fleet: FleetBench, clock: VirtualClock, seed: int) -> None:
        self.fleet = fleet
        self.clock = clock
        self.random = random.Random(seed)
        self.job_id = ""
        self.runs: dict[str, Task] = {}
        self.admitted: set[str] = set()
        self.was_final = False
        self.window = 0
        self.status = JobStatus.NEW
        self.blocks: list[str] = []

    async def make(self) -> None:
        pick = self.random
        names = await self.fleet.add_hosts(pick.randint(1, 14))
        rollout = RolloutRequest(
            waves=pick.choice([(), (1, "rest"), (2, "50%", "rest")]),
            max_in_flight=pick.choice(["1", "3", "50%", "100"]),
            order=pick.choice(list(HostOrder)),
            on_breach=pick.choice(list(HaltMode)),
            budget={BudgetName.FAILED: pick.choice([None, 0, "30%"])},
            canary_budget=pick.choice([None, 0]),
            straggler_seconds=5.0,
        )
        kind = pick.choice(["noop", "shell"])
        fields = {} if kind == "noop" else {"command": "true"}
        created = await self.fleet.create(
            names, command_type=kind, rollout=rollout, not_after_seconds=500.0, **fields
        )
        self.job_id = created.job.id

    # -- acts ------------------------------------------------------------------------------------

    async def act(self) -> None:
        acts = [
            (8, self.plan),
            (6, self.start),
            (6, self.end),
            (1, self.vote),
            (1, self.order),
            (1, self.abort_one),
            (1, self.block),
            (1, self.lift),
            (1, self.wait),
        ]
        choose = self.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]
        await choose()

    async def plan(self) -> None:
        at = self.random.choice([None, None, self.random.randint(0, 25)])
        if at is None:
            await self.fleet.plan(self.job_id)
            return
        dying = DyingStore(self.fleet.store, at)
        other = FleetBench(dying, self.fleet.rules)  # type: ignore[arg-type]
        try:
            await other.pipeline.plan_job(self.job_id)
        except Crash:
            return

    async def start(self) -> None:
        free = [task for task in await self.fleet.queued(self.job_id) if task.held_by is None]
        job = await self.fleet.job(self.job_id)
        halt = rollout_of(job).state.halt
        if free and (halt is None or not halt.is_final):
            task = self.random.choice(free)
            self.runs[task.id] = await self.fleet.start(task)

    async def end(self) -> None:
        if not self.runs:
            return
        task_id = self.random.choice(sorted(self.runs))
        run = self.runs.pop(task_id)
        current = (await self.fleet.tasks(self.job_id))[task_id]
        if current.status is not Status.RUNNING or current.fence != run.fence:
            return
        kind = self.random.choice([None, None, None, *FailureKind])
        if kind is None or kind in (FailureKind.DEPENDENCY, FailureKind.REJECTED):
            await self.fleet.complete(run)
        else:
            await self.fleet.fail_run(run, kind)

    async def vote(self) -> None:
        approvals = Approvals(self.fleet.store, self.fleet.rules, self.fleet.bus)
        verdict = self.random.choice([approvals.approve, approvals.approve, approvals.reject])
        await self.may_refuse(verdict(self.job_id, BOB, By("user:bob", "decided")))

    async def order(self) -> None:
        control = JobControl(self.fleet.store, self.fleet.rules, self.fleet.bus)
        pick = self.random.random()
        if pick < 0.3:
            await self.may_refuse(control.pause(self.job_id, BY))
        elif pick < 0.7:
            await self.may_refuse(control.resume(self.job_id, BY))
        elif pick < 0.9:
            change = RolloutChange(max_in_flight=self.random.choice([1, 2, 5]))
            await self.may_refuse(control.set(self.job_id, change, BY))
        else:
            mode = self.random.choice(["drain", "kill"])
            await self.may_refuse(control.abort(self.job_id, BY, mode=mode))

    async def abort_one(self) -> None:
        task_id = self.random.choice(sorted(await self.fleet.tasks(self.job_id)))
        await self.fleet.store.apply([Instruction(task_id, Abort("user:ann", "this one not"))])

    async def block(self) -> None:
        effect = self.random.choice(["hold", "refuse"])
        name = f"web-{self.random.randint(1, 14):03}"
        on_lift = self.random.choice(["requeue", "drop", "reapprove"])
        new = NewBlock(host=name, reason="x", effect=effect, on_lift=on_lift)
        try:
            self.blocks.append((await Blocks(self.fleet.store).add(PROJECT, new, BY)).id)
        except HoldfastError:
            return

    async def lift(self) -> None:
        if self.blocks:
            await Blocks(self.fleet.store).lift(self.blocks.pop(), BY)
        await Deadlines(self.fleet.store, self.fleet.rules, self.fleet.bus).release_held()

    async def wait(self) -> None:
        self.clock.pause(self.random.choice([0.5, 2.0, 10.0]))
        await self.fleet.hear_agents()

    async def may_refuse(self, order: object) -> None:
        try:
            await order  # type: ignore[misc]
        except Conflict:
            return

    # -- laws ------------------------------------------------------------------------------------

    async def check(self) -> Job:
        job = await self.fleet.job(self.job_id)
        state = rollout_of(job).state
        assert may_move(self.status, job.status), f"{self.status} became {job.status}"
        self.status = job.status
        tasks = await self.fleet.tasks(self.job_id)
        executions = await self.fleet.executions(self.job_id)
        admitted = {e.task_id for e in executions if e.wave is not None}
        away = {e.task_id for e in executions if e.away}
        started = [
            task for task in tasks.values()
            if task.status in (Status.QUEUED, Status.RUNNING) and task.id not in away
        ]  # fmt: skip
        if admitted - self.admitted:
            assert not self.was_final, "nothing is admitted after a halt"
            assert job.approval_state in (ApprovalState.NOT_REQUIRED, ApprovalState.APPROVED)
        window = size_of(rollout_of(job).policy.max_in_flight, job.hosts)
        self.window = max(window, min(self.window, len(started)))
        assert len(started) <= self.window, "the window is kept, or left by those that run"
        self.admitted = admitted
        self.was_final = state.halt is not None and state.halt.is_final
        tallied = [e for e in executions if e.tallied]
        assert state.ended.total == len(tallied) == sum(counts_of(job).values())
        assert all(e.ended_at is not None for e in tallied)
        kinds = Counter(shown(tasks[e.task_id], e, job).kind.value for e in tallied)
        assert counts_of(job) == dict(kinds), "each end is counted by its kind"
        return job

    async def bring_to_its_end(self) -> Job:
        """The time of the job passes, and what runs ends."""
        self.clock.pause(501.0)
        deadlines = Deadlines(self.fleet.store, self.fleet.rules, self.fleet.bus)
        for _ in range(50):
            await deadlines.expire_approvals()
            await deadlines.release_held()
            await self.fleet.plan(self.job_id)
            while self.runs:
                await self.end()
            job = await self.check()
            if job.finished_at is not None:
                return job
        raise AssertionError("the job did not end")


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_laws_hold_after_every_act(store: Store, clock: VirtualClock, seed: int) -> None:
    world = World(FleetBench(store), clock, seed)
    await world.make()
    for _ in range(ACTS):
        await world.act()
        await world.check()
    job = await world.bring_to_its_end()
    tasks = await world.fleet.tasks(job.id)
    assert sum(counts_of(job).values()) == job.hosts == len(tasks)
    assert all(task.status in ENDED for task in tasks.values())
    await check_counters(store)
