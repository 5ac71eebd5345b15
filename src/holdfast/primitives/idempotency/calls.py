"""The part of a ledger that `Ledger` and `BlockingLedger` share: checks calls and performs their steps.

Promises: the begin and the end of a call are written even if its caller is cancelled meanwhile.
Never: runs the effect; that is up to the caller, which may block or await.
"""

from __future__ import annotations

import itertools
import os
import socket
from typing import Any, Final, TypedDict

from holdfast.clock import Clock
from holdfast.core import ledger as rules, once
from holdfast.core.check import OFFSET_MAX, check_number, check_whole
from holdfast.core.lease import renewal_interval
from holdfast.core.ledger import EntryLease, EntryRequest, EntryVerdict, Outcome, Start
from holdfast.core.once import BeginStep, EndStep, ErrorPolicy, RunStep, Step, WaitStep
from holdfast.core.steps import Flow, Interrupted, adrive, settled
from holdfast.errors import BadConfig, InvalidInput, LeaseLost, NotRunning, StoreUnavailable
from holdfast.forks import PassiveFollower, follow
from holdfast.metrics import Meter
from holdfast.primitives.idempotency import metrics
from holdfast.primitives.idempotency.loops import LedgerLoops
from holdfast.store.ledger import EntryStore
from holdfast.store.store import Store

PRUNE_SECONDS: Final = 60.0
"""How often a ledger in use prunes. After a full batch the next call prunes again."""
FOREVER_SECONDS: Final = 1e12
PRUNE_BATCH: Final = 500
CLOSE_SECONDS: Final = 10.0
"""How long closing waits for running effects."""


class Times(TypedDict, total=False):
    """Overrides of the ledger's times, for one call."""

    lease_seconds: float
    retention_seconds: float


class Options(Times, total=False):
    """Options of one call."""

    wait: float
    """Seconds to wait for another caller that is running the effect, before InProgress."""
    on_error: ErrorPolicy
    """Whether an error of the effect is kept as its answer (KEEP) or not (FORGET, the default)."""
    tx: object
    """Your connection with an open transaction: the entry is written in it, beside the effect."""


class Call:
    """One idempotent call: its request, its steps, and the caller's transaction if there is one."""

    __slots__ = ("delays_close", "request", "steps", "tx")

    def __init__(self, request: EntryRequest, steps: Flow[Step, Any], tx: object) -> None:
        self.request = request
        self.steps = steps
        self.tx = tx
        self.delays_close = False
        """Whether closing waits for the end of its effect."""


