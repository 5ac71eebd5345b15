"""Named leases: each script locks the row, advances its clock, applies a rule of the core and saves the row.

Promises: a fence is stored before its grant is returned. A grant and the removal of its waiter are one
transaction. The claim that should ask again is in the answer, and gets a hint when the transaction commits.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from msgspec.structs import asdict, replace

from holdfast.core import lease as rules
from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.lease import (
    Audit,
    LeaseDenied,
    LeaseGranted,
    LeaseRequest,
    LeaseRow,
    LossReason,
    Verdict,
    Waiter,
)
from holdfast.errors import QueueFull
from holdfast.store.beside import Beside, begin, end
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Recorder, record

HINT = "lease "
"""Prefix of a hint; the id of the claim that should ask again follows."""
AUDIT_MAX = 20
AUDIT_SECONDS = 90 * 86_400.0
"""Retention of the audit of operators' changes. Each revocation prunes up to `AUDIT_BATCH` rows."""
AUDIT_BATCH = 100


class Hinter(Protocol):
    """Sends the hints and records the events of a script."""

    def hint(self, text: str) -> Script[None]:
        """Sends a hint when the transaction commits."""
        ...

    def tell(self, kind: str, now: float, data: dict[str, object]) -> Script[None]:
        """Appends an event to the feed, in this transaction."""
        ...


class Speaker(Recorder, Protocol):
    """The part of a dialect that a `Teller` needs."""

    def hint(self, text: str) -> Script[None]: ...


class Teller:
    """A `Hinter` that writes events to the feed of the store.

    The record id is new for each run. A script that is retried after its commit sees its claim granted and
    writes no event, so no event is recorded twice."""

    __slots__ = ("_ids", "_speaker", "hint")

    def __init__(self, speaker: Speaker, ids: Ids) -> None:
        self._speaker = speaker
        self._ids = ids
        self.hint = speaker.hint

    def tell(self, kind: str, now: float, data: dict[str, object]) -> Script[None]:
        record_id = yield from self._speaker.record_ref(self._ids.record(now))
        yield from record(
            self._speaker, record_id, now, [NewEvent(kind, now, "", "", data)], Counter()
        )


class Shown(NamedTuple):
    """The lease of a resource with its waiters and its audit."""

    lease: LeaseRow
    waiters: list[Waiter]
    audit: list[Audit]


def ask(hinter: Hinter, request: LeaseRequest, now: float) -> Script[Verdict]:
    """Grants the lease, or enqueues the claim if it waits. A grant is recorded as an event only when it takes
    over an expired lease. The current holder is in the row, not in the feed."""
    lease = yield from _locked(request.resource, now)
    own, head = yield from _line(lease, request.claim_id)
    verdict = rules.judge(lease, request, own, head)
    match verdict:
        case LeaseGranted(lease=granted, took_over=took_over):
            yield from _save(granted)
            if took_over:
                yield from _tell(
                    "lock.taken_over",
                    hinter,
                    granted,
                    owner=granted.owner,
                    owner_before=lease.owner,
                    expired_at=lease.expires_at,
                )
            if own is not None or head is not None:
                yield from _drop(lease, request.claim_id)
        case LeaseDenied() if request.waiter_seconds > 0:
            yield from _stand(lease, request, own)
    return verdict


def _stand(lease: LeaseRow, request: LeaseRequest, own: Waiter | None) -> Script[None]:
    """Adds the claim at the end of the line, or extends the life of its waiter."""
    ticket = lease.last_ticket + 1
    if own is None:
        counted = yield call("count_waiters", resource=lease.resource)
        if counted[0][0] >= rules.WAITERS_MAX:
            # Dead waiters stay until the next grant or withdrawal.
            yield from _drop(lease, request.claim_id)
            counted = yield call("count_waiters", resource=lease.resource)
        if counted[0][0] >= rules.WAITERS_MAX:
            raise QueueFull(
                f"{rules.WAITERS_MAX} already wait for '{lease.resource}': try again later"
            )
        yield from _save(replace(lease, last_ticket=ticket))
    yield call(
        "put_waiter",
        resource=lease.resource,
        ticket=ticket if own is None else own.ticket,
        claim_id=request.claim_id,
        owner=request.owner,
        now=lease.clock_at,
        alive_until=lease.clock_at + request.waiter_seconds,
    )


def leave(hinter: Hinter, resource: str, claim_id: str, now: float) -> Script[str | None]:
    """Withdraws the claim: removes its waiter or releases its lease. Returns the next claim."""
    lease = yield from _locked(resource, now)
    yield from _drop(lease, claim_id)
    if lease.claim_id == claim_id:
        lease = rules.released(lease)
        yield from _save(lease)
    return (yield from _hint_next(hinter, lease))


def renew(
    resource: str, claim_id: str, fence: int, ttl_seconds: float, now: float
) -> Script[LossReason | None]:
    """Extends a lease that is still held. Otherwise returns why it was lost."""
    lease = yield from _locked(resource, now)
    answer = rules.renewed(lease, claim_id, fence, ttl_seconds)
    if isinstance(answer, LeaseRow):
        yield from _save(answer)
        return None
    return (yield from _why(lease, claim_id, answer))


def release(
    hinter: Hinter, resource: str, claim_id: str, fence: int, now: float
) -> Script[tuple[LossReason | None, str | None]]:
    """Releases the lease. Returns (why it was lost before, the next claim). A repeat gets the same answer."""
    lease = yield from _locked(resource, now)
    if rules.holds(lease, claim_id, fence):
        lease = rules.released(lease)
        yield from _save(lease)
    elif not rules.was_released(lease, fence):
        reason = LossReason.FENCED if lease.fence > fence else LossReason.EXPIRED
        return (yield from _why(lease, claim_id, reason)), None
    return None, (yield from _hint_next(hinter, lease))


