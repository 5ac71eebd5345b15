"""What `Locks` and `EfficiencyLocks` share: acquiring, holding several resources, opening and closing.

Promises: a caller that is cancelled or gives up never ends as the holder; its claim is withdrawn. A request
whose answer was lost is repeated under the same claim. A store that does not answer exceeds `wait` by at most
`ANSWER_SECONDS` (request) and `LEAVE_SECONDS` (withdrawal), and a failed withdrawal hides no error. Closing
ends every wait with NotRunning and declares every lease lost (`shutdown`), in bounded time.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from holdfast.clock import Clock
from holdfast.core import lease as rules
from holdfast.core.check import check_flag, check_name, check_number, shown
from holdfast.core.ids import Ids
from holdfast.core.lease import TOLERANCE_SECONDS, LeaseDenied
from holdfast.core.retry import unit_jitter
from holdfast.errors import InvalidInput, NotRunning, StoreUnavailable, WaitTimeout, WrongLoop
from holdfast.forks import PassiveFollower, follow
from holdfast.metrics import Meter
from holdfast.primitives.locks import meters
from holdfast.primitives.locks.background import BackgroundTasks, log
from holdfast.primitives.locks.held import HeldLeases
from holdfast.primitives.locks.hold import Hold
from holdfast.primitives.locks.lease import HeldLease

T = TypeVar("T")
L = TypeVar("L", bound=HeldLease)
TTL_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 5.0
"""A request to the store times out after this, or after the remaining wait if that is longer."""
OUTAGE_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Pauses between requests while the store is unavailable."""
LEAVE_SECONDS: Final = 0.5
"""How long a caller that gives up waits for the withdrawal of its claim, which continues after that."""
CLOSE_SECONDS: Final = 5.0
"""How long closing waits for a store that does not answer."""
TOGETHER_MAX: Final = 100
"""Most resources that `hold_many` takes."""


class LockRequest(NamedTuple):
    """One claim on one resource."""

    resource: str
    claim_id: str
    ttl: float
    grace: float
    waits: bool


