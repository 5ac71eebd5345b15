"""The sessions of a queue: the open resources of each event loop.

Promises: a session opens on first use, so a producer can enqueue at once. All loops of a process share one
store. Everything else belongs to one loop, because futures, events and locks belong to the loop in which
they are awaited. The session of a loop that ended without a `stop` is dropped and not closed. A forked child
inherits no session: it opens its own, and runs no workers. Never: starts or stops workers (`runtime.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.ids import Ids
from holdfast.core.task import ENDED, Task
from holdfast.engine.boot import refuse_second_run
from holdfast.engine.engine import Engine
from holdfast.errors import EngineFailed, NotRunning, QueueStopping, WrongLoop
from holdfast.forks import PassiveFollower, follow
from holdfast.queue.new_tasks import NewTasks
from holdfast.queue.subscriptions import Subscriptions
from holdfast.queue.waiters import Hindrance, Waiters
from holdfast.store.store import Store

STOPPED = "the queue was stopped: open it or start it again"


class Resources(NamedTuple):
    """A store with its bus, clock and ids. The composition root (`app.py`) makes them."""

    store: Store
    bus: Bus
    clock: Clock
    ids: Ids
    host: str = ""
    """The name of this machine and process. '' for host name and process id."""


class Session:
    """The part of a queue in one event loop, from its first use until `stop` or the end of the loop."""

    __slots__ = (
        "_waiters",
        "bare",
        "closed",
        "engine",
        "entered",
        "failed",
        "failure",
        "is_stopped",
        "loop",
        "new_tasks",
        "opening",
        "producers",
        "resources",
        "starting",
        "stopping",
        "subscriptions",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_stopped: bool = False) -> None:
        self.loop = loop
        self.bare: dict[str, Any] = {}
        """The `BareTasks` of each type: see `bare.py`, which imports this module."""
        self.is_stopped = is_stopped
        """The queue was stopped in this loop and not opened again, so implicit opening is refused."""
        self.resources: Resources | None = None
        self.engine: Engine | None = None
        self.new_tasks: NewTasks | None = None
        self.entered = 0
        """The number of open `async with` blocks."""
        self.producers = 0
        """The number of open `producer()` blocks."""
        self.opening = asyncio.Lock()
        self.starting = asyncio.Lock()
        self.stopping = False
        self.closed = asyncio.Event()
        self.failure: EngineFailed | None = None
        self.failed = asyncio.Event()
        self.subscriptions = Subscriptions()
        self._waiters: Waiters | None = None

    def opened(self, resources: Resources, hindrance: Hindrance | None = None) -> None:
        store, bus, clock = resources.store, resources.bus, resources.clock
        self._waiters = Waiters(store, bus, clock, hindrance)
        self.new_tasks = NewTasks(store, bus, clock.monotonic)
        self.resources = resources

    def started(self, engine: Engine) -> None:
        """From now on, idle workers of this loop may start new tasks directly."""
        self.engine = engine
        self.open_new_tasks.direct_start = engine.direct_start

    @property
    def open_resources(self) -> Resources:
        """The resources of an open session. Raises NotRunning after a stop."""
        if self.resources is None:
            raise NotRunning(STOPPED)
        return self.resources

    @property
    def open_new_tasks(self) -> NewTasks:
        """The writer of new tasks of an open session. Raises NotRunning after a stop."""
        if self.new_tasks is None:
            raise NotRunning(STOPPED)
        return self.new_tasks

    @property
    def waiters(self) -> Waiters:
        if self._waiters is None:
            raise NotRunning(STOPPED)
        return self._waiters

    @property
    def is_running(self) -> bool:
        """Whether workers run in this loop."""
        return self.engine is not None and self.failure is None and not self.loop.is_closed()

    def ended(self, tasks: Iterable[Task]) -> None:
        """Wakes the callers that wait for these tasks."""
        if self._waiters is not None and self._waiters.has_waiters:
            for task in tasks:
                if task.status in ENDED:
                    self._waiters.ended(task)

    def fail(self, failure: EngineFailed) -> None:
        """Records that the engine has failed permanently."""
        self.failure = failure
        self.failed.set()

    def check_takes_work(self) -> None:
        if self.stopping:
            raise QueueStopping(
                "the queue is stopping and takes no new work: send it elsewhere or later"
            )


class Sessions(PassiveFollower):
    """The sessions of a queue in this process."""

    def __init__(
        self, make_resources: Callable[[], Resources], hindrance: Hindrance | None = None
    ) -> None:
        self.make_resources = make_resources
        self._hindrance = hindrance
        self._by_loop: dict[asyncio.AbstractEventLoop, Session] = {}
        self._inherited: list[Session] = []
        """Sessions of the parent process. They stay referenced, so their tasks do not unwind here."""
        follow(self)

    def start_over(self) -> None:
        """Called in a forked child."""
        self._inherited += self._by_loop.values()
        self._by_loop = {}

    @property
    def here(self) -> Session:
        """The session of the running event loop."""
        loop = asyncio.get_running_loop()
        session = self._by_loop.get(loop)
        if session is None:
            self.drop_ended()
            session = self._by_loop[loop] = Session(loop)
        return session

    def is_current(self, session: Session) -> bool:
        return self._by_loop.get(session.loop) is session

    def replace(self, session: Session) -> None:
        """Gives the loop a new session after a stop. It must be opened explicitly."""
        following = self._by_loop[session.loop] = Session(session.loop, is_stopped=True)
        following.producers = session.producers

    def drop_ended(self) -> list[Session]:
        """Removes and returns the sessions whose event loop has ended. Nothing can be awaited in them."""
        ended = [session for session in list(self._by_loop.values()) if session.loop.is_closed()]
        for session in ended:
            self._by_loop.pop(session.loop, None)
        return ended

    # -- the store ---------------------------------------------------------------------------------

    @property
    def ready(self) -> Session | None:
        """The session of this loop if `open` would return at once, otherwise None."""
        session = self._by_loop.get(asyncio.get_running_loop())
        if session is None or session.resources is None or session.subscriptions.starting:
            return None
        return session

    async def open(self) -> Resources:
        """Returns the resources of this loop. Connects if needed."""
        session = self.here
        resources = await self.connect()
        if session.subscriptions.starting:
            # A subscription made before this call must see what this call does.
            await session.subscriptions.started()
        return resources

    async def now(self) -> float:
        """The store's time."""
        return (await self.open()).store.now()

    async def opened(self) -> Session:
        """Returns the open session of this loop."""
        await self.open()
        return self.here

    async def connect(self) -> Resources:
        """Like `open`, but does not wait for subscriptions."""
        session = self.here
        if session.resources is not None:
            return session.resources
        if session.is_stopped:
            raise NotRunning(STOPPED)
        async with session.opening:
            if session.resources is None:
                refuse_second_run()
                resources = self.make_resources()
                await resources.store.open()
                try:
                    await resources.bus.start()
                except BaseException:
                    await resources.store.close()
                    raise
                session.opened(resources, self._hindrance)
        return session.open_resources

    # -- the engine --------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """Whether workers run in this process."""
        return any(session.is_running for session in list(self._by_loop.values()))

    @property
    def engine(self) -> Engine | None:
        """The engine of this process, in any event loop."""
        for session in list(self._by_loop.values()):
            if session.engine is not None and not session.loop.is_closed():
                return session.engine
        return None

    @property
    def running_engine(self) -> Engine | None:
        """The engine of this process while its workers run."""
        for session in list(self._by_loop.values()):
            if session.is_running:
                return session.engine
        return None

    def engine_here(self) -> Engine:
        """Returns the engine of this loop. Raises WrongLoop if it runs in another loop, and NotRunning if
        there is none."""
        engine = self.here.engine
        if engine is None:
            self.refuse_elsewhere("change them there")
            raise NotRunning("no workers run in this process: start the queue first")
        return engine

    def call_engine(self, call: Callable[[Engine], None]) -> None:
        """Calls the function with each engine of this process, in the thread of its loop."""
        for session in list(self._by_loop.values()):
            if session.engine is None or session.loop.is_closed():
                continue
            if session.loop is _running_loop():
                call(session.engine)
            else:
                session.loop.call_soon_threadsafe(call, session.engine)

    def refuse_elsewhere(self, what_to_do: str) -> None:
        """Raises WrongLoop if workers run in this process."""
        if self.is_running():
            raise WrongLoop(
                f"the workers of this queue run in another event loop of this process: {what_to_do}, or "
                "make a TaskQueue for each loop that runs workers"
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
