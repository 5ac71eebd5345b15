"""Wires the parts of a queue together.

Each part gets its dependencies in its constructor and has no other shared state. `TaskQueue`, the command
line and the gateways call the same use cases: `tasks`, `interventions`, `decisions`, `queues`,
`weights`, `schedules`, `dead_letters`, `nodes` and `stats`.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.engine.follow_ups import FollowUps
from holdfast.metrics import Meter
from holdfast.queue.dead_letters import DeadLetters
from holdfast.queue.decisions import Decisions
from holdfast.queue.define import Definitions
from holdfast.queue.enqueue import Producer
from holdfast.queue.feed import Feed
from holdfast.queue.groups import Groups
from holdfast.queue.interventions import Interventions
from holdfast.queue.nodes import Nodes
from holdfast.queue.pressure import Backpressure
from holdfast.queue.queues import Queues
from holdfast.queue.runtime import START_ENGINE, Runtime, StartEngine
from holdfast.queue.schedules import Schedules
from holdfast.queue.session import Resources, Sessions
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.queue.stats import Statistics
from holdfast.queue.tasks import Tasks
from holdfast.queue.types import KnownTypes
from holdfast.queue.weights import Weights
from holdfast.queue.why import hindrance


class Parts:
    """The parts of a queue on one store. Other instances may share the definitions."""

    def __init__(
        self,
        make_resources: Callable[[], Resources],
        settings: Settings,
        definitions: Definitions,
        *,
        meter: Meter | None = None,
        start_engine: StartEngine = START_ENGINE,
    ) -> None:
        handlers = definitions.handlers
        self.settings = SettingsInForce(settings)
        self.sessions = Sessions(make_resources, hindrance)
        types = KnownTypes(handlers, self.settings)
        self.tasks = Tasks(self.sessions, types, self.settings)
        self.queues = Queues(self.sessions, handlers)
        self.weights = Weights(self.sessions, types)
        self.schedules = Schedules(self.sessions, types)
        self.dead_letters = DeadLetters(self.sessions, self.tasks)
        self.interventions = Interventions(self.sessions, self.tasks, self.settings)
        self.decisions = Decisions(self.sessions, self.settings)
        self.nodes = Nodes(self.sessions)
        self.stats = Statistics(self.sessions, self.nodes, handlers, meter)
        self.feed = Feed(self.sessions)
        self.groups = Groups(self.sessions, handlers)
        self.producer = Producer(
            self.sessions,
            types,
            Backpressure(self.settings),
            self.settings,
            source=self.tasks,
            groups=self.groups,
        )
        self.runtime = Runtime(
            self.sessions,
            self.settings,
            definitions,
            self.schedules,
            self.feed,
            follow_ups=FollowUps(self.producer.enqueue_follow_up, self.tasks),
            start_engine=start_engine,
        )
        self.use_meter(meter)

    def use_meter(self, meter: Meter | None) -> None:
        """Reports to this meter, from the next start of workers on."""
        self.meter = self.stats.meter = self.runtime.meter = self.producer.meter = meter
