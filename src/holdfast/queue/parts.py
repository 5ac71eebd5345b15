"""The parts of a queue, and how they are put together.

Each part gets what it needs in its constructor and knows no other state. The use cases (`tasks`, `queues`,
`schedules`, `dead_letters`, `nodes`, `stats`) are what a person or a program may ask: `TaskQueue`, the
command line and a gateway call the same methods.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.metrics import Meter
from holdfast.queue.dead_letters import DeadLetters
from holdfast.queue.define import Definitions
from holdfast.queue.enqueue import Producer
from holdfast.queue.feed import Feed
from holdfast.queue.nodes import Nodes
from holdfast.queue.pressure import Backpressure
from holdfast.queue.queues import Queues
from holdfast.queue.runtime import START_ENGINE, Runtime, StartEngine
from holdfast.queue.schedules import Schedules
from holdfast.queue.session import Backend, Sessions
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.queue.stats import Statistics
from holdfast.queue.tasks import Tasks
from holdfast.queue.types import KnownTypes


class Parts:
    """Everything of a queue on one backend; the definitions may be shared with other parts."""

    def __init__(
        self,
        make_backend: Callable[[], Backend],
        settings: Settings,
        definitions: Definitions,
        *,
        meter: Meter | None = None,
        start_engine: StartEngine = START_ENGINE,
    ) -> None:
        handlers = definitions.handlers
        self.meter = meter
        self.settings = SettingsInForce(settings)
        self.sessions = Sessions(make_backend)
        types = KnownTypes(handlers, self.settings)
        self.tasks = Tasks(self.sessions)
        self.queues = Queues(self.sessions, handlers)
        self.schedules = Schedules(self.sessions, types)
        self.dead_letters = DeadLetters(self.sessions, self.tasks)
        self.nodes = Nodes(self.sessions)
        self.stats = Statistics(self.sessions, self.nodes, handlers, meter)
        self.feed = Feed(self.sessions)
        self.producer = Producer(
            self.sessions, types, Backpressure(self.settings), self.settings, source=self.tasks
        )
        self.runtime = Runtime(
            self.sessions,
            self.settings,
            definitions,
            self.schedules,
            self.feed,
            meter=meter,
            start_engine=start_engine,
        )
