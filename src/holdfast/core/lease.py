"""The rules of named leases: who may hold a resource, until when, in which order.

Promises: at most one claim holds a resource; the fence rises with every grant and every revocation and
never falls; whoever asked first is granted first; a claim that asks again gets the same fence, and never a
shorter lease; a renewal never acquires. Time is the lease's own clock, kept in its row: it never goes back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_name, check_number
from holdfast.core.retry import unit_jitter

RESOURCE_MAX: Final = 512
TTL_SECONDS_MIN: Final = 0.02
TTL_SECONDS_MAX: Final = 86_400.0
WAITERS_MAX: Final = 10_000
DRIFT_SHARE: Final = 0.01
DRIFT_SECONDS: Final = 0.002
RENEWALS: Final = 3
"""A lease is renewed so often within its ttl: one renewal may be missed."""
JITTER_SHARE: Final = 0.1
TOLERANCE_SECONDS: Final = 1e-6
"""A wait that is short by no more has ended: epoch seconds as floats are no finer."""


class LossReason(StrEnum):
    """Why a holder holds no longer."""

    EXPIRED = "expired"
    """It was not renewed in time."""
    REVOKED = "revoked"
    """An operator took it away."""
    FENCED = "fenced"
    """Somebody else holds it under a newer fence."""
    STORE_UNREACHABLE = "store_unreachable"
    """Renewals did not get through, and the time is up."""
    SHUTDOWN = "shutdown"
    """The locks were closed while it was held."""


class LeaseRow(msgspec.Struct, frozen=True):
    """The row of a resource. It stays when nobody holds: the fence must not start over."""

    resource: str
    fence: int = 0
    claim_id: str | None = None
    """Who holds; None when nobody does."""
    owner: str = ""
    ttl_seconds: float = 0.0
    grace_seconds: float = 0.0
    granted_at: float = 0.0
    expires_at: float = 0.0
    free_at: float = 0.0
    """Not granted before this time: the grace after a revocation."""
    clock_at: float = 0.0
    """The lease's clock: the latest time at which anybody judged it."""
    last_ticket: int = 0


class Waiter(msgspec.Struct, frozen=True):
    """A claim that stands in line."""

    ticket: int
    claim_id: str
    owner: str
    asked_at: float
    alive_until: float


class LeaseRequest(msgspec.Struct, frozen=True):
    """What a claimant wants."""

    resource: str
    claim_id: str
    owner: str
    ttl_seconds: float
    grace_seconds: float = 0.0
    waiter_seconds: float = 0.0
    """How long a place in line is kept without a word; 0: take it now or not at all."""


class LeaseGranted(msgspec.Struct, frozen=True):
    lease: LeaseRow
    is_new: bool
    """False: the answer of an earlier grant, given again."""
    took_over: bool = False
    """The holder before did not release it: its time ran out."""


class LeaseDenied(msgspec.Struct, frozen=True):
    """Not now. `look_in` is when it is worth asking again, unless a hint comes first."""

    owner: str
    look_in: float
    """Seconds."""


Verdict: TypeAlias = LeaseGranted | LeaseDenied


def check_resource(resource: str) -> None:
    """InvalidInput unless it can be the name of a lock."""
    check_name("resource", resource, most=RESOURCE_MAX)


def check_request(resource: str, ttl_seconds: float, grace_seconds: float = 0.0) -> None:
    """InvalidInput that names what is wrong with a request."""
    check_resource(resource)
    check_number("ttl", ttl_seconds, least=TTL_SECONDS_MIN, most=TTL_SECONDS_MAX)
    check_number("grace", grace_seconds, most=TTL_SECONDS_MAX)


def is_held(lease: LeaseRow) -> bool:
    """Whether some claim holds it by the lease's clock."""
    return lease.claim_id is not None and lease.expires_at > lease.clock_at


def opens_at(lease: LeaseRow) -> float:
    """The earliest time for the next grant, if nobody renews or releases before."""
    if lease.claim_id is None:
        return lease.free_at
    return lease.expires_at + lease.grace_seconds


