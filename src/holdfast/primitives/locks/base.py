"""What all locks that people hold have in common: waiting, holding several, closing.

Promises: a caller that is cancelled, or gives up, never ends as holder: whatever its claim has got is given
back; a request whose answer was lost is repeated under the same claim; a silent store exceeds `wait` by
`ANSWER_SECONDS` (to ask) and `LEAVE_SECONDS` (to give back) at most, and giving back hides no error;
closing ends every wait with NotRunning, takes every lease away (`shutdown`) and hangs on nothing.
Never: a task of its own that is lost.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from holdfast.clock import Clock
from holdfast.core import lease as rules
from holdfast.core.check import check_flag, check_name, check_number, shown
from holdfast.core.ids import Ids
from holdfast.core.lease import TOLERANCE_SECONDS, LeaseDenied
from holdfast.core.retry import unit_jitter
from holdfast.errors import InvalidInput, NotRunning, StoreUnavailable, WaitTimeout, WrongLoop
from holdfast.forks import Unmoved, follow
from holdfast.primitives.locks import meters
from holdfast.primitives.locks.hold import Hold
from holdfast.primitives.locks.lease import HeldLease, Terms, log
from holdfast.primitives.metrics import Meter

T = TypeVar("T")
L = TypeVar("L", bound=HeldLease)
TTL_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 5.0
"""How long a store may take for one answer, at least."""
LOOK_SECONDS: Final = 1.0
"""How often it is looked whether the machine stood still while leases are held."""
OUTAGE_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
LEAVE_SECONDS: Final = 0.5
"""How long a caller that gives up waits for its claim to be given back; that goes on without it."""
CLOSE_SECONDS: Final = 5.0
"""How long closing waits for a store that does not answer."""
TOGETHER_MAX: Final = 100
"""Resources that one caller may hold together."""


class LockRequest(NamedTuple):
    """One wish for one resource."""

    resource: str
    claim_id: str
    ttl: float
    grace: float
    waits: bool


class LocksBase(Unmoved, ABC, Generic[L]):
    """See `Locks` and `EfficiencyLocks`. They live in one event loop at a time, that of their first use."""

    _outlives_loops = False
    """Whether they can go on in another loop when theirs has ended."""

    def __init__(
        self, clock: Clock, ids: Ids, meter: Meter, margin: Callable[[float], float]
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._meter = meter
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._held: dict[L, None] = {}  # in order: sets of objects are ordered by address
        self._wakes: dict[str, asyncio.Event] = {}
        self._answers: dict[asyncio.Event, None] = {}
        """Of requests that are on their way."""
        self._closing: asyncio.Task[None] | None = None
        self._quieter = asyncio.Event()
        """A task or a wait has ended."""
        self._looking_on: asyncio.Task[None] | None = None
        self._none_held = asyncio.Event()
        self._opening: asyncio.Lock | None = None
        self._is_open = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._terms = Terms(clock, meter, self._spawn, margin)
        follow(self)

    # -- what differs ----------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _ask(self, request: LockRequest) -> Callable[[float], L] | LeaseDenied:
        """One try: what makes the lease out of the time before it was asked for, or when to ask again."""

    @abstractmethod
    async def _leave(self, request: LockRequest) -> None:
        """Gives back a place in line, and whatever else the claim has got."""

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
        """`async with locks.hold("host:42", ttl=30, wait=10) as lease:`. Times are seconds; `wait=0` only
        tries. WaitTimeout when somebody else had it all the time."""
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
        """All of them or none. They are taken in sorted order, whatever the order here, so that two who
        want the same ones never wait for each other. `wait` is for all together."""
        check_number("wait", wait)
        if isinstance(resources, str | bytes) or not isinstance(resources, Iterable):
            raise InvalidInput(f"resources is {shown(resources)}: give a list of names")
        given = list(resources)
        for name in given:
            rules.check_request(name, ttl, grace)
        names = sorted(set(given))
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
        """A lease to be released by hand; prefer `hold`. Whoever repeats a request whose answer was lost
        gives the same `claim_id` and gets the same lease."""
        rules.check_request(resource, ttl, grace)
        check_number("wait", wait)
        if claim_id is not None:
            check_name("claim_id", claim_id, most=rules.RESOURCE_MAX)
        await self.open()
        claim = claim_id or self._ids.secret()
        request = LockRequest(resource, claim, ttl, grace, waits=wait > 0)
        began = self._clock.monotonic()
        try:
            lease = await self._wait_for(request, began + wait)
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
        self._meter.observe(meters.WAIT, self._clock.monotonic() - began)
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
                asking = self._spawn(self._ask(request))
                patience = max(until - asked_at, ANSWER_SECONDS)
                owner = ""
                try:
                    answer = await self._answer_of(asking, patience)
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
                            return self._started(lease)
                        pause = 0.0  # The answer took longer than the lease lasts: ask again.
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
            self._quieter.set()

    def _started(self, lease: L) -> L:
        self._held[lease] = None
        self._none_held.clear()
        lease.start(lambda: self._let_go(lease))
        if self._looking_on is None or self._looking_on.done():
            self._looking_on = asyncio.create_task(self._look_on())
        return lease

    def _let_go(self, lease: L) -> None:
        self._held.pop(lease, None)
        if not self._held:
            self._none_held.set()

    async def _look_on(self) -> None:
        """While a machine is suspended its timers stand still, and leases do not: after it wakes up, holders
        must not wait for a timer to hear that theirs has ended."""
        while self._held:
            before = self._clock.monotonic()
            await self._clock.wait(self._none_held, LOOK_SECONDS)
            if self._clock.monotonic() - before > 2 * LOOK_SECONDS:
                for lease in list(self._held):
                    lease.stir()

    async def _answer_of(self, task: asyncio.Task[T], seconds: float) -> T:
        """The task goes on when nobody waits for it any more."""
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
        """After the question that is still on its way, whatever that brings."""
        if asking is None:
            return
        leaving = self._spawn(self._leave_after(request, asking))
        if wait:
            left = asyncio.Event()
            leaving.add_done_callback(lambda _: left.set())
            await self._clock.wait(left, LEAVE_SECONDS)

    async def _leave_after(self, request: LockRequest, asking: asyncio.Task[Any]) -> None:
        await asyncio.wait([asking])
        failed = asking.cancelled() or asking.exception() is not None
        if not failed and isinstance(asking.result(), LeaseDenied) and not request.waits:
            return
        try:
            await self._leave(request)
        except Exception as error:  # the caller has an error of its own
            log.warning("the claim on %r ends by itself: %s", request.resource, error)

    # -- life ----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connects; the first use does it by itself."""
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
        """Into another event loop, if theirs has ended and they can."""
        if self._loop is not None:
            if not self._loop.is_closed():
                raise WrongLoop(
                    "these locks are in use in another event loop: connect others for this one, or use "
                    "BlockingLocks, which any thread may"
                )
            if not self._outlives_loops:
                raise WrongLoop(
                    "the event loop of these locks has ended: connect again in this one"
                )
            self.start_over()
        self._loop = loop

    def start_over(self) -> None:
        """Their event loop has ended, or this is a forked child: what was held there is not held here."""
        for lease in self._held:
            lease.disown()
        self._loop = None
        self._tasks, self._held, self._wakes, self._answers = {}, {}, {}, {}
        self._quieter, self._none_held = asyncio.Event(), asyncio.Event()
        self._closing = self._looking_on = None
        self._opening = None
        self._is_open = False

    async def close(self) -> None:
        """Callers that wait get NotRunning. A lease that is still held is lost (`shutdown`) and given back. A
        store that does not answer is not waited for longer than 5 s: what is held there ends by itself."""
        if self._is_open and self._closing is None and self._loop is not asyncio.get_running_loop():
            await self.open()  # What a loop that has ended left open is closed in this one.
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut_down())
        await asyncio.shield(self._closing)

    async def _shut_down(self) -> None:
        self._is_closed = True
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if not self._is_open:
                return
            for waiting in [*self._wakes.values(), *self._answers]:
                waiting.set()
            for lease in list(self._held):
                lease.shut_down()
            await self._end_tasks()
            if self._looking_on is not None:
                self._looking_on.cancel()
            self._is_open = False
            await self._close()

    async def _end_tasks(self) -> None:
        """What gives back has time to get through; then it is broken off."""
        await self._be_quiet(CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await self._be_quiet(LEAVE_SECONDS)

    async def _be_quiet(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while (self._tasks or self._wakes) and (left := until - self._clock.monotonic()) > 0:
            self._quieter.clear()
            await self._clock.wait(self._quieter, left)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._quieter.set()
        if not task.cancelled() and task.exception() is not None:
            log.debug("a request ended with %r", task.exception())


def _timeout(resource: str, owner: str) -> WaitTimeout:
    by = f"by {owner}" if owner else "by somebody else"
    return WaitTimeout(f"'{resource}' was held {by} as long as was waited: try again later")
