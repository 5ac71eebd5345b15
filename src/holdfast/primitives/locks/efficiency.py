"""Locks on Redis that save work: cheap, but two holders at once are possible.

    locks = EfficiencyLocks.connect("redis://localhost:6379/0")       # or a list of independent ones
    async with locks.hold("nightly-report", ttl=30, wait=0) as lease:
        await build_report()

Promises: those of Redlock; renewal and loss as in `Locks`. Never: a fence (the type has none) or an order of
waiters. Use `Locks` where two holders at once would do harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Self

from holdfast.clock import Clock, SystemClock
from holdfast.core import lease as rules
from holdfast.core.ids import Ids
from holdfast.core.lease import LeaseDenied, LossReason
from holdfast.core.retry import unit_jitter
from holdfast.errors import InvalidInput
from holdfast.metrics import Meter, NullMeter
from holdfast.primitives.locks.base import LockRequest, LocksBase
from holdfast.primitives.locks.lease import HeldLease
from holdfast.primitives.locks.nodes import TIMEOUT_SECONDS
from holdfast.primitives.locks.redlock import AsyncRedlock
from holdfast.store.backends import secret_ids

POLL_SECONDS: Final = 0.05
"""Between two requests of a waiter; jitter makes it up to twice as long."""


class EfficiencyLease(HeldLease):
    """Has no fence: nothing refuses the writes of a holder that was paused past its lease."""


class EfficiencyLocks(LocksBase[EfficiencyLease]):
    """Leases on one Redis, or on a majority of several."""

    def __init__(
        self,
        redlock: AsyncRedlock,
        *,
        clock: Clock,
        ids: Ids | None = None,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(clock, ids or secret_ids(), meter or NullMeter(), rules.margin_seconds)
        self._redlock = redlock
        self._denials = 0

    @classmethod
    def connect(
        cls,
        urls: str | Sequence[str],
        *,
        clock: Clock | None = None,
        meter: Meter | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Self:
        """Connects on first use."""
        used_clock = clock or SystemClock()
        redlock = AsyncRedlock.connect(
            urls, timeout_seconds=timeout_seconds, clock=used_clock.monotonic
        )
        return cls(redlock, clock=used_clock, meter=meter)

    async def _open(self) -> None:
        """The first request connects."""

    async def _close(self) -> None:
        await self._redlock.close()

    async def _ask(self, request: LockRequest) -> Callable[[float], EfficiencyLease] | LeaseDenied:
        if request.grace:
            raise InvalidInput("Redis locks have no grace: use Locks, or a longer ttl")
        token, ttl_ms = request.claim_id, _milliseconds(request.ttl)
        grant = await self._redlock.grant(request.resource, ttl_ms, token=token)
        if grant is None:
            self._denials += 1
            return LeaseDenied("", POLL_SECONDS * (1.0 + unit_jitter(token, self._denials)))
        return lambda asked_at: EfficiencyLease(
            request.resource,
            _RedisLeaseStore(self._redlock, request.resource, token),
            claim_id=token,
            ttl=request.ttl,
            asked_at=asked_at,
            clock=self._clock,
            meter=self._meter,
            tasks=self._tasks,
            margin=self._margin,
        )

    async def _leave(self, request: LockRequest) -> None:
        await self._redlock.release(request.resource, request.claim_id)


class _RedisLeaseStore:
    """Renews and releases one `EfficiencyLease` on Redis."""

    def __init__(self, redlock: AsyncRedlock, resource: str, token: str) -> None:
        self._redlock = redlock
        self._resource = resource
        self._token = token

    async def renew(self, ttl: float) -> LossReason | None:
        is_held = await self._redlock.refresh(self._resource, self._token, _milliseconds(ttl))
        return None if is_held else LossReason.EXPIRED

    async def release(self) -> LossReason | None:
        was_held = await self._redlock.release(self._resource, self._token)
        return None if was_held else LossReason.EXPIRED


def _milliseconds(ttl: float) -> int:
    return max(1, int(ttl * 1000))
