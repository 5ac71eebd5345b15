"""What a holder holds: a lease that renews itself, and says at once when it is lost.

Promises: `lost` is set, by the holder's own monotonic clock, before the store may grant the resource to
anybody else; a renewal never acquires; releasing twice is the same as once.
Never: lost and then held again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from holdfast.clock import Clock
from holdfast.core import lease as rules
from holdfast.core.lease import TOLERANCE_SECONDS, LossReason
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.primitives.locks import meters
from holdfast.primitives.metrics import Meter

log = logging.getLogger("holdfast.locks")

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


def _nothing() -> None:
    return


class Lost(asyncio.Event):
    """Set once the lease is lost; `reason` says why."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: LossReason | None = None


class LeaseStore(Protocol):
    """How a lease is kept in its store."""

    async def renew(self, ttl: float) -> LossReason | None:
        """For so many seconds from now. Why it is not held any more; None when it is. StoreUnavailable when
        nobody knows."""
        ...

    async def give_back(self) -> LossReason | None:
        """The same of a release."""
        ...


class Terms:
    """What every lease of one set of locks has in common."""

    def __init__(self, clock: Clock, meter: Meter, spawn: Spawn, margin: Callable[[float], float]):
        self.clock = clock
        self.meter = meter
        self.spawn = spawn
        self.margin = margin


