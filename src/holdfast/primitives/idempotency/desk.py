"""What both fronts of a ledger share: making calls, doing their steps, keeping leases, counting."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from typing import Any, Final, TypedDict

from holdfast.clock import Clock
from holdfast.core import ledger as rules, once as course
from holdfast.core.codec import Json
from holdfast.core.ledger import Ask, Outcome, Turn, Verdict
from holdfast.core.once import Begin, End, ErrorPolicy, Pause, Run, Step
from holdfast.core.steps import Flow
from holdfast.errors import BadConfig, InvalidInput, LeaseLost, StoreUnavailable
from holdfast.primitives.idempotency import metrics
from holdfast.primitives.metrics import Meter
from holdfast.store.ledger import Entries
from holdfast.store.store import Store

PRUNE_SECONDS: Final = 60.0
"""How often a ledger in use tidies up by the way."""
PRUNE_BITE: Final = 500


class Times(TypedDict, total=False):
    """For one call, other than the ledger's own."""

    lease_seconds: float
    retention_seconds: float


class Options(Times, total=False):
    """How a call is to run."""

    wait: float
    """How long to wait for another caller that runs it right now, instead of InProgress."""
    on_error: ErrorPolicy
    """What an error of the effect leaves behind: nothing (FORGET, the default), or itself (KEEP)."""
    tx: object
    """Your own connection with an open transaction: it carries the record beside the effect."""


class Call:
    """One idempotent call on its way: what it asks, and whose transaction carries it."""

    __slots__ = ("ask", "flow", "tx")

    def __init__(self, ask: Ask, flow: Flow[Step, Json], tx: object) -> None:
        self.ask = ask
        self.flow = flow
        self.tx = tx


class Desk:
    """One for each ledger; opens its store when first needed."""

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
        self.entries = Entries(store)
        self.clock = clock
        self.meter = meter
        self._store = store
        self._opened = opened
        self._opening = asyncio.Lock()
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}:{store.ids.token()}"
        self._calls = itertools.count(1)
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._prune_at = clock.monotonic() + PRUNE_SECONDS

    async def open(self) -> None:
        if self._opened:
            return
        async with self._opening:
            if not self._opened:
                await self._store.open()
                self._opened = True

    async def close(self) -> None:
        if self._opened:
            self._opened = False
            await self._store.close()

    def ask(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        *,
        lease_seconds: float | None = None,
        retention_seconds: float | None = None,
    ) -> Ask:
        """A checked request for a turn, under a name of its own."""
        lease = self._lease_seconds if lease_seconds is None else lease_seconds
        kept = self._retention_seconds if retention_seconds is None else retention_seconds
        _check_times(lease, kept)
        return Ask(
            place=rules.place_of(scope, operation, key),
            fingerprint=rules.fingerprint_of(request),
            owner=f"{self._owner}#{next(self._calls)}",
            lease_seconds=lease,
            retention_seconds=kept,
        )

    def prepare(
        self, scope: str, operation: str, key: str, request: object, options: Options
    ) -> Call:
        """A checked call, to be driven by a front."""
        given: dict[str, Any] = dict(options)
        wait, tx = given.pop("wait", 0.0), given.pop("tx", None)
        on_error = given.pop("on_error", course.OnError.FORGET)
        if tx is not None and wait:
            raise InvalidInput(
                "a call within your own transaction cannot wait for another one: it would hold its locks "
                "meanwhile; catch InProgress, roll back, and try again"
            )
        ask = self.ask(scope, operation, key, request, **given)
        carried = tx is not None
        flow = course.call(wait_seconds=wait, on_error=on_error, carried=carried)
        return Call(ask, flow, tx)

    async def perform(self, call: Call, step: Step) -> object:
        """Any step but running the effect, which is the front's."""
        match step:
            case Begin():
                return await self.begin(call.ask, call.tx)
            case End(turn=turn, outcome=outcome):
                await self.end(turn, outcome, call.tx)
            case Pause(seconds=seconds):
                await self.clock.sleep(seconds)
            case Run():
                raise AssertionError("the front runs the effect")
        return None

    async def begin(self, ask: Ask, tx: object) -> Verdict:
        await self.open()
        if tx is None:
            await self._tidy()
        verdict = await self.entries.begin(ask, tx=tx)
        metrics.count_verdict(self.meter, verdict, ask.place.operation)
        return verdict

    async def end(self, turn: Turn, outcome: Outcome | None, tx: object) -> None:
        await self.open()
        try:
            await self.entries.end(turn, outcome, tx=tx)
        except LeaseLost:
            self.meter.count(metrics.FENCED, operation=turn.place.operation)
            raise

    async def prune(self, limit: int) -> int:
        await self.open()
        gone = await self.entries.prune(limit)
        if gone:
            self.meter.count(metrics.PRUNED, gone)
        return gone

    async def keep(self, turn: Turn) -> None:
        """Renews the lease while the effect runs, until it is lost or nobody wants it any more."""
        while True:
            await self.clock.sleep(turn.lease_seconds / 3)
            try:
                await self.entries.extend(turn, turn.lease_seconds)
            except LeaseLost:
                return  # The end of the turn will say so.
            except StoreUnavailable:
                continue

    def ran(self, turn: Turn, begun: float) -> None:
        seconds = self.clock.monotonic() - begun
        self.meter.observe(metrics.EFFECT_SECONDS, seconds, operation=turn.place.operation)

    async def _tidy(self) -> None:
        now = self.clock.monotonic()
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            await self.prune(PRUNE_BITE)


def _check_times(lease_seconds: float, retention_seconds: float) -> None:
    if not 0 < lease_seconds <= retention_seconds:
        raise BadConfig(
            f"a lease of {lease_seconds} s and a retention of {retention_seconds} s: both must be over 0, "
            "and an entry must be kept at least as long as its lease"
        )
