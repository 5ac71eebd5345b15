"""Safeguards of the locks, the ledger and the quorum."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import ledger, quorum
from holdfast.core.lease import LossReason, Waiter
from holdfast.primitives.locks import lease
from holdfast.primitives.locks.base import LocksBase
from holdfast.store.script import Script, call
from holdfast.store.scripts import leases
from holdfast.store.uncancelled import UncancelledWrites
from proof.ablations.swap import QUIET, Ablation, Swap

LOCKING: Final = (
    *QUIET,
    *(("holders", "5"), ("traders", ""), ("lock_servers", "0"), ("rate", "2")),
    *(("faults", "freeze,crash,cut"), ("recover_hours", "0.05")),
)
QUORUM: Final = (
    *QUIET,
    *(("holders", "0"), ("traders", ""), ("lock_servers", "3"), ("rate", "2")),
    ("faults", "crash,cut,loss,slow"),
)


def _guard() -> list[Swap]:
    def waved(*_: Any) -> Script[bool]:
        yield from ()
        return True

    return [(leases, "guard", waved)]


def _deadline() -> list[Swap]:
    def believe(self: Any, reason: LossReason) -> None:
        if reason not in (LossReason.EXPIRED, LossReason.STORE_UNREACHABLE):
            lose(self, reason)

    lose = lease.HeldLease.lose
    return [(lease.HeldLease, "lose", believe)]


def _line() -> list[Swap]:
    def all_of_them(found: Any, claim_id: str) -> Script[Any]:
        rows = yield call("lease_waiters", resource=found.resource, now=0.0, limit=100)
        line = sorted((Waiter(*row) for row in rows), key=lambda waiter: waiter.ticket)
        own = next((waiter for waiter in line if waiter.claim_id == claim_id), None)
        return own, replace(line[0], alive_until=found.clock_at + 3600) if line else None

    return [(leases, "_line", all_of_them), (leases, "_drop", _drop_own)]


def _drop_own(found: Any, claim_id: str) -> Script[None]:
    yield call("drop_waiters", resource=found.resource, claim_id=claim_id, now=0.0)


def _replay() -> list[Swap]:
    def begin_again(seen: Any, ask: Any, now: float) -> Any:
        if seen is not None and seen.outcome_json is not None:
            seen = replace(seen, outcome_json=None, state=ledger.State.ABANDONED)
        return begin(seen, ask, now)

    begin = ledger.begin
    return [(ledger, "begin", begin_again)]


def _request() -> list[Swap]:
    return [(ledger, "fingerprint_of", lambda _: "any")]


def _shield() -> list[Swap]:
    async def broken_off(self: Any, make: Any, **_: Any) -> Any:
        return await make()

    return [(UncancelledWrites, "finish", broken_off)]


def _closing() -> list[Swap]:
    return [(LocksBase, "_check_open", lambda _: None)]


def _majority() -> list[Swap]:
    return [(quorum, "majority", lambda _: 1)]


STATE: Final = (
    Ablation("guard", "writes under a lock are not checked for its fence", _guard, LOCKING),
    Ablation("deadline", "a holder trusts its lease beyond its end", _deadline, LOCKING),
    Ablation("line", "dead waiters keep their place in line", _line, LOCKING),
    Ablation("replay", "the ledger runs answered calls again", _replay, LOCKING),
    Ablation("request", "the ledger does not compare requests", _request, LOCKING),
    Ablation("shield", "cancellation interrupts writes of the ledger", _shield, LOCKING),
    Ablation("closing", "closed locks still grant", _closing, LOCKING),
    Ablation("majority", "one lock server of a quorum is enough", _majority, QUORUM),
)
