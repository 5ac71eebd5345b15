"""The rules of named leases: which claim holds a resource, until when, and which claim is next.

Promises: at most one claim holds a resource. The fence rises with every grant and every revocation and
never falls. Claims are granted in the order of their requests. A claim that asks again gets the same
fence, and never a shorter lease. A renewal never acquires. Time is the clock of the lease, stored in its
row; it never goes back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_name, check_number, shown
from holdfast.core.retry import unit_jitter
from holdfast.errors import InvalidInput

RESOURCE_MAX: Final = 512
TTL_SECONDS_MIN: Final = 0.02
TTL_SECONDS_MAX: Final = 86_400.0
WAITERS_MAX: Final = 10_000
SLOTS: Final = "host:hst_"
"""How the names of slots of hosts begin (`fleet.model`). Executions hold them, users do not."""
DRIFT_SHARE: Final = 0.01
DRIFT_SECONDS: Final = 0.002
RENEWALS: Final = 3
"""Renewals within one ttl. A lease survives a missed renewal."""
JITTER_SHARE: Final = 0.1
TOLERANCE_SECONDS: Final = 1e-6
"""A wait that ends this much early counts as over: epoch seconds as floats are not more precise."""


def renewal_interval(lease_seconds: float) -> float:
    """Seconds between two renewals of a lease."""
    return lease_seconds / RENEWALS


class LossReason(StrEnum):
    """Why a holder lost its lease."""

    EXPIRED = "expired"
    """It was not renewed in time."""
    REVOKED = "revoked"
    """An operator took it away."""
    FENCED = "fenced"
    """Another claim holds it under a newer fence."""
    STORE_UNREACHABLE = "store_unreachable"
    """Renewals did not reach the store before the lease ended."""
    SHUTDOWN = "shutdown"
    """The locks were closed while it was held."""


class LeaseRow(msgspec.Struct, frozen=True):
    """The row of a resource. It stays when the resource is free, because the fence must not start over."""

    resource: str
    fence: int = 0
    claim_id: str | None = None
    """The claim that holds the lease; None when it is free."""
    owner: str = ""
    ttl_seconds: float = 0.0
    grace_seconds: float = 0.0
    granted_at: float = 0.0
    expires_at: float = 0.0
    free_at: float = 0.0
    """Not granted before this time: the grace after a revocation."""
    clock_at: float = 0.0
    """The clock of the lease: the latest time at which a request was judged."""
    last_ticket: int = 0


class Audit(NamedTuple):
    """A change that an operator made to a lease."""

    resource: str
    at: float
    action: str
    actor: str
    reason: str
    fence: int
    claim_id: str
    owner: str


class Waiter(msgspec.Struct, frozen=True):
    """A claim that waits for a resource."""

    ticket: int
    claim_id: str
    owner: str
    asked_at: float
    alive_until: float


class LeaseRequest(msgspec.Struct, frozen=True):
    """The request of a claim for a resource."""

    resource: str
    claim_id: str
    owner: str
    ttl_seconds: float
    grace_seconds: float = 0.0
    waiter_seconds: float = 0.0
    """How long a waiter stays in the line without asking again. 0: do not wait."""


class LeaseGranted(msgspec.Struct, frozen=True):
    lease: LeaseRow
    is_new: bool
    """False when the claim held the lease already."""
    took_over: bool = False
    """The lease of the previous holder expired; it was not released."""


class LeaseDenied(msgspec.Struct, frozen=True):
    """The resource is held or other claims are first. Ask again in `look_in` seconds, or at a hint."""

    owner: str
    look_in: float


Verdict: TypeAlias = LeaseGranted | LeaseDenied


def check_resource(resource: str) -> None:
    """InvalidInput unless this is a valid name of a lock."""
    check_name("resource", resource, most=RESOURCE_MAX)


def check_request(resource: str, ttl_seconds: float, grace_seconds: float = 0.0) -> None:
    """InvalidInput unless the request is valid. Slots of hosts are granted with offers to their agents."""
    check_resource(resource)
    if resource.startswith(SLOTS):
        raise InvalidInput(
            f"resource {shown(resource)} is the slot of a host, which its executions hold: use another name"
        )
    check_number("ttl", ttl_seconds, least=TTL_SECONDS_MIN, most=TTL_SECONDS_MAX)
    check_number("grace", grace_seconds, most=TTL_SECONDS_MAX)


def is_held(lease: LeaseRow) -> bool:
    """Whether a claim holds the lease, by the clock of the lease."""
    return lease.claim_id is not None and lease.expires_at > lease.clock_at


def opens_at(lease: LeaseRow) -> float:
    """The earliest time of the next grant, unless the holder renews or releases before."""
    if lease.claim_id is None:
        return lease.free_at
    return lease.expires_at + lease.grace_seconds


def judge(
    lease: LeaseRow, request: LeaseRequest, own: Waiter | None, head: Waiter | None
) -> Verdict:
    """Rules on a request. `own` is the waiter of this claim, `head` the first waiter that is alive."""
    now = lease.clock_at
    if lease.claim_id == request.claim_id and is_held(lease):
        return LeaseGranted(_lengthened(lease, request.ttl_seconds), is_new=False)
    is_first = head is None or head.claim_id == request.claim_id
    if own is not None and head is not None:
        is_first = own.ticket <= head.ticket
    free_at = opens_at(lease)
    if is_first and free_at <= now:
        took_over = lease.claim_id is not None
        return LeaseGranted(_granted(lease, request), is_new=True, took_over=took_over)
    look_at = free_at if is_first else head.alive_until if head is not None else now
    heartbeat = renewal_interval(request.waiter_seconds)
    return LeaseDenied(
        lease.owner if lease.claim_id is not None else "", max(0.0, min(heartbeat, look_at - now))
    )


def _granted(lease: LeaseRow, request: LeaseRequest) -> LeaseRow:
    return replace(
        lease,
        fence=lease.fence + 1,
        claim_id=request.claim_id,
        owner=request.owner,
        ttl_seconds=request.ttl_seconds,
        grace_seconds=request.grace_seconds,
        granted_at=lease.clock_at,
        expires_at=lease.clock_at + request.ttl_seconds,
        free_at=0.0,
    )


def holds(lease: LeaseRow, claim_id: str, fence: int) -> bool:
    """Whether there was no grant and no revocation since. A fenced write may then pass even after the ttl:
    the next grant comes after it."""
    return lease.claim_id == claim_id and lease.fence == fence


def renewed(
    lease: LeaseRow, claim_id: str, fence: int, ttl_seconds: float
) -> LeaseRow | LossReason:
    """The lease with a later end. A lease that has ended is not renewed."""
    if not holds(lease, claim_id, fence):
        return LossReason.FENCED if lease.fence > fence else LossReason.EXPIRED
    if not is_held(lease):
        return LossReason.EXPIRED
    return _lengthened(lease, ttl_seconds)


def _lengthened(lease: LeaseRow, ttl_seconds: float) -> LeaseRow:
    """The lease with at least this ttl from now. Never shorter: its holder relies on the end it was given."""
    until = lease.clock_at + ttl_seconds
    if until <= lease.expires_at:
        return lease
    return replace(lease, ttl_seconds=ttl_seconds, expires_at=until)


def released(lease: LeaseRow) -> LeaseRow:
    """The lease, free for the next grant at once."""
    return replace(lease, claim_id=None, owner="", expires_at=0.0, free_at=0.0)


def was_released(lease: LeaseRow, fence: int) -> bool:
    """Whether the grant under this fence was released and no other grant followed. A revocation raises the
    fence, and a lease that expired keeps its claim."""
    return lease.claim_id is None and lease.fence == fence


def revoked(lease: LeaseRow) -> LeaseRow:
    """The lease without a holder and with a higher fence: writes of the old holder are refused."""
    after = released(lease)
    return replace(after, fence=lease.fence + 1, free_at=lease.clock_at + lease.grace_seconds)


# -- the holder's side -----------------------------------------------------------------------------------


def margin_seconds(
    ttl_seconds: float, share: float = DRIFT_SHARE, fixed: float = DRIFT_SECONDS
) -> float:
    """How much earlier than in the store a lease ends for its holder, since two clocks drift apart."""
    return ttl_seconds * share + fixed


def renew_in(ttl_seconds: float, key: str, nth: int) -> float:
    """Seconds until renewal number `nth`: a third of the ttl, less up to 10 % of jitter. The jitter is a
    stable hash; it spreads the renewals of leases that were granted together."""
    return renewal_interval(ttl_seconds) * (1.0 - JITTER_SHARE * unit_jitter(key, nth))


def retry_in(ttl_seconds: float, key: str, failures: int) -> float:
    """Seconds until the next try of a renewal that did not reach the store, with exponential backoff."""
    pause = min(ttl_seconds / 30 * 2.0 ** min(failures, 10), renewal_interval(ttl_seconds))
    return pause * (1.0 - JITTER_SHARE * unit_jitter(key, failures))
