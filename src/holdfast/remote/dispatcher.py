"""Asks the gateway for tasks for free workers.

Promises: an ask with the free slots is outstanding while workers are free; the gateway answers when there is
work. An answer that was lost with a connection is given again. A stop ends the wait at once.
Never: runs or finishes a task.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.clock import Clock
from holdfast.core import claiming
from holdfast.core.lease import renewal_interval
from holdfast.core.task import Task
from holdfast.engine.handlers import Handlers
from holdfast.engine.loop import Loop
from holdfast.engine.pool import WorkerPool
from holdfast.remote.leases import Leases
from holdfast.remote.link import Link
from holdfast.remote.offers import task_of

WAIT_SECONDS_MAX: Final = 20.0
log = logging.getLogger("holdfast.worker")


class RemoteDispatcher(Loop):
    """One for each remote engine. Implements `engine.ports.Claims`."""

    name = "dispatcher"

    def __init__(
        self,
        clock: Clock,
        link: Link,
        pool: WorkerPool,
        leases: Leases,
        handlers: Handlers,
        *,
        lease_seconds: float,
    ) -> None:
        super().__init__(clock)
        self._link = link
        self._pool = pool
        self._leases = leases
        self._handlers = handlers
        # The lease counts from the ask: a long wait would leave little of it.
        self._wait_seconds = min(renewal_interval(lease_seconds), WAIT_SECONDS_MAX)
        self._ending = False
        self.stopping = False
        self.claimed = 0
        self.claiming = False
        self._notice = ""
        self._is_drained = False

    @property
    def ending(self) -> bool:
        """No further ask after the one in progress, whose wait ends at once."""
        return self._ending

    @ending.setter
    def ending(self, is_ending: bool) -> None:
        self._ending = is_ending
        if is_ending:
            self._link.withdraw()

    def worker_freed(self) -> None:
        self._say_drained()
        self.wake()

    async def tick(self) -> float:
        free = claiming.room(self._pool.load())
        if self.stopping or self._ending or free < 1 or not len(self._handlers):
            return claiming.PUSHED_POLL_SECONDS
        self.claiming = True
        try:
            offered = await self._link.ask(free, self._wait_seconds)
        finally:
            self.claiming = False
        self._notify(offered.notice)
        tasks: list[Task] = []
        for claimed in offered.tasks:
            task = task_of(claimed, self._link.node)
            tasks.append(task)
            self._leases.grant([task.run], offered.asked_at, claimed.lease_ms / 1000)
        self.claimed += len(tasks)
        self._pool.give(tasks)
        return 0.0

    def _notify(self, notice: str) -> None:
        """Logs once that an operator has taken this node out of service, and once that it is back. The
        process goes on: a supervisor would start an ended one again, which would join as another node."""
        if notice and notice != self._notice:
            text = "%s; running tasks go on, and the process waits for `holdfast node uncordon %s`"
            log.warning(text, notice, self._link.node)
        elif self._notice and not notice:
            log.info("node '%s' gets tasks again", self._link.node)
        if not notice:
            self._is_drained = False
        self._notice = notice
        self._say_drained()

    def _say_drained(self) -> None:
        """Logs once that the last task of a node out of service has ended: its process may be stopped."""
        if self._notice and not self._is_drained and not self._pool.busy:
            self._is_drained = True
            log.warning("node '%s' is drained: no task runs here", self._link.node)