def judge(lease: LeaseRow, ask: LeaseRequest, own: Waiter | None, head: Waiter | None) -> Verdict:
    """Answers a claimant. `own` is its place in line, `head` the first waiter that is alive."""
    now = lease.clock_at
    if lease.claim_id == ask.claim_id and is_held(lease):
        return LeaseGranted(_lengthened(lease, ask.ttl_seconds), is_new=False)
    is_first = head is None or head.claim_id == ask.claim_id
    if own is not None and head is not None:
        is_first = own.ticket <= head.ticket
    free_at = opens_at(lease)
    if is_first and free_at <= now:
        took_over = lease.claim_id is not None
        return LeaseGranted(_granted(lease, ask), is_new=True, took_over=took_over)
    look_at = free_at if is_first else head.alive_until if head is not None else now
    beat = ask.waiter_seconds / RENEWALS
    return LeaseDenied(
        lease.owner if lease.claim_id is not None else "", max(0.0, min(beat, look_at - now))
    )


def _granted(lease: LeaseRow, ask: LeaseRequest) -> LeaseRow:
    return replace(
        lease,
        fence=lease.fence + 1,
        claim_id=ask.claim_id,
        owner=ask.owner,
        ttl_seconds=ask.ttl_seconds,
        grace_seconds=ask.grace_seconds,
        granted_at=lease.clock_at,
        expires_at=lease.clock_at + ask.ttl_seconds,
        free_at=0.0,
    )


def holds(lease: LeaseRow, claim_id: str, fence: int) -> bool:
    """Whether nobody was granted and nothing revoked since: then a fenced write may pass, even after
    the ttl, because whoever is granted next comes after it."""
    return lease.claim_id == claim_id and lease.fence == fence


def renewed(
    lease: LeaseRow, claim_id: str, fence: int, ttl_seconds: float
) -> LeaseRow | LossReason:
    """The lease with a new end; never one that has ended."""
    if not holds(lease, claim_id, fence):
        return LossReason.FENCED if lease.fence > fence else LossReason.EXPIRED
    if not is_held(lease):
        return LossReason.EXPIRED
    return _lengthened(lease, ttl_seconds)


def _lengthened(lease: LeaseRow, ttl_seconds: float) -> LeaseRow:
    """With at least so many seconds from now. Never shorter: whoever was told a later end believes in it."""
    until = lease.clock_at + ttl_seconds
    if until <= lease.expires_at:
        return lease
    return replace(lease, ttl_seconds=ttl_seconds, expires_at=until)


def released(lease: LeaseRow) -> LeaseRow:
    """Nobody holds it; the next one may come at once."""
    return replace(lease, claim_id=None, owner="", expires_at=0.0, free_at=0.0)


def was_released(lease: LeaseRow, fence: int) -> bool:
    """Whether the grant under this fence was given back and no other followed: a revocation raises the
    fence, and a lease that expired keeps its claim."""
    return lease.claim_id is None and lease.fence == fence


def revoked(lease: LeaseRow) -> LeaseRow:
    """Nobody holds it, and what the old holder still writes under its fence is refused."""
    after = released(lease)
    return replace(after, fence=lease.fence + 1, free_at=lease.clock_at + lease.grace_seconds)


# -- the holder's side -----------------------------------------------------------------------------------


def margin_seconds(
    ttl_seconds: float, share: float = DRIFT_SHARE, fixed: float = DRIFT_SECONDS
) -> float:
    """How much earlier than the store the holder lets go: two clocks do not run alike."""
    return ttl_seconds * share + fixed


def renew_in(ttl_seconds: float, key: str, nth: int) -> float:
    """Seconds until renewal number `nth`: a third of the ttl, up to a tenth earlier by a stable hash, so
    that holders that began together do not renew together."""
    return ttl_seconds / RENEWALS * (1.0 - JITTER_SHARE * unit_jitter(key, nth))


def retry_in(ttl_seconds: float, key: str, failures: int) -> float:
    """Seconds until a renewal that did not get through is tried again: soon, then less often."""
    pause = min(ttl_seconds / 30 * 2.0 ** min(failures, 10), ttl_seconds / RENEWALS)
    return pause * (1.0 - JITTER_SHARE * unit_jitter(key, failures))
