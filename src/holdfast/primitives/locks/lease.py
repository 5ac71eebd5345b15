"""A lease as its holder sees it: it renews itself and reports its loss.

Promises: `lost` is set, by the holder's monotonic clock, before the store may grant the resource to another
claim. A renewal never acquires. A second release has no effect. Never: a lost lease is held again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from holdfast.clock import Clock
from holdfast.core import lease as rules
from holdfast.core.lease import TOLERANCE_SECONDS, LossReason
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.metrics import Meter
from holdfast.primitives.locks import meters
from holdfast.primitives.locks.background import BackgroundTasks, log


def _nothing() -> None:
    return


class Lost(asyncio.Event):
    """Set once the lease is lost; `reason` says why."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: LossReason | None = None


class LeaseStore(Protocol):
    """Renews and releases one lease where it is stored."""

    async def renew(self, ttl: float) -> LossReason | None:
        """Makes the lease last `ttl` seconds from now. Returns why it is no longer held, or None if it is.
        StoreUnavailable if that is unknown."""
        ...

    async def release(self) -> LossReason | None:
        """Ends the lease. Returns and raises like `renew`."""
        ...


class HeldLease:
    """The common part of `Lease` and `EfficiencyLease`."""

    def __init__(
        self,
        resource: str,
        store: LeaseStore,
        *,
        claim_id: str,
        ttl: float,
        asked_at: float,
        clock: Clock,
        meter: Meter,
        tasks: BackgroundTasks,
        margin: Callable[[float], float],
    ) -> None:
        """`asked_at`: when the request was sent; the lease counts from then. `margin`: seconds before the
        end of a ttl at which the holder stops relying on the lease."""
        self.resource = resource
        self.claim_id = claim_id
        self.ttl = ttl
        self.lost = Lost()
        self._store = store
        self._clock = clock
        self._meter = meter
        self._tasks = tasks
        self._margin = margin
        self._set_deadline(asked_at, ttl)
        self._asked_at = asked_at
        self._asked_ttl = ttl
        self._renew_at = asked_at + rules.renew_in(ttl, claim_id, 0)
        self._renew_now = False
        self._granted_at = clock.monotonic()
        self._wake = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._answer: LossReason | StoreUnavailable | None = None
        self._failures = 0
        self._on_lost: list[Callable[[], None]] = []
        self._released: asyncio.Event | None = None
        self._renewal_loop: asyncio.Task[None] | None = None
        self._on_released: Callable[[], None] = _nothing

    def start(self, on_released: Callable[[], None]) -> None:
        """Starts to renew; `on_released` is called after the release."""
        self._on_released = on_released
        self._renewal_loop = self._tasks.spawn(self._renew_until_lost())

    def __repr__(self) -> str:
        held = "held" if self._released is None else "released"
        state = f"lost: {self.lost.reason}" if self.lost.is_set() else held
        return f"<{type(self).__name__} {self.resource!r} {state}>"

    @property
    def seconds_left(self) -> float:
        """How long the holder may rely on the lease without another renewal. 0: it is lost or released."""
        if self.lost.is_set() or self._released is not None:
            return 0.0
        left = self._deadline - self._clock.monotonic()
        return left if left > TOLERANCE_SECONDS else 0.0

    def check(self) -> None:
        """Raises LeaseLost if the lease is lost or released. Compares the deadline with the clock now."""
        if not self.lost.is_set() and self.seconds_left <= 0.0:
            # The event loop or the process stood still, so the renewal loop has not noticed yet.
            self.lose(LossReason.EXPIRED)
        if self.lost.is_set():
            raise self.loss()
        self._check_held()

    def _check_held(self) -> None:
        if self._released is not None:
            raise LeaseLost(f"the lease of '{self.resource}' was released: acquire it again")

    def loss(self) -> LeaseLost:
        """The error to raise for a lost lease."""
        return LeaseLost(
            f"the lease of '{self.resource}' is lost ({self.lost.reason}): another claim may hold it; "
            "stop, and let the fence refuse further writes"
        )

    def lose(self, reason: LossReason) -> None:
        """Declares the lease lost. Only the first reason counts."""
        if self.lost.is_set() or self._released is not None:
            return
        self.lost.reason = reason
        self.lost.set()
        self._wake.set()
        self._meter.count(meters.LOST, reason=reason.value)
        log.warning("the lease of %r is lost: %s", self.resource, reason)
        for callback in self._on_lost:
            callback()

    def disown(self) -> None:
        """For a lease of another process or of an ended event loop: lost, and never released here."""
        if not self.lost.is_set():
            self.lost.reason = LossReason.SHUTDOWN
            self.lost.set()
        self._released = self._released or asyncio.Event()
        self._released.set()

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Calls back in the event loop; at once if the lease is lost already."""
        self._on_lost.append(callback)
        if self.lost.is_set():
            callback()

    def check_store(self) -> None:
        """Renews now, because a hint says that the lease may have changed in the store."""
        self._renew_now = True
        self._wake.set()

    def check_deadline(self) -> None:
        """Compares the deadline with the clock now, because timers may have stood still."""
        self._wake.set()

    async def extend(self, ttl: float) -> None:
        """Renews the lease now, and from now on for `ttl` seconds each time. LeaseLost if it is no longer
        held. StoreUnavailable if that is unknown; the lease then continues unchanged."""
        rules.check_request(self.resource, ttl)
        self._check_held()
        self.check()
        asked_at = self._clock.monotonic()
        reason = await self._store.renew(ttl)
        if reason is not None:
            self.lose(reason)
        if self.lost.is_set():
            raise self.loss()
        self.ttl = ttl
        self._set_deadline(asked_at, ttl)
        self._renew_at = asked_at + rules.renew_in(ttl, self.claim_id, 0)
        self._wake.set()

    def _set_deadline(self, asked_at: float, ttl: float) -> None:
        self._deadline = asked_at + ttl - self._margin(ttl)

    async def release(self) -> None:
        """Releases the lease and wakes the next waiter. If the store cannot be reached, waits at most until
        the lease expires."""
        released = self._released
        if released is None:
            released = self._start_release()
            if self.lost.is_set():
                return  # The lease is lost either way, and the store may be gone.
        left = self._deadline - self._clock.monotonic()
        await self._clock.wait(released, max(0.0, left))

    def shut_down(self) -> None:
        """The locks are closing: declares the lease lost and releases it in the background."""
        self.lose(LossReason.SHUTDOWN)
        if self._released is None:
            self._start_release()

    def _start_release(self) -> asyncio.Event:
        self._released = asyncio.Event()
        if self._renewal_loop is not None:
            self._renewal_loop.cancel()
        self._meter.observe(meters.HOLD, self._clock.monotonic() - self._granted_at)
        self._tasks.spawn(self._release(self._released))
        return self._released

    async def _release(self, released: asyncio.Event) -> None:
        try:
            reason = await self._store.release()
            if reason is not None and not self.lost.is_set():
                self.lost.reason = reason
                self.lost.set()
                self._meter.count(meters.LOST, reason=reason.value)
        except StoreUnavailable as error:
            log.warning(
                "the lease of %r was not released and has to expire: %s", self.resource, error
            )
        finally:
            self._on_released()
            released.set()

    # -- renewal ---------------------------------------------------------------------------------

    async def _renew_until_lost(self) -> None:
        """Renews after each third of the ttl. Declares the lease lost at the deadline, even while a renewal
        is in flight."""
        clock = self._clock
        renewals = 0
        while not self.lost.is_set():
            now = clock.monotonic()
            if self._renewing is not None and self._renewing.done():
                self._renewing = None
                renewals += 1
                self._renew_at = self._apply_answer(now, renewals)
                continue
            if now >= self._deadline - TOLERANCE_SECONDS:
                is_unanswered = self._failures or self._renewing is not None
                self.lose(LossReason.STORE_UNREACHABLE if is_unanswered else LossReason.EXPIRED)
                return
            is_due = now >= self._renew_at - TOLERANCE_SECONDS or self._renew_now
            if self._renewing is None and is_due:
                self._renew_now = False
                self._asked_at, self._asked_ttl = now, self.ttl
                self._renewing = self._tasks.spawn(self._renew(self.ttl))
                self._renewing.add_done_callback(lambda _: self._wake.set())
            wake_at = self._deadline if self._renewing else min(self._renew_at, self._deadline)
            await clock.wait(self._wake, wake_at - now)
            self._wake.clear()

    async def _renew(self, ttl: float) -> None:
        started_at = self._clock.monotonic()
        try:
            self._answer = await self._store.renew(ttl)
            self._meter.observe(meters.RENEW, self._clock.monotonic() - started_at)
        except StoreUnavailable as error:
            self._answer = error
        except Exception as error:
            log.exception("a renewal of %r failed", self.resource)
            self._answer = StoreUnavailable(f"a renewal failed: {error!r}")

    def _apply_answer(self, now: float, renewals: int) -> float:
        """Applies the answer of a renewal and returns when the next one is due."""
        match self._answer:
            case None:
                self._failures = 0
                self._set_deadline(self._asked_at, self._asked_ttl)
                return self._asked_at + rules.renew_in(self.ttl, self.claim_id, renewals)
            case LossReason() as reason:
                self.lose(reason)
                return now
            case StoreUnavailable() as error:
                self._failures += 1
                self._meter.count(meters.RENEW_FAILURES)
                log.warning("the lease of %r was not renewed: %s", self.resource, error)
                return now + rules.retry_in(self.ttl, self.claim_id, self._failures)
