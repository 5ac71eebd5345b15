"""Operators of a simulated fleet: they make jobs, decide approvals, block, pause, abort and revoke slots."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.errors import GatewayUnavailable
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import SLOT, BlockEffect, OnLift, OnRunning
from holdfast.core.fleet.rollout.policy import RolloutRequest
from holdfast.core.node_identity import NodeState
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import HoldfastError
from holdfast.fleet.blocks.blocks import NewBlock
from holdfast.fleet.jobs.control import RolloutChange
from holdfast.queue.by import By
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.fleet.server import AnyServer, OpenServer
from holdfast.sim.fleet_history import FleetHistory
from holdfast.sim.node import Node
from holdfast.store.scripts import leases
from holdfast.store.scripts.leases import Teller
from holdfast.sync.nodes.nodes import Nodes

T = TypeVar("T")
REPEATS_MAX: Final = 6
COMMANDS: Final = (
    *("true", "true", "false", "sleep 3", "sleep 20", "sleep 100", "echo hello", "flood 5000"),
    *("exit 3", "nonsense"),
)
ROLES: Final = ("role=web", "role=worker", "zone=a", "rack=r01,rack=r02,rack=r03", "*")
LOOSE: Final = {"failed": "100%", "timeout": "100%", "lost": "100%", "unreachable": "100%"}
MADE: Final = By(actor="user:ann")
VOTER: Final = Person("user:bob", frozenset({"role:approver"}))
ANOTHER: Final = Person("user:cleo", frozenset({"role:approver"}))


class FleetOperator:
    """The main of an operator's node."""

    def __init__(
        self,
        server: AnyServer,
        history: FleetHistory,
        draw: Draw,
        act_seconds: float,
        *,
        begins_with_all: bool = False,
    ) -> None:
        self._server = server
        self._history = history
        self._draw = draw
        self._act_seconds = act_seconds
        self._begins_with_all = begins_with_all
        self.is_calm = False

    async def main(self, node: Node, _: Queue) -> None:
        draw = self._draw.stream(node.life)
        acts = Acts(self._server, self._history, draw, node.life, node.cluster.loop.time)
        verbs = (
            *(acts.make, acts.make, acts.make, acts.decide, acts.decide, acts.decide),
            *(acts.order, acts.block, acts.lift, acts.revoke, acts.cordon),
        )
        while not self.is_calm:
            begins = self._begins_with_all
            await node.clock.sleep(1.0 if begins else draw.wait(self._act_seconds))
            if not self._history.hosts:
                continue  # They are not registered yet.
            verb = acts.run_on_all if begins else draw.pick(verbs)
            try:
                await verb()
            except HoldfastError as error:
                if error.code in {"internal", "engine-failed"}:
                    raise
                node.cluster.trace.sometimes(f"fleet operator {error.code}")
            else:
                self._begins_with_all = False