class CallRunner(PassiveFollower):
    """Performs the steps of the calls of one ledger; opens its store on first use."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        meter: Meter,
        *,
        opened: bool,
        owner: str | None,
        lease_seconds: float,
        retention_seconds: float,
    ) -> None:
        _check_times(lease_seconds, retention_seconds)
        self.entries = EntryStore(store)
        self.clock = clock
        self.meter = meter
        self.loops = LedgerLoops(store, clock, opened=opened)
        self._given_owner = owner
        self._owner = owner or self._process_name()
        self._call_numbers = itertools.count(1)
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._prune_at = clock.monotonic() + PRUNE_SECONDS
        follow(self)

    def start_over(self) -> None:
        """A forked child is another process, and so another owner of entries."""
        self._owner = self._given_owner or self._process_name()

    def _process_name(self) -> str:
        return f"{socket.gethostname()}:{os.getpid()}:{self.loops.store.ids.token()}"

    def entry_request(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        *,
        lease_seconds: float | None = None,
        retention_seconds: float | None = None,
    ) -> EntryRequest:
        """A checked request for an entry, with an owner that no other call has."""
        lease = self._lease_seconds if lease_seconds is None else lease_seconds
        retention = self._retention_seconds if retention_seconds is None else retention_seconds
        _check_times(lease, retention)
        return EntryRequest(
            entry_key=rules.entry_key(scope, operation, key),
            fingerprint=rules.fingerprint_of(request),
            owner=f"{self._owner}#{next(self._call_numbers)}",
            lease_seconds=lease,
            retention_seconds=retention,
        )

    def prepare(
        self, scope: str, operation: str, key: str, request: object, options: Options
    ) -> Call:
        """A checked call; the caller drives its steps."""
        given: dict[str, Any] = dict(options)
        wait, tx = given.pop("wait", 0.0), given.pop("tx", None)
        on_error = given.pop("on_error", once.OnError.FORGET)
        once.check_call(on_error, wait)
        if tx is not None and wait:
            raise InvalidInput(
                "a call in your transaction cannot wait for another one: it would hold the locks of the "
                "transaction meanwhile; catch InProgress, roll back, and try again"
            )
        entry_request = self.entry_request(scope, operation, key, request, **given)
        in_tx = tx is not None
        steps = once.call(wait_seconds=wait, on_error=on_error, in_tx=in_tx)
        call = Call(entry_request, steps, tx)
        call.delays_close = not in_tx
        return call

    async def perform(self, call: Call, step: Step) -> object:
        """Performs a step. RunStep is up to the caller, which runs the effect."""
        match step:
            case BeginStep():
                return await self._begin(call)
            case EndStep(lease=lease, outcome=outcome):
                return await self._end(lease, outcome, call.tx)
            case WaitStep(seconds=seconds):
                if seconds > 0:
                    await self.clock.wait(self.loops.current.closing, seconds)
            case RunStep():
                raise AssertionError("the caller runs the effect")
        return None

    async def begin(self, request: EntryRequest, tx: object) -> EntryVerdict:
        """Begins an entry that the caller ends explicitly."""
        steps = once.begin()
        call = Call(request, steps, tx)
        return await adrive(steps, lambda step: self.perform(call, step))

    async def end(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        settled(await self._end(lease, outcome, tx))

    async def _begin(self, call: Call) -> EntryVerdict | Interrupted:
        if self.loops.current.closing.is_set():
            raise NotRunning(
                f"the ledger was closed before {call.request.entry_key} began: the effect did not run"
            )
        await self.loops.open()
        if call.tx is not None:
            return await self._write_begin(call)
        await self._prune_if_due()
        return await self.loops.current.writes.finish(
            lambda: self._write_begin(call), unwanted=self._abandon
        )

    async def _write_begin(self, call: Call) -> EntryVerdict:
        verdict = await self.entries.begin(call.request, tx=call.tx)
        metrics.count_verdict(self.meter, verdict, call.request.entry_key.operation)
        if isinstance(verdict, Start) and call.delays_close:
            self.loops.current.running.add(call.request.owner)
        return verdict

    async def _abandon(self, verdict: EntryVerdict) -> None:
        """Frees an entry whose caller was cancelled before it got the lease."""
        if isinstance(verdict, Start):
            await self._end(verdict.lease, None, None)

    async def _end(
        self, lease: EntryLease, outcome: Outcome | None, tx: object
    ) -> Interrupted | None:
        if tx is not None:
            await self._write_end(lease, outcome, tx)
            return None
        state = self.loops.current
        try:
            return await state.writes.finish(lambda: self._write_end(lease, outcome, None))
        finally:
            state.running.discard(lease.owner)
            state.ended.set()

    async def _write_end(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        await self.loops.open()
        try:
            await self.entries.end(lease, outcome, tx=tx)
        except LeaseLost:
            self.meter.count(metrics.FENCED, operation=lease.entry_key.operation)
            raise

    async def prune(self, limit: int) -> int:
        check_whole("limit", limit, least=1, most=OFFSET_MAX)
        await self.loops.open()
        pruned = await self.entries.prune(limit)
        if pruned:
            self.meter.count(metrics.PRUNED, pruned)
        return pruned

    async def renew_until_lost(self, lease: EntryLease) -> None:
        """Renews the lease until it is lost. Cancelled when the effect has ended."""
        while True:
            await self.clock.sleep(renewal_interval(lease.lease_seconds))
            try:
                await self.entries.extend(lease, lease.lease_seconds)
            except LeaseLost:
                return  # Writing the outcome will raise it.
            except StoreUnavailable:
                continue

    def observe_effect(self, lease: EntryLease, started_at: float) -> None:
        seconds = self.clock.monotonic() - started_at
        self.meter.observe(metrics.EFFECT_SECONDS, seconds, operation=lease.entry_key.operation)

    async def _prune_if_due(self) -> None:
        now = self.clock.monotonic()
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            if await self.prune(PRUNE_BATCH) >= PRUNE_BATCH:
                self._prune_at = now


def _check_times(lease_seconds: float, retention_seconds: float) -> None:
    check_number("lease_seconds", lease_seconds, most=FOREVER_SECONDS, wrong=BadConfig)
    check_number("retention_seconds", retention_seconds, most=FOREVER_SECONDS, wrong=BadConfig)
    if not 0 < lease_seconds <= retention_seconds:
        raise BadConfig(
            f"a lease of {lease_seconds} s and a retention of {retention_seconds} s: both must be over 0, "
            "and the retention at least as long as the lease"
        )
