"""What commands that change something run over: the operations of a gateway, far away or in this process.

Promises: a change is judged, audited and answered in the same way with and without a gateway. What a command
reads before and after its change comes from the operations too.
"""

from __future__ import annotations

from typing import NoReturn

from holdfast.cli.use_cases import Sessions, UseCases
from holdfast.client.calls import Calls
from holdfast.engine.handlers import Handlers
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.remote.admin import RemoteQueues, RemoteSchedules
from holdfast.remote.dead_letters import RemoteDeadLetters
from holdfast.remote.groups import RemoteGroups
from holdfast.remote.operators import RemoteDecisions, RemoteInterventions, RemoteLocks
from holdfast.remote.producer import RemoteProducer
from holdfast.remote.tasks import RemoteTasks


class Operations:
    """The parts of a queue, over calls of the API."""

    def __init__(self, calls: Calls, parts: UseCases) -> None:
        self.interventions = RemoteInterventions(calls)
        self.tasks = RemoteTasks(calls, _no_waiters, self.interventions)
        self.dead_letters = RemoteDeadLetters(calls, self.tasks)
        self.decisions = RemoteDecisions(calls)
        self.queues = RemoteQueues(calls)
        self.schedules = RemoteSchedules(calls)
        self.locks = RemoteLocks(calls)
        self.groups = RemoteGroups(calls, Handlers())
        self.producer = RemoteProducer(
            calls,
            Handlers(),
            SettingsInForce(Settings()),
            source=self.tasks,
            groups=self.groups,
            is_stopping=lambda: False,
        )
        self.sessions: Sessions = parts.sessions


def _no_waiters() -> NoReturn:
    raise AssertionError("a command waits with its queue: see `enqueue --wait`")
