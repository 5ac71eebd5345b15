"""Wires the parts of a queue behind a gateway together: those of `queue.parts.Parts`, over the wire."""

from __future__ import annotations

from holdfast.client.http import Http
from holdfast.clock import Clock
from holdfast.core.ids import Ids
from holdfast.engine.follow_ups import FollowUps
from holdfast.metrics import Meter
from holdfast.queue.define import Definitions
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.remote.admin import (
    RemoteFeed,
    RemoteNodes,
    RemoteQueues,
    RemoteSchedules,
    RemoteStatistics,
    RemoteWeights,
)
from holdfast.remote.dead_letters import RemoteDeadLetters
from holdfast.remote.gateways import Gateways
from holdfast.remote.groups import RemoteGroups
from holdfast.remote.operators import RemoteDecisions, RemoteInterventions, RemoteLocks
from holdfast.remote.producer import RemoteProducer
from holdfast.remote.runtime import RemoteRuntime
from holdfast.remote.tasks import RemoteTasks
from holdfast.remote.wires import Wires


class RemoteParts:
    """The parts of a queue behind a gateway."""

    def __init__(
        self,
        gateways: Gateways,
        clock: Clock,
        ids: Ids,
        settings: Settings,
        definitions: Definitions,
        *,
        meter: Meter | None = None,
        wires: Wires | None = None,
    ) -> None:
        handlers = definitions.handlers
        wires = wires or Wires()
        http = Http(
            gateways.urls,
            gateways.token,
            clock,
            ids,
            verify=gateways.tls.context(),
            transport=wires.transport,
        )
        self.http = http
        self.settings = SettingsInForce(settings)
        self.runtime = self.sessions = RemoteRuntime(
            gateways, http, self.settings, definitions, wires=wires
        )
        runtime = self.runtime
        self.interventions = RemoteInterventions(http)
        self.tasks = RemoteTasks(http, runtime.waiters, self.interventions)
        self.queues = RemoteQueues(http)
        self.weights = RemoteWeights(http)
        self.schedules = RemoteSchedules(http)
        self.dead_letters = RemoteDeadLetters(http, self.tasks)
        self.decisions = RemoteDecisions(http)
        self.locks = RemoteLocks(http)
        self.nodes = RemoteNodes(http)
        self.stats = RemoteStatistics(http, handlers, lambda: runtime.engine)
        self.feed = RemoteFeed(http, lambda: runtime.readers)
        self.groups = RemoteGroups(http, handlers)
        self.producer = RemoteProducer(
            http,
            handlers,
            self.settings,
            source=self.tasks,
            groups=self.groups,
            is_stopping=lambda: runtime.is_stopping,
        )
        runtime.follow_ups = FollowUps(self.producer.enqueue_follow_up, self.tasks)
        self.use_meter(meter)

    def use_meter(self, meter: Meter | None) -> None:
        """Reports to this meter, from the next start of workers on."""
        self.meter = self.runtime.meter = meter
