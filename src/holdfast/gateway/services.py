"""What the operations of a gateway work with: the use cases of a queue and of the hub, each built once.

Promises: one set for each event loop, opened before the first request and closed after the last. It shares
the store and the bus of its queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final, Self, TypeVar

import msgspec

from holdfast.bus.port import FEED, WORK, Bus
from holdfast.core.fleet.model import HostDriver
from holdfast.core.fleet.rules import RULES as FLEET_RULES, FleetRules
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.ids import Ids
from holdfast.core.intervention import EXPIRES_SECONDS
from holdfast.core.redaction import DEFAULT, Redaction
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.fleet import Fleet, FleetParts
from holdfast.fleet.hints import wake_jobs
from holdfast.fleet.loops import FleetLoops
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.ssh.driver import SshDriver
from holdfast.fleet.upkeep import FleetUpkeep
from holdfast.gateway.auth.agents import AgentCredentials
from holdfast.gateway.bulk_audit import audited
from holdfast.gateway.bulk_runner import BulkRunner
from holdfast.gateway.figures import HubFigures
from holdfast.gateway.flow import Flow
from holdfast.gateway.heard_nodes import HeardNodes
from holdfast.gateway.turns import Turns
from holdfast.metrics import Metrics
from holdfast.primitives.locks import Locks
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.queue.locks import LockAdmin
from holdfast.queue.parts import Parts
from holdfast.queue.queue import Queue
from holdfast.queue.session import Resources
from holdfast.store.audit import AuditStore
from holdfast.store.backends import secret_ids
from holdfast.store.store import Store
from holdfast.sync.access.tokens import Tokens
from holdfast.sync.exchange.conflicts import Conflicts
from holdfast.sync.exchange.exchange import Exchange
from holdfast.sync.live_reads import LiveReads
from holdfast.sync.names import ClientNames
from holdfast.sync.nodes.claim_reports import ClaimReports
from holdfast.sync.nodes.claims import TaskClaims
from holdfast.sync.nodes.nodes import Nodes
from holdfast.sync.presets import Presets
from holdfast.sync.projects import Projects

T = TypeVar("T")


class ServiceRules(msgspec.Struct, frozen=True):
    """What the settings of a gateway say about its services."""

    hub: HubRules = RULES
    """What nodes are granted and asked for."""
    redaction: Redaction = DEFAULT
    expiry_seconds: float = EXPIRES_SECONDS
    """How long the command of an intervention is sent, unless its request says it."""
    fleet: FleetRules = FLEET_RULES
    fleet_parts: FleetParts = FleetParts()


NO_RULES: Final = ServiceRules()


class GatewayServices:
    """The parts of one gateway."""

    def __init__(
        self, queue: Queue, resources: Resources, metrics: Metrics, rules: ServiceRules = NO_RULES
    ) -> None:
        self.rules = rules.hub
        self.redaction = rules.redaction
        self.expiry_seconds = rules.expiry_seconds
        self.queue = queue
        self.parts: Parts = queue.parts
        self.resources = resources
        self.store: Store = resources.store
        self.clock = resources.clock
        self.bus = resources.bus
        self.ids: Ids = secret_ids()
        self.metrics = metrics
        self.heard_nodes = HeardNodes(self.now)
        self.locks = LockAdmin(
            Locks(_Opened(resources.store), _Started(resources.bus), clock=resources.clock)
        )
        self.figures = HubFigures(metrics, resources.store, resources.bus, resources.clock)
        self.names = ClientNames(resources.store)
        self.tokens = Tokens(resources.store)
        self.audit = AuditStore(resources.store)
        self.flow = Flow(resources.store)
        self.figures.rules = self.rules
        self.nodes = Nodes(resources.store, self.rules)
        self.exchange = Exchange(resources.store, self.wake, self.rules)
        self.claims = TaskClaims(resources.store, self.wake, self.rules)
        self.claim_reports = ClaimReports(resources.store, self.rules)
        self.projects = Projects(resources.store)
        self.presets = Presets(resources.store)
        self.conflicts = Conflicts(resources.store)
        self.live_reads = LiveReads(resources.store)
        self.fleet = Fleet(resources.store, rules.fleet, rules.fleet_parts, resources.bus, metrics)
        self.agents = AgentDoor(
            Agents(
                resources.store,
                rules.fleet,
                secrets=rules.fleet_parts.secrets,
                meter=metrics,
                on_changed=self._agents_changed,
            ),
            resources.clock,
            on_heard=self.heard_nodes.heard,
        )
        self.agent_credentials = AgentCredentials(self.tokens, resources.clock)
        self.ssh = SshDriver(
            resources.store, self.agents, resources.clock, self.ids, rules.fleet_parts.ssh
        )
        self.job_loops = self._job_loops()
        self.upkeep = FleetUpkeep(
            self.fleet, resources.store, resources.clock, resources.bus, redaction=self.redaction
        )
        self.bulk = BulkRunner(
            resources.store,
            resources.clock,
            make_beside=lambda spec: audited(spec, self.redaction),
            on_changed=self.wake,
            affinity_seconds=queue.settings.affinity_seconds,
        )
        self.turns = Turns()
        self.stopping = asyncio.Event()
        """Requests that wait are answered now."""
        self.trial: Mapping[str, object] | None = None
        """What `holdfast dev` says to the Control Center, which then shows the first steps."""
        self.worker_transports: dict[str, int] = {}
        """Ports of the transports that this gateway serves to workers beside HTTP, while it does: `grpc`."""

    def _job_loops(self) -> FleetLoops:
        """The loops of jobs, which reach hosts without an agent through the driver."""
        pipeline = Pipeline(
            self.store,
            self.fleet.rules,
            self.bus,
            owner=f"gateway-{self.ids.token()}",
            drives={HostDriver.SSH: self.ssh},
            meter=self.metrics,
        )
        return FleetLoops(self.store, self.fleet.rules, self.clock, self.bus, pipeline)

    @classmethod
    async def open(cls, queue: Queue, metrics: Metrics, rules: ServiceRules = NO_RULES) -> Self:
        """Opens the store of the queue. It starts no workers."""
        return cls(queue, await queue.open(), metrics, rules)

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    async def until_stop(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work returns. None: the gateway stops first, and the work is cancelled."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return await working if working.done() else None
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    def wake(self) -> None:
        """Hints at changed tasks: to dispatchers, to readers of the feed and to runners of this process."""
        self.bus.publish(WORK)
        self.bus.publish(FEED)
        self.parts.sessions.call_engine(lambda engine: engine.heartbeat.wake())

    def _agents_changed(self, has_ended: bool) -> None:
        """Hints at what a sync of agents has changed."""
        if has_ended:
            wake_jobs(self.bus)
        else:
            self.bus.publish(FEED)

    def now(self) -> float:
        return self.store.now()

    def request_id(self) -> str:
        return f"req_{self.ids.task(self.clock.now()).replace('-', '')}"


class _Opened(StoreBackend):
    """The store of the queue, which opens and closes it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.open = _nothing
        self.close = _nothing


class _Started:
    """The bus of the queue, which starts and stops it."""

    def __init__(self, bus: Bus) -> None:
        self.start = _nothing
        self.stop = _nothing
        self.publish = bus.publish
        self.subscribe = bus.subscribe
        self.mode = bus.mode
        self.notify_in_tx = bus.notify_in_tx
        self.committed = bus.committed


async def _nothing() -> None:
    return None