class HeldLease:
    """The common part of `Lease` and `EfficiencyLease`."""

    def __init__(
        self,
        resource: str,
        grip: LeaseStore,
        terms: Terms,
        *,
        claim_id: str,
        ttl: float,
        asked_at: float,
    ) -> None:
        self.resource = resource
        self.claim_id = claim_id
        self.ttl = ttl
        self.lost = Lost()
        self._grip = grip
        self._terms = terms
        self._deadline = asked_at + ttl - terms.margin(ttl)
        self._asked_at = asked_at
        self._asked_ttl = ttl
        self._due = asked_at + rules.renew_in(ttl, claim_id, 0)
        self._poked = False
        self._granted_at = terms.clock.monotonic()
        self._stir = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._answer: LossReason | StoreUnavailable | None = None
        self._failures = 0
        self._on_lost: list[Callable[[], None]] = []
        self._ended: asyncio.Event | None = None
        self._watch: asyncio.Task[None] | None = None
        self._forget: Callable[[], None] = _nothing

    def start(self, forget: Callable[[], None]) -> None:
        """Begins to renew; `forget` is called when it has been given back."""
        self._forget = forget
        self._watch = self._terms.spawn(self._keep())

    def __repr__(self) -> str:
        state = f"lost: {self.lost.reason}" if self.lost.is_set() else "held"
        return f"<{type(self).__name__} {self.resource!r} {state}>"

    @property
    def seconds_left(self) -> float:
        """How long it is safe to believe in the lease, if no renewal gets through; 0 when it is lost."""
        if self.lost.is_set():
            return 0.0
        left = self._deadline - self._terms.clock.monotonic()
        return left if left > TOLERANCE_SECONDS else 0.0

    def check(self) -> None:
        """Raises LeaseLost when the lease is lost, be it since this very moment."""
        if not self.lost.is_set() and self.seconds_left <= 0.0:
            # The event loop stood still, or the whole process did: nobody has noticed yet.
            self.lose(LossReason.EXPIRED)
        if self.lost.is_set():
            raise self.loss()

    def loss(self) -> LeaseLost:
        """The error that says so."""
        return LeaseLost(
            f"the lease of '{self.resource}' is lost ({self.lost.reason}): somebody else may hold it; "
            "stop, and let writes be refused by their fence"
        )

    def lose(self, reason: LossReason) -> None:
        """Declares the lease lost. The first reason stays."""
        if self.lost.is_set() or self._ended is not None:
            return
        self.lost.reason = reason
        self.lost.set()
        self._stir.set()
        self._terms.meter.count(meters.LOST, reason=reason.value)
        log.warning("the lease of %r is lost: %s", self.resource, reason)
        for tell in self._on_lost:
            tell()

    def disown(self) -> None:
        """It is another process's now, or of an event loop that has ended: lost, and not to be given back."""
        if not self.lost.is_set():
            self.lost.reason = LossReason.SHUTDOWN
            self.lost.set()
        self._ended = self._ended or asyncio.Event()
        self._ended.set()

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Calls back in the event loop, at once if it is lost already."""
        self._on_lost.append(tell)
        if self.lost.is_set():
            tell()

    def look(self) -> None:
        """Asks the store now whether the lease still holds: a hint came."""
        self._poked = True
        self._stir.set()

    def stir(self) -> None:
        """Looks at the clock now: a timer may have stood still while time passed."""
        self._stir.set()

    async def extend(self, ttl: float) -> None:
        """Renews the lease now, for `ttl` seconds at a time from now on. LeaseLost when it is not held any
        more; StoreUnavailable when that is not known: then it goes on as it was."""
        rules.check_request(self.resource, ttl)
        self.check()
        asked_at = self._terms.clock.monotonic()
        reason = await self._grip.renew(ttl)
        if reason is not None:
            self.lose(reason)
        if self.lost.is_set():
            raise self.loss()
        self.ttl = ttl
        self._believe(asked_at, ttl)
        self._due = asked_at + rules.renew_in(ttl, self.claim_id, 0)
        self._stir.set()

    def _believe(self, asked_at: float, ttl: float) -> None:
        self._deadline = asked_at + ttl - self._terms.margin(ttl)

    async def release(self) -> None:
        """Gives the lease back; the next in line is woken. A store that cannot be reached is not waited
        for longer than the lease lasts: then it ends by itself."""
        ended = self._ended
        if ended is None:
            ended = self._start_release()
            if self.lost.is_set():
                return  # Nobody waits for it, and the store may be gone.
        left = self._deadline - self._terms.clock.monotonic()
        await self._terms.clock.wait(ended, max(0.0, left))

    def shut_down(self) -> None:
        """The locks are closed: the holder is told, and the lease is given back in the background."""
        self.lose(LossReason.SHUTDOWN)
        if self._ended is None:
            self._start_release()

    def _start_release(self) -> asyncio.Event:
        self._ended = asyncio.Event()
        if self._watch is not None:
            self._watch.cancel()
        self._terms.meter.observe(meters.HOLD, self._terms.clock.monotonic() - self._granted_at)
        self._terms.spawn(self._give_back(self._ended))
        return self._ended

    async def _give_back(self, ended: asyncio.Event) -> None:
        try:
            reason = await self._grip.give_back()
            if reason is not None and not self.lost.is_set():
                self.lost.reason = reason
                self.lost.set()
                self._terms.meter.count(meters.LOST, reason=reason.value)
        except StoreUnavailable as error:
            log.warning("the lease of %r ends by itself: %s", self.resource, error)
        finally:
            self._forget()
            ended.set()

    # -- renewal ---------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Renews at each third of the ttl; lets go at the deadline, whatever the store is doing."""
        clock = self._terms.clock
        renewals = 0
        while not self.lost.is_set():
            now = clock.monotonic()
            if self._renewing is not None and self._renewing.done():
                self._renewing = None
                renewals += 1
                self._due = self._settle(now, renewals)
                continue
            if now >= self._deadline - TOLERANCE_SECONDS:
                unheard = self._failures or self._renewing is not None
                self.lose(LossReason.STORE_UNREACHABLE if unheard else LossReason.EXPIRED)
                return
            if self._renewing is None and (now >= self._due - TOLERANCE_SECONDS or self._poked):
                self._poked = False
                self._asked_at, self._asked_ttl = now, self.ttl
                self._renewing = self._terms.spawn(self._renew(self.ttl))
                self._renewing.add_done_callback(lambda _: self._stir.set())
            wake_at = self._deadline if self._renewing else min(self._due, self._deadline)
            await clock.wait(self._stir, wake_at - now)
            self._stir.clear()

    async def _renew(self, ttl: float) -> None:
        began = self._terms.clock.monotonic()
        try:
            self._answer = await self._grip.renew(ttl)
            self._terms.meter.observe(meters.RENEW, self._terms.clock.monotonic() - began)
        except StoreUnavailable as error:
            self._answer = error
        except Exception as error:
            log.exception("a renewal of %r failed", self.resource)
            self._answer = StoreUnavailable(f"a renewal failed: {error!r}")

    def _settle(self, now: float, renewals: int) -> float:
        """What a renewal's answer means; when the next one is due."""
        match self._answer:
            case None:
                self._failures = 0
                self._believe(self._asked_at, self._asked_ttl)
                return self._asked_at + rules.renew_in(self.ttl, self.claim_id, renewals)
            case LossReason() as reason:
                self.lose(reason)
                return now
            case StoreUnavailable() as error:
                self._failures += 1
                self._terms.meter.count(meters.RENEW_FAILURES)
                log.warning("the lease of %r was not renewed: %s", self.resource, error)
                return now + rules.retry_in(self.ttl, self.claim_id, self._failures)
