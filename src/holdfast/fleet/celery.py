"""Celery as the host of the fleet's steps: beat and workers of an application that has Celery already.

    app = Celery("ops", broker="redis://...")
    install(app, "postgresql://...")

Celery tasks are exactly `publish_outbox` (by beat, each second), `plan_job(job_id)` and
`run_execution(execution_id)`. A server with `fleet.hosting = celery` leaves these steps to Celery.
Promises: the truth is the store, a message is a hint. Attempts, pauses, slots and fences are the store's. A
repeated message finds what the first has done, or the lease of the process that is at it, and returns. A lost
one (a wiped broker, a killed worker) is sent again after `OVERDUE_SECONDS`. Tasks are acknowledged late, and
have no results.
Never: keeps state in a message; uses `Celery` before `install`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.bus.backends import bus_for
from holdfast.clock import Clock, SystemClock
from holdfast.core.fleet.model import HostDriver
from holdfast.core.fleet.rules import RULES, FleetHosting, FleetRules
from holdfast.errors import MissingExtra
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.driving import HostDrive, Reach
from holdfast.fleet.hints import FLEET
from holdfast.fleet.jobs.outbox import OVERDUE_SECONDS
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.secret_values import SecretValues
from holdfast.fleet.simulated.host import reach as reach_simulated
from holdfast.fleet.ssh.driver import reach as reach_ssh
from holdfast.fleet.ssh.target import SshOptions
from holdfast.forks import PassiveFollower, follow
from holdfast.portal import Portal
from holdfast.primitives.locks import Locks
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.store.backends import secret_ids, store_for

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["install"]

T = TypeVar("T")
PREFIX: Final = "holdfast."
"""How the names of the Celery tasks begin."""
MESSAGE_SECONDS: Final = 30.0
"""A hint that no worker took for this long is dropped: another one has been sent since."""
TASK: Final = {"acks_late": True, "reject_on_worker_lost": True, "ignore_result": True}


class Opened(NamedTuple):
    """What the tasks of one process work with."""

    locks: Locks
    """They open and close the store and the bus."""
    pipeline: Pipeline
    door: AgentDoor
    serving: asyncio.Task[None]


class CeleryFleet(PassiveFollower):
    """The tasks of one application (`holdfast.fleet.pipeline.Hosting`)."""

    def __init__(
        self,
        app: Celery,
        url: str,
        *,
        rules: FleetRules,
        secrets: SecretValues,
        ssh: SshOptions,
        reach: Mapping[HostDriver, Reach],
        redis: str | None,
        queue: str | None,
    ) -> None:
        self._url, self._redis = url, redis
        self._secrets, self._ssh, self._reach = secrets, ssh, dict(reach)
        self._rules = secrets.rules(replace(rules, hosting=FleetHosting.CELERY))
        self._clock: Clock = SystemClock()
        self._make = store_for(url, self._clock)
        self._portal = Portal("celery")
        self._opened: Opened | None = None
        self._opening: asyncio.Lock | None = None
        self._overdue_at = 0.0
        self._send_options = {} if queue is None else {"queue": queue}
        self._tasks = self._define(app)
        follow(self)

    def _define(self, app: Celery) -> dict[str, Any]:
        def publish_outbox() -> None:
            self.call(self.publish)

        def plan_job(job_id: str) -> None:
            self.call(lambda: self.plan(job_id))

        def run_execution(task: Any, execution_id: str) -> None:
            seconds = self.call(lambda: self.run(execution_id))
            if seconds is not None:  # a wake-up: the store has the time of the next attempt
                raise task.retry(countdown=seconds, max_retries=None)

        made = {}
        for function, more in (
            (publish_outbox, {}),
            (plan_job, {}),
            (run_execution, {"bind": True}),
        ):
            name = function.__name__
            made[name] = app.task(name=PREFIX + name, **TASK, **more)(function)
        seconds = self._rules.outbox_seconds
        app.conf.beat_schedule = {
            **(app.conf.beat_schedule or {}),
            "holdfast-publish-outbox": {
                "task": PREFIX + "publish_outbox",
                "schedule": seconds,
                "options": {"expires": 10 * seconds, **self._send_options},
            },
        }
        return made

    # -- Hosting: a message for each step ------------------------------------------------------------

    async def plan_job(self, job_id: str) -> bool:
        """Sends the message. The step is announced again until its effect is seen."""
        await self._send("plan_job", job_id)
        return False

    async def run_execution(self, execution_id: str) -> bool:
        await self._send("run_execution", execution_id)
        return False

    async def _send(self, task: str, subject: str) -> None:
        send = self._tasks[task].apply_async
        await asyncio.to_thread(
            send, args=(subject,), expires=MESSAGE_SECONDS, **self._send_options
        )

    # -- the tasks -----------------------------------------------------------------------------------

    async def publish(self) -> None:
        """Sends messages for what is due."""
        pipeline = (await self._open()).pipeline
        while await pipeline.publish_outbox(self):
            pass
        for job_id in await pipeline.due_jobs():
            await self.plan_job(job_id)
        if self._clock.monotonic() >= self._overdue_at:
            self._overdue_at = self._clock.monotonic() + OVERDUE_SECONDS
            await pipeline.announce_overdue(self)

    async def plan(self, job_id: str) -> None:
        """Plans a job, and sends messages for the executions that it admitted."""
        pipeline = (await self._open()).pipeline
        await pipeline.plan_job(job_id)
        while await pipeline.publish_outbox(self):
            pass

    async def run(self, execution_id: str) -> float | None:
        """Sees an execution through. Returns how long it waits for its next attempt, if it does."""
        pipeline = (await self._open()).pipeline
        seconds = await pipeline.wait_seconds(execution_id)
        if seconds is not None:
            return seconds
        await pipeline.run_execution(execution_id)
        for job_id in await pipeline.due_jobs():
            await self.plan_job(job_id)
        return await pipeline.wait_seconds(execution_id)

    # -- one process ---------------------------------------------------------------------------------

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Runs a step in the event loop of this process."""
        return self._portal.call(make)

    async def _open(self) -> Opened:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._opened is None:
                self._opened = await self._make_parts()
        return self._opened

    async def _make_parts(self) -> Opened:
        clock, rules = self._clock, self._rules
        store = self._make()
        bus = bus_for(self._url, clock, store.file, name=store.ids.secret(), redis=self._redis)
        locks = Locks(StoreBackend(store), bus, clock=clock)
        await locks.open()
        door = AgentDoor(Agents(store, rules, secrets=self._secrets), clock)
        bus.subscribe(lambda _hint: door.wake(), FLEET)
        ids = secret_ids()
        shipped: dict[HostDriver, Reach] = {
            HostDriver.SSH: lambda host: reach_ssh(host, self._ssh, ids, nullcontext()),
            HostDriver.SIMULATED: lambda host: reach_simulated(host, clock, 0, ids.token()),
        }
        drives = {
            driver: HostDrive(
                store, bus, clock, door, locks, reach=reach, jitter=ids.random_unit
            ).drive
            for driver, reach in (shipped | self._reach).items()
        }
        pipeline = Pipeline(store, rules, bus, owner=f"celery-{ids.token()}", drives=drives)
        serving = asyncio.create_task(door.run(), name="holdfast-agents")
        return Opened(locks, pipeline, door, serving)

    def close(self) -> None:
        """Ends what this process has opened."""
        if not self._portal.is_closed:
            if self._opened is not None:
                self.call(self._close)
            self._portal.close()

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is None:
            return
        await opened.door.close()
        opened.serving.cancel()
        with suppress(asyncio.CancelledError):
            await opened.serving
        await opened.locks.close()

    def start_over(self) -> None:
        """A forked child opens its own."""
        self._opened = self._opening = None


def install(
    app: Celery,
    url: str,
    *,
    rules: FleetRules = RULES,
    secrets: SecretValues | None = None,
    ssh: SshOptions | None = None,
    reach: Mapping[HostDriver, Reach] | None = None,
    redis: str | None = None,
    queue: str | None = None,
) -> CeleryFleet:
    """Adds the tasks of the fleet, and the entry of beat, to an application.

    `url`: the store. `rules`, `secrets` and `ssh`: those of the server
    (`holdfast.gateway.settings.fleet_options`). `reach`: how hosts of a driver are reached, instead of the
    way that Holdfast has. `redis`: carries hints,
    as for a server. `queue`: the Celery queue of the messages."""
    try:
        from celery import signals
    except ImportError:
        raise MissingExtra(
            "the fleet under Celery needs celery: pip install 'holdfast[celery]'"
        ) from None
    fleet = CeleryFleet(
        app,
        url,
        rules=rules,
        secrets=secrets or SecretValues(),
        ssh=ssh or SshOptions(),
        reach=reach or {},
        redis=redis,
        queue=queue,
    )
    for signal in (signals.worker_process_shutdown, signals.worker_shutdown):
        signal.connect(lambda **_: fleet.close(), weak=False)
    return fleet
