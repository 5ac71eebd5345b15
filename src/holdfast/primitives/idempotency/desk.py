"""What both fronts of a ledger share: making calls, doing their steps, keeping leases, counting.

Promises: the beginning and the end of a call are written although its caller is cancelled meanwhile; closing
ends every wait with NotRunning, and waits a bounded time for running effects, so that their ends are written.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from typing import Any, Final, TypedDict

from holdfast.clock import Clock
from holdfast.core import ledger as rules, once as course
from holdfast.core.check import OFFSET_MAX, check_number, check_whole
from holdfast.core.ledger import EntryLease, EntryRequest, EntryVerdict, Outcome, Start
from holdfast.core.once import BeginStep, EndStep, ErrorPolicy, RunStep, Step, WaitStep
from holdfast.core.steps import Flow, Interrupted, adrive, settled
from holdfast.errors import BadConfig, InvalidInput, LeaseLost, NotRunning, StoreUnavailable
from holdfast.forks import Unmoved, follow
from holdfast.primitives.idempotency import metrics
from holdfast.primitives.idempotency.room import Room
from holdfast.primitives.metrics import Meter
from holdfast.store.ledger import EntryStore
from holdfast.store.store import Store

PRUNE_SECONDS: Final = 60.0
"""How often a ledger in use prunes. When a batch was full, the next call goes on at once."""
FOREVER_SECONDS: Final = 1e12
PRUNE_BATCH: Final = 500
CLOSE_SECONDS: Final = 10.0
"""How long closing waits for effects that run."""


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

    __slots__ = ("ask", "flow", "is_awaited", "tx")

    def __init__(self, ask: EntryRequest, flow: Flow[Step, Any], tx: object) -> None:
        self.ask = ask
        self.flow = flow
        self.tx = tx
        self.is_awaited = False
        """Whether closing waits for its end."""


class Desk(Unmoved):
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
        self.entries = EntryStore(store)
        self.clock = clock
        self.meter = meter
        self._store = store
        self._owns_store = not opened
        self._closed = False
        self._rooms: dict[asyncio.AbstractEventLoop, Room] = {}
        self._left_open = False
        """A loop ended without closing it."""
        self._named = owner
        self._owner = owner or self._process()
        self._calls = itertools.count(1)
        self._lease_seconds = lease_seconds
        self._retention_seconds = retention_seconds
        self._prune_at = clock.monotonic() + PRUNE_SECONDS
        follow(self)

    async def open(self) -> None:
        """For the running event loop; all of them share the store."""
        if not self._owns_store:
            return
        room = self._here
        if room.is_open:
            return
        async with room.opening:
            if self._closed or room.is_closed:
                raise NotRunning("this ledger was closed: connect again")
            if not room.is_open:
                await self._store.open()
                room.is_open = True

    async def close(self, wait: float = CLOSE_SECONDS) -> None:
        """Calls that wait for another one end with NotRunning. Effects that run have `wait` seconds to end;
        the lease of one that takes longer has to run out. Other event loops go on."""
        room = self._here
        room.closing.set()
        until = self.clock.monotonic() + wait
        while (room.running or room.whole.tasks) and (left := until - self.clock.monotonic()) > 0:
            room.ended.clear()
            for task in room.whole.tasks:
                task.add_done_callback(lambda _: room.ended.set())
            await self.clock.wait(room.ended, left)
        async with room.opening:
            room.is_closed = True
            self._closed = not any(not each.is_closed for each in self._rooms.values())
            if room.is_open or self._left_open:
                room.is_open = self._left_open = False
                await self._store.close()

    @property
    def _here(self) -> Room:
        """What belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        room = self._rooms.get(loop)
        if room is None:
            for ended in [each for each in list(self._rooms) if each.is_closed()]:
                left = self._rooms.pop(ended, None)
                self._left_open = self._left_open or (left is not None and left.is_open)
            room = self._rooms[loop] = Room()
        return room

    def start_over(self) -> None:
        """In a forked child: another process, and so another owner of turns."""
        self._rooms = {}
        self._owner = self._named or self._process()

    def _process(self) -> str:
        return f"{socket.gethostname()}:{os.getpid()}:{self._store.ids.token()}"

    def ask(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        *,
        lease_seconds: float | None = None,
        retention_seconds: float | None = None,
    ) -> EntryRequest:
        """A checked request for a turn, under a name of its own."""
        lease = self._lease_seconds if lease_seconds is None else lease_seconds
        kept = self._retention_seconds if retention_seconds is None else retention_seconds
        _check_times(lease, kept)
        return EntryRequest(
            entry_key=rules.entry_key(scope, operation, key),
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
        course.check_call(on_error, wait)
        if tx is not None and wait:
            raise InvalidInput(
                "a call within your own transaction cannot wait for another one: it would hold its locks "
                "meanwhile; catch InProgress, roll back, and try again"
            )
        ask = self.ask(scope, operation, key, request, **given)
        carried = tx is not None
        flow = course.call(wait_seconds=wait, on_error=on_error, carried=carried)
        call = Call(ask, flow, tx)
        call.is_awaited = not carried
        return call

    async def perform(self, call: Call, step: Step) -> object:
        """Any step but running the effect, which is the front's."""
        match step:
            case BeginStep():
                return await self._begin(call)
            case EndStep(lease=lease, outcome=outcome):
                return await self._end(lease, outcome, call.tx)
            case WaitStep(seconds=seconds):
                if seconds > 0:
                    await self.clock.wait(self._here.closing, seconds)
            case RunStep():
                raise AssertionError("the front runs the effect")
        return None

    async def begin(self, ask: EntryRequest, tx: object) -> EntryVerdict:
        """A turn that the caller ends by itself."""
        flow = course.begin()
        call = Call(ask, flow, tx)
        return await adrive(flow, lambda step: self.perform(call, step))

    async def end(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        settled(await self._end(lease, outcome, tx))

    async def _begin(self, call: Call) -> EntryVerdict | Interrupted:
        ask = call.ask
        if self._here.closing.is_set():
            raise NotRunning(
                f"the ledger was closed while {ask.entry_key} was to begin: nothing ran"
            )
        await self.open()
        if call.tx is not None:
            return await self._begun(call)
        await self._tidy()
        return await self._here.whole.finish(lambda: self._begun(call), unwanted=self._give_back)

    async def _begun(self, call: Call) -> EntryVerdict:
        verdict = await self.entries.begin(call.ask, tx=call.tx)
        metrics.count_verdict(self.meter, verdict, call.ask.entry_key.operation)
        if isinstance(verdict, Start) and call.is_awaited:
            self._here.running.add(call.ask.owner)
        return verdict

    async def _give_back(self, verdict: EntryVerdict) -> None:
        """The turn of a caller that is gone."""
        if isinstance(verdict, Start):
            await self._end(verdict.lease, None, None)

    async def _end(
        self, lease: EntryLease, outcome: Outcome | None, tx: object
    ) -> Interrupted | None:
        if tx is not None:
            await self._write_end(lease, outcome, tx)
            return None
        room = self._here
        try:
            return await room.whole.finish(lambda: self._write_end(lease, outcome, None))
        finally:
            room.running.discard(lease.owner)
            room.ended.set()

    async def _write_end(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        await self.open()
        try:
            await self.entries.end(lease, outcome, tx=tx)
        except LeaseLost:
            self.meter.count(metrics.FENCED, operation=lease.entry_key.operation)
            raise

    async def prune(self, limit: int) -> int:
        check_whole("limit", limit, least=1, most=OFFSET_MAX)
        await self.open()
        gone = await self.entries.prune(limit)
        if gone:
            self.meter.count(metrics.PRUNED, gone)
        return gone

    async def keep(self, lease: EntryLease) -> None:
        """Renews the lease while the effect runs, until it is lost or nobody wants it any more."""
        while True:
            await self.clock.sleep(lease.lease_seconds / 3)
            try:
                await self.entries.extend(lease, lease.lease_seconds)
            except LeaseLost:
                return  # The end of the turn will say so.
            except StoreUnavailable:
                continue

    def ran(self, lease: EntryLease, begun: float) -> None:
        seconds = self.clock.monotonic() - begun
        self.meter.observe(metrics.EFFECT_SECONDS, seconds, operation=lease.entry_key.operation)

    async def _tidy(self) -> None:
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
            "and an entry must be kept at least as long as its lease"
        )