def revoke(
    hinter: Hinter,
    resource: str,
    actor: str,
    reason: str,
    now: float,
    *,
    beside: Beside | None = None,
) -> Script[tuple[Audit, str | None] | None]:
    """Revokes the lease under a new fence. Returns (the audit, the next claim), or None if it is free. The
    outcome for `beside` is the audit; without a holder its `after` is not run."""
    yield from begin(beside, now)
    if not (yield call("get_lease", resource=resource)):
        return None  # Locking would create the row.
    lease = yield from _locked(resource, now)
    if lease.claim_id is None:
        return None
    after = rules.revoked(lease)
    yield from _save(after)
    audit = Audit(resource, now, "revoked", actor, reason, after.fence, lease.claim_id, lease.owner)
    yield call(
        "audit_lease",
        resource=resource,
        now=now,
        actor=actor,
        reason=reason,
        fence=after.fence,
        claim_id=lease.claim_id,
        owner=lease.owner,
    )
    yield call("prune_lease_audit", before=now - AUDIT_SECONDS, limit=AUDIT_BATCH)
    yield from end(beside, audit, now)
    yield from _tell("lock.revoked", hinter, after, owner=lease.owner, actor=actor, reason=reason)
    yield from hinter.hint(HINT + lease.claim_id)
    return audit, (yield from _hint_next(hinter, after))


def guard(resource: str, claim_id: str, fence: int) -> Script[bool]:
    """Whether the fence is the newest. If so, it stays the newest until the transaction ends."""
    rows = yield call("guard_lease", resource=resource)
    return bool(rows) and tuple(rows[0]) == (fence, claim_id)


def show(resource: str, now: float) -> Script[Shown | None]:
    rows = yield call("get_lease", resource=resource)
    if not rows:
        return None
    lease = LeaseRow(*rows[0])
    lease = replace(lease, clock_at=max(lease.clock_at, now))
    waiters = yield call(
        "lease_waiters", resource=resource, now=lease.clock_at, limit=rules.WAITERS_MAX
    )
    audit = yield call("lease_audit", resource=resource, limit=AUDIT_MAX)
    return Shown(lease, [Waiter(*row) for row in waiters], [Audit(*row) for row in audit])


def held_after(after: str, limit: int) -> Script[list[LeaseRow]]:
    """Held leases whose resource is greater than `after`, sorted by resource."""
    rows = yield call("leases_after", after=after, limit=limit)
    return [LeaseRow(*row) for row in rows]


def count_waiting(now: float) -> Script[tuple[int, float | None]]:
    """The number of live waiters of all leases, and when the oldest of them asked."""
    [(depth, oldest_at)] = yield call("waiter_stats", now=now)
    return depth, oldest_at


def ready(claims: list[str], now: float) -> Script[list[str]]:
    """Of these claims, those that are first in line for a free lease."""
    rows = yield call("ready_waiters", claims=claims, limit=len(claims), now=now)
    return [row[0] for row in rows]


def holders(resources: list[str]) -> Script[set[tuple[str, int]]]:
    """(claim id, fence) of the holders of these resources."""
    rows = yield call("holding_claims", resources=resources, limit=len(resources))
    return {(claim_id, fence) for claim_id, fence in rows}


def _locked(resource: str, now: float) -> Script[LeaseRow]:
    rows = yield call("lock_lease", resource=resource, now=now)
    return LeaseRow(*rows[0])


def _save(lease: LeaseRow) -> Script[None]:
    fields = asdict(lease)
    del fields["clock_at"]
    yield call("save_lease", **fields)


def _drop(lease: LeaseRow, claim_id: str) -> Script[None]:
    yield call("drop_waiters", resource=lease.resource, claim_id=claim_id, now=lease.clock_at)


def _line(lease: LeaseRow, claim_id: str) -> Script[tuple[Waiter | None, Waiter | None]]:
    """Returns (the waiter of this claim, the first live waiter)."""
    rows = yield call("lease_queue", resource=lease.resource, claim_id=claim_id, now=lease.clock_at)
    waiters = sorted((Waiter(*row) for row in rows), key=lambda waiter: waiter.ticket)
    own = next((waiter for waiter in waiters if waiter.claim_id == claim_id), None)
    head = next((waiter for waiter in waiters if waiter.alive_until > lease.clock_at), None)
    return own, head


def _hint_next(hinter: Hinter, lease: LeaseRow) -> Script[str | None]:
    """Hints the first live waiter if the lease is free. Later waiters would be denied."""
    if rules.is_held(lease):
        return None
    _, head = yield from _line(lease, "")
    if head is None:
        return None
    yield from hinter.hint(HINT + head.claim_id)
    return head.claim_id


def _tell(kind: str, hinter: Hinter, lease: LeaseRow, **data: object) -> Script[None]:
    fields = {"resource": lease.resource, "fence": lease.fence, **data}
    yield from hinter.tell(kind, lease.clock_at, fields)


def _why(lease: LeaseRow, claim_id: str, reason: LossReason) -> Script[LossReason]:
    rows = yield call("lease_audit", resource=lease.resource, limit=AUDIT_MAX)
    if any(Audit(*row).claim_id == claim_id for row in rows):
        return LossReason.REVOKED
    return reason
