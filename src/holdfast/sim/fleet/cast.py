"""Builds the fleet of a plan: servers, hosts with agents, operators."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core.fleet.approvals.rules import ApprovalMatch, ApprovalRule
from holdfast.core.fleet.model import Host
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.errors import HoldfastError
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.faults import SimulatedFaults
from holdfast.fleet.simulated.registration import entries_of, register
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.fleet.calming import Calming
from holdfast.sim.fleet.hosts import HostInSim
from holdfast.sim.fleet.operator import FleetOperator
from holdfast.sim.fleet.server import AnyServer, FleetServer
from holdfast.sim.fleet.sight import Sight
from holdfast.sim.fleet_history import FleetHistory
from holdfast.sim.node import Cluster, Node
from holdfast.sim.swarm import Plan
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.store import Store

Add = Callable[[str], Node]
RULES: Final = FleetRules(
    approval_rules=(ApprovalRule(name="many", match=ApprovalMatch(min_hosts=8)),),
    approval_default="none",
    lease_seconds=20.0,
    lost_after_seconds=90.0,
    outage_grace_seconds=30.0,
    heartbeat_seconds=10.0,
    not_after_seconds=900.0,
    approval_expires_seconds=120.0,
)
"""Short times: what takes hours elsewhere happens within minutes."""
HELD_SLOTS: Final = """SELECT count(*) FROM holdfast_lease
    WHERE resource >= 'host:' AND resource < 'host;' AND claim_id IS NOT NULL"""
AGAIN_SECONDS: Final = 1.0
OPEN_JOBS: Final = "SELECT count(*) FROM holdfast_job WHERE finished_at IS NULL"
PENDING: Final = "SELECT count(*) FROM holdfast_intervention WHERE ended_at IS NULL"


def faults_of(plan: Plan) -> SimulatedFaults:
    return SimulatedFaults(
        loss=plan.agent_loss,
        delay=(0.0, plan.agent_jitter_seconds),
        duplicate=plan.agent_duplicate,
        reorder=plan.agent_reorder,
        crash=plan.agent_crash,
        partition=plan.agent_partition,
        skew=plan.agent_skew_seconds,
    )


class FleetCast:
    """The subsystem of the fleet."""

    def __init__(self, plan: Plan, add: Add, history: FleetHistory, draw: Draw) -> None:
        self._plan = plan
        self._history = history
        self._draw = draw
        nodes = [add(f"f{n}") for n in range(plan.fleet_servers)]
        self._cluster: Cluster = nodes[0].cluster
        self._any = AnyServer([FleetServer(n, RULES) for n in nodes], history, draw.stream("pick"))
        self._sight = Sight(self._cluster, history)
        self._hosts: list[HostInSim] = []
        self._operators: list[FleetOperator] = []
        for n in range(plan.fleet_operators):
            node = add(f"p{n}")
            own = draw.stream(node.name)
            operator = FleetOperator(
                self._any,
                history,
                own,
                plan.fleet_act_seconds,
                begins_with_all=plan.fleet_whole and n == 0,
            )
            node.main, node.hears = operator.main, False
            self._operators.append(operator)
        starter = add("h0")
        starter.main, starter.hears = self._begin, False

    async def _begin(self, _node: Node, _queue: Queue) -> None:
        """Registers the hosts and starts them, once, before the first fault."""
        if self._hosts:
            return
        database = self._cluster.database
        store = Store(database.driver, SqliteDialect(), Ids(self._draw.stream("hosts")))
        entries = entries_of(self._plan.agents, self._plan.seed)
        hosts: list[Host] = []
        while not hosts:
            try:
                hosts = await register(store, entries, heartbeat_seconds=RULES.heartbeat_seconds)
            except HoldfastError as error:  # e.g. the disk is full at the start
                self._cluster.trace.step(f"hosts {error}")
                await database.clock.sleep(AGAIN_SECONDS)
        # They belong to no node: what kills one does not kill them.
        contextvars.Context().run(self._start, hosts)

    def _start(self, hosts: Sequence[Host]) -> None:
        faults, dice = faults_of(self._plan), Dice(self._plan.seed, "hosts")
        for host in hosts:
            made = HostInSim(self._cluster.loop, host, self._any, faults, dice.stream(host.name))
            self._hosts.append(made)
            self._history.hosts[host.id] = host
            self._history.runs[host.id] = made.host.machine.history
            made.host.start()
        self._sight.begin()

    def calm(self) -> None:
        for made in self._hosts:
            made.calm()
        for operator in self._operators:
            operator.is_calm = True
        Calming(self._any, self._history, self._cluster).begin()

    def is_at_rest(self) -> bool:
        counts = [self._cluster.database.rows(text) for text in (HELD_SLOTS, OPEN_JOBS, PENDING)]
        return not any(int(count) for [(count,)] in counts)

    async def report(self) -> None:
        self._sight.report()
        trace = self._cluster.trace
        for kind in ("crashes", "power_losses"):
            trace.counts[f"agent {kind}"] += sum(getattr(made.host, kind) for made in self._hosts)
        runs = [run for runs in self._history.runs.values() for run in runs]
        healed_at = self._plan.hours * 3600
        trace.counts["agent runs"] += len(runs)
        trace.counts["agent runs under faults"] += sum(run.started_at < healed_at for run in runs)
        trace.counts["executions"] += len(self._history.executions)

    def end(self) -> None:
        for made in self._hosts:
            made.host.stop()
            made.link.close()