class Acts:
    """What one process of an operator does."""

    def __init__(
        self,
        server: AnyServer,
        history: FleetHistory,
        draw: Draw,
        name: str,
        time: Callable[[], float],
    ) -> None:
        self._server = server
        self._history = history
        self._draw = draw
        self._name = name
        self._time = time
        self._requests = 0

    async def make(self) -> None:
        """A job, asked for again under the same external id while no answer comes, or out of caution."""
        draw = self._draw
        self._requests += 1
        external_id = f"{self._name}-{self._requests}"
        fields: dict[str, Any] = {}
        if draw.chance(0.7):
            fields["rollout"] = self._rollout()
        if draw.chance(0.3):
            fields["hosts"] = [draw.pick(self._names()) for _ in range(draw.whole(1, 5))]
        else:
            fields["selector"] = draw.pick(ROLES)
        if draw.chance(0.25):
            fields["idempotent"] = True
        request = JobRequest(
            command_type="exec",
            command=draw.pick(COMMANDS),
            external_id=external_id,
            exec_timeout_seconds=draw.pick((10.0, 60.0)),
            not_after_seconds=draw.pick((60.0, 300.0, 900.0)),
            **fields,
        )
        for _ in range(draw.whole(1, 2)):
            made = await self.until_answered(lambda s: s.fleet.jobs.create(request, MADE))
            self._history.made.setdefault(external_id, set()).add(made.job.id)

    async def run_on_all(self) -> None:
        """A job on all hosts that no budget halts, approved at once. It may be called again."""
        request = JobRequest(
            command_type="exec",
            command="sleep 3",
            external_id="all",
            selector="*",
            idempotent=False,
            rollout=msgspec.convert(
                {
                    "waves": ("rest",),
                    "max_in_flight": "50%",
                    "budget": LOOSE,
                    "canary_budget": None,
                    "straggler_seconds": 30.0,
                },
                RolloutRequest,
            ),
        )
        made = await self.until_answered(lambda s: s.fleet.jobs.create(request, MADE))
        self._history.made.setdefault("all", set()).add(made.job.id)
        await self.vote(made.job.id, VOTER, approves=True)

    def _rollout(self) -> RolloutRequest:
        draw = self._draw
        return msgspec.convert(
            {
                "waves": draw.pick(((1, "10%", "rest"), (2, "rest"), ("rest",))),
                "max_in_flight": draw.pick((2, 5, 20, "50%")),
                "budget": draw.pick(({}, LOOSE)),
                "canary_budget": draw.pick((0, None)),
                "on_breach": draw.pick(("drain", "abort", "pause")),
                "straggler_seconds": 30.0,
            },
            RolloutRequest,
        )

    def _names(self) -> list[str]:
        return [host.name for host in self._history.hosts.values()]

    async def decide(self) -> None:
        """Votes on open requests, sometimes for and against at the same time."""
        draw = self._draw
        for request in (await self.call(lambda s: s.fleet.approvals.open()))[:3]:
            person = draw.pick((VOTER, ANOTHER))
            await self.vote(request.job_id, person, approves=draw.chance(0.8))

    async def vote(self, job_id: str, person: Person, *, approves: bool) -> None:
        by = By(actor=person.name, reason="by the simulation")
        if approves:
            self._history.approved.setdefault(job_id, self._time())
            await self.call(lambda s: s.fleet.approvals.approve(job_id, person, by))
        else:
            await self.call(lambda s: s.fleet.approvals.reject(job_id, person, by))

    async def order(self) -> None:
        """Pauses, resumes, aborts, promotes or changes a job."""
        draw = self._draw
        known = sorted({job for jobs in self._history.made.values() for job in jobs})[-5:]
        if not known:
            return
        job, by = draw.pick(known), By(actor="user:dan", reason="by the simulation")
        control = "pause", "resume", "resume", "promote", "abort", "set"
        match draw.pick(control):
            case "abort":
                await self.abort(job, by, draw.pick(("drain", "kill")))
            case "set":
                wide = draw.pick((1, 3, 10))
                self._history.windows.setdefault(job, []).append(wide)
                change = RolloutChange(max_in_flight=wide)
                await self.call(lambda s: s.fleet.job_control.set(job, change, by))
            case "pause":
                await self.call(lambda s: s.fleet.job_control.pause(job, by))
            case "resume":
                await self.resume(job, by)
            case _:
                await self.call(lambda s: s.fleet.job_control.promote(job, by))

    async def resume(self, job: str, by: By) -> None:
        await self.call(lambda s: s.fleet.job_control.resume(job, by))

    async def abort(self, job: str, by: By, mode: str) -> None:
        await self.call(lambda s: s.fleet.job_control.abort(job, by, mode=mode))
        self._history.aborted.setdefault(job, self._time())

    async def block(self) -> None:
        draw = self._draw
        is_host = draw.chance(0.6)
        new = NewBlock(
            reason="by the simulation",
            host=draw.pick(self._names()) if is_host else None,
            selector=None if is_host else draw.pick(ROLES[:3]),
            effect=draw.pick((BlockEffect.REFUSE, BlockEffect.HOLD)).value,
            on_running=draw.pick((OnRunning.FINISH, OnRunning.ABORT)).value,
            on_lift=draw.pick((OnLift.REQUEUE, OnLift.DROP)).value,
        )
        block = await self.call(lambda s: s.fleet.blocks.add(DEFAULT_PROJECT, new, MADE))
        _, until = self._history.blocked.get(block.id, (math.inf, math.inf))
        self._history.blocked[block.id] = (self._time(), until)

    async def lift(self) -> None:
        blocks = await self.call(lambda s: s.fleet.blocks.list(DEFAULT_PROJECT))
        if blocks:
            await self.lift_one(self._draw.pick(blocks).id)

    async def lift_one(self, block_id: str) -> None:
        since, until = self._history.blocked.get(block_id, (math.inf, math.inf))
        self._history.blocked[block_id] = since, min(until, self._time())
        await self.call(lambda s: s.fleet.blocks.lift(block_id, MADE))

    async def revoke(self) -> None:
        """Takes the slot of a host away, as `holdfast locks revoke` does."""
        host = self._draw.pick(sorted(self._history.hosts))
        await self.call(
            lambda s: s.resources.store.run(
                lambda dialect, ids, now: leases.revoke(
                    Teller(dialect, ids), SLOT + host, "user:dan", "by the simulation", now
                )
            )
        )

    async def cordon(self) -> None:
        """Takes a host out of service, or back."""
        host = self._draw.pick(sorted(self._history.hosts))
        state = self._draw.pick(("cordoned", "active", "active"))
        await self.put_into(host, state)

    async def admit(self, node: str) -> None:
        """Ends the quarantine of a node."""
        await self.call(lambda s: Nodes(s.resources.store).set_state(node, NodeState.LIVE, MADE))

    async def put_into(self, host: str, state: str) -> None:
        await self.call(lambda s: s.fleet.hosts.edit(host, MADE, state=state))

    async def call(self, make: Callable[[OpenServer], Awaitable[T]]) -> T:
        return await self._server.call(make)

    async def until_answered(self, make: Callable[[OpenServer], Awaitable[T]]) -> T:
        for _ in range(REPEATS_MAX):
            try:
                return await self._server.call(make)
            except GatewayUnavailable:
                continue
        raise GatewayUnavailable("no server answered")