class LocksBase(PassiveFollower, ABC, Generic[L]):
    """See `Locks` and `EfficiencyLocks`. Bound to the event loop of its first use."""

    _outlives_loops = False
    """Whether another event loop may take over after the first one has ended."""

    def __init__(
        self, clock: Clock, ids: Ids, meter: Meter, margin: Callable[[float], float]
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._meter = meter
        self._margin = margin
        self._tasks = BackgroundTasks()
        self._held: HeldLeases[L] = HeldLeases(clock)
        self._wakes: dict[str, asyncio.Event] = {}
        """By claim: set to make a waiting caller ask the store now."""
        self._answers: dict[asyncio.Event, None] = {}
        """One event for each request in flight."""
        self._closing: asyncio.Task[None] | None = None
        self._opening: asyncio.Lock | None = None
        self._is_open = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        follow(self)

    # -- implemented by each kind of locks -----------------------------------------------------------

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _ask(self, request: LockRequest) -> Callable[[float], L] | LeaseDenied:
        """Tries once. Returns a function that makes the lease, given the time of the request, or a denial
        that says when to ask again."""

    @abstractmethod
    async def _leave(self, request: LockRequest) -> None:
        """Withdraws the claim: removes its waiter and releases a lease that it was granted."""

    # -- holding -----------------------------------------------------------------------------------

    def hold(
        self,
        resource: str,
        *,
        ttl: float = TTL_SECONDS,
        wait: float = WAIT_SECONDS,
        grace: float = 0.0,
        claim_id: str | None = None,
        cancel_on_loss: bool = True,
    ) -> Hold[L]:
        """`async with locks.hold("host:42", ttl=30, wait=10) as lease:`. Times are seconds; `wait=0` tries
        once. WaitTimeout if the resource does not become free within `wait`."""
        check_flag("cancel_on_loss", cancel_on_loss)
        return Hold(
            lambda: self.acquire(resource, ttl=ttl, wait=wait, grace=grace, claim_id=claim_id),
            cancel_on_loss=cancel_on_loss,
        )

    @asynccontextmanager
    async def hold_many(
        self,
        resources: Iterable[str],
        *,
        ttl: float = TTL_SECONDS,
        wait: float = WAIT_SECONDS,
        grace: float = 0.0,
        cancel_on_loss: bool = True,
    ) -> AsyncIterator[dict[str, L]]:
        """Holds all of the resources or none. They are acquired in sorted order, so two callers with the
        same resources cannot deadlock. `wait` is the total."""
        check_number("wait", wait)
        if isinstance(resources, str | bytes) or not isinstance(resources, Iterable):
            raise InvalidInput(f"resources is {shown(resources)}: give a list of names")
        names = list(resources)
        for name in names:
            rules.check_request(name, ttl, grace)
        names = sorted(set(names))
        if not 1 <= len(names) <= TOGETHER_MAX:
            raise InvalidInput(f"1 to {TOGETHER_MAX} resources can be held together")
        until = self._clock.monotonic() + wait
        async with AsyncExitStack() as stack:
            leases = {}
            for name in names:
                left = max(0.0, until - self._clock.monotonic())
                leases[name] = await stack.enter_async_context(
                    self.hold(name, ttl=ttl, wait=left, grace=grace, cancel_on_loss=cancel_on_loss)
                )
            yield leases

    async def acquire(
        self,
        resource: str,
        *,
        ttl: float = TTL_SECONDS,
        wait: float = WAIT_SECONDS,
        grace: float = 0.0,
        claim_id: str | None = None,
    ) -> L:
        """Returns a lease that the caller must release; prefer `hold`. Repeating a request with the same
        `claim_id` returns the same lease, so a request whose answer was lost can be repeated."""
        rules.check_request(resource, ttl, grace)
        check_number("wait", wait)
        if claim_id is not None:
            check_name("claim_id", claim_id, most=rules.RESOURCE_MAX)
        await self.open()
        claim = claim_id or self._ids.secret()
        request = LockRequest(resource, claim, ttl, grace, waits=wait > 0)
        started_at = self._clock.monotonic()
        try:
            lease = await self._wait_for(request, started_at + wait)
        except WaitTimeout:
            self._meter.count(meters.ACQUIRE, outcome="timeout")
            raise
        except asyncio.CancelledError:
            self._meter.count(meters.ACQUIRE, outcome="cancelled")
            raise
        except Exception:
            self._meter.count(meters.ACQUIRE, outcome="error")
            raise
        self._meter.count(meters.ACQUIRE, outcome="granted")
        self._meter.observe(meters.WAIT, self._clock.monotonic() - started_at)
        return lease

    async def _wait_for(self, request: LockRequest, until: float) -> L:
        wake = self._wakes.setdefault(request.claim_id, asyncio.Event())
        asking: asyncio.Task[Any] | None = None
        failures = 0
        try:
            while True:
                self._check_open()
                asked_at = self._clock.monotonic()
                wake.clear()
                asking = self._tasks.spawn(self._ask(request))
                timeout_seconds = max(until - asked_at, ANSWER_SECONDS)
                owner = ""
                try:
                    answer = await self._answer_of(asking, timeout_seconds)
                    self._check_open()
                except StoreUnavailable:
                    if self._clock.monotonic() >= until - TOLERANCE_SECONDS:
                        raise
                    pause = OUTAGE_SECONDS[min(failures, len(OUTAGE_SECONDS) - 1)]
                    pause *= 1.0 + unit_jitter(request.claim_id, failures)
                    failures += 1
                else:
                    if not isinstance(answer, LeaseDenied):
                        lease: L = answer(asked_at)
                        if lease.seconds_left > 0:
                            return self._held.start(lease)
                        pause = 0.0  # The lease expired before its answer arrived: ask again.
                    else:
                        pause, owner = answer.look_in, answer.owner
                left = until - self._clock.monotonic()
                if left <= TOLERANCE_SECONDS:
                    raise _timeout(request.resource, owner)
                if pause > 0:
                    await self._clock.wait(wake, min(left, pause))
        except BaseException as error:
            waits = not isinstance(error, StoreUnavailable | NotRunning)
            await self._abandon(request, asking, wait=waits)
            raise
        finally:
            self._wakes.pop(request.claim_id, None)
            self._tasks.task_ended.set()

    async def _answer_of(self, task: asyncio.Task[T], seconds: float) -> T:
        """The result of a request. The request continues in the background after a timeout."""
        done = asyncio.Event()
        self._answers[done] = None
        task.add_done_callback(lambda _: done.set())
        try:
            if not task.done() and not await self._clock.wait(done, seconds):
                raise StoreUnavailable(f"the store did not answer within {seconds:.3g} s")
        finally:
            self._answers.pop(done, None)
        if not task.done():
            self._check_open()
        return task.result()

    async def _abandon(
        self, request: LockRequest, asking: asyncio.Task[Any] | None, *, wait: bool
    ) -> None:
        """Withdraws the claim after the request in flight has ended, whatever its result."""
        if asking is None:
            return
        leaving = self._tasks.spawn(self._leave_after(request, asking))
        if wait:
            withdrawn = asyncio.Event()
            leaving.add_done_callback(lambda _: withdrawn.set())
            await self._clock.wait(withdrawn, LEAVE_SECONDS)

    async def _leave_after(self, request: LockRequest, asking: asyncio.Task[Any]) -> None:
        await asyncio.wait([asking])
        failed = asking.cancelled() or asking.exception() is not None
        if not failed and isinstance(asking.result(), LeaseDenied) and not request.waits:
            return
        try:
            await self._leave(request)
        except Exception as error:  # The caller raises the error that made it give up.
            log.warning(
                "the claim on %r was not withdrawn and has to expire: %s", request.resource, error
            )

    # -- opening and closing -------------------------------------------------------------------------

    async def open(self) -> None:
        """Connects. The first use does so implicitly."""
        self._check_open()
        loop = asyncio.get_running_loop()
        if self._is_open and self._loop is loop:
            return
        if self._loop is not loop:
            self._move(loop)
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            self._check_open()
            if not self._is_open:
                await self._open()
                self._is_open = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise NotRunning("these locks were closed: connect again")

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Binds to another event loop after the first one has ended."""
        if self._loop is not None:
            if not self._loop.is_closed():
                raise WrongLoop(
                    "these locks are in use in another event loop: connect separately in this one, or "
                    "use BlockingLocks, which any thread may call"
                )
            if not self._outlives_loops:
                raise WrongLoop(
                    "the event loop of these locks has ended: connect again in this one"
                )
            self.start_over()
        self._loop = loop

    def start_over(self) -> None:
        """After the event loop has ended, or in a forked child: its leases are not held here."""
        for lease in self._held:
            lease.disown()
        self._loop = None
        self._tasks, self._held = BackgroundTasks(), HeldLeases(self._clock)
        self._wakes, self._answers = {}, {}
        self._closing = None
        self._opening = None
        self._is_open = False

    async def close(self) -> None:
        """Waiting callers get NotRunning. Leases still held are lost (`shutdown`) and released. Closing
        waits at most 5 s for a store that does not answer; leases that it could not release expire."""
        if self._is_open and self._closing is None and self._loop is not asyncio.get_running_loop():
            await self.open()  # Takes over what an ended loop left open.
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut_down())
        await asyncio.shield(self._closing)

    async def _shut_down(self) -> None:
        self._is_closed = True
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if not self._is_open:
                return
            for event in [*self._wakes.values(), *self._answers]:
                event.set()
            self._held.shut_down()
            # Releases and withdrawals get time to finish before they are cancelled.
            await self._wait_idle(CLOSE_SECONDS)
            self._tasks.cancel()
            await self._wait_idle(LEAVE_SECONDS)
            self._held.stop_watching()
            self._is_open = False
            await self._close()

    async def _wait_idle(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while (self._tasks.running or self._wakes) and (
            left := until - self._clock.monotonic()
        ) > 0:
            self._tasks.task_ended.clear()
            await self._clock.wait(self._tasks.task_ended, left)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _timeout(resource: str, owner: str) -> WaitTimeout:
    holder = owner or "another holder"
    return WaitTimeout(f"'{resource}' was held by {holder} for the whole wait: try again later")
