"""Takes back tasks with expired leases, and runs the other parts of upkeep in turn.

Promises: a task with an expired lease is queued again (or becomes a dead letter) within about a second,
if all nodes have leases of the same duration. A store at rest gets one look each `SWEEP_SECONDS_MAX`. Any
number of sweepers may run: the store decides which one gets a row. Correctness never depends on a sweeper;
only latency does. After its own time has jumped (a suspended machine, a clock that was set forward, an outage
of the store), or while its process cannot renew its leases (a full disk), a sweeper first waits for the
longest lease that this endangers, of any node, so that live runners can renew: at most three times the jump.
When it starts, it waits so for remote workers, which may have had no gateway to renew at: at most
`RETURN_SECONDS_MAX`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from holdfast.clock import Clock
from holdfast.core import codec, node as node_rules
from holdfast.core.decide import Ruling, Transition
from holdfast.core.retry import unit_jitter
from holdfast.core.task import RunId
from holdfast.engine import outcome_log
from holdfast.engine.due_changes import DueChanges
from holdfast.engine.linking import Linking
from holdfast.engine.loop import Loop, log
from holdfast.engine.patience import Patience
from holdfast.engine.pruning import FIRST_PRUNE_SECONDS, Pruning, Retention
from holdfast.engine.settling import Settling
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.store import Store, Swept
from holdfast.store.upkeep import NextUpkeep

SWEEP_SECONDS_MAX: Final = 10.0
SPREAD_SECONDS: Final = 0.5
"""Spreads the sweeps of several nodes after the end of a lease."""
COUNT_SECONDS: Final = 5.0
COUNT_SECONDS_MAX: Final = 40.0
LEFT_OUT_MAX: Final = 1_000
HELD_OUT_SECONDS: Final = 5.0
"""How long an expired lease is skipped whose row another transaction holds."""
ROUND_SECONDS: Final = 60.0
"""Lost nodes are reported, and what was left out is tried again, at this interval."""
PRUNE_BATCH: Final = 1_000
"""Rows that one transaction prunes."""
BATCHES_MAX: Final = 50
RETURN_SECONDS_MAX: Final = 30.0
"""The longest wait of a sweeper that starts for remote workers to return."""
NODE_SECONDS: Final = 3_600.0
"""A node that has been silent for this long is forgotten."""


class Sweeper(Loop):
    name = "sweeper"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        retention: Retention,
        on_expired: Callable[[], None],
        *,
        node: str,
        lease_seconds: float,
        on_counted: Callable[[list[tuple[str, str, int, str, int]]], None] = lambda counts: None,
        renewed_at: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(clock)
        self._renewed_at = renewed_at or clock.monotonic
        self._made_at, self._made_monotonic = store.now(), clock.monotonic()
        self._store = store
        self._on_expired = on_expired
        self._on_counted = on_counted
        # A lease that is granted after a sweep ends one lease duration later at the earliest.
        self._longest = min(lease_seconds, SWEEP_SECONDS_MAX)
        self._patience = Patience(lease_seconds)
        self._spread = SPREAD_SECONDS * unit_jitter(node, 0)
        self._round_at = 0.0
        self._count_at = 0.0
        self._count_seconds = COUNT_SECONDS
        self._counted: object = None
        self.expired = 0
        self.expired_by_kind: Counter[str] = Counter()
        self._left_out: set[RunId] = set()
        """Runs that could not be taken back. They are tried again after each pruning."""
        self._held_out: dict[RunId, float] = {}
        """Runs whose rows another transaction holds, and until when each is skipped."""
        self._has_begun = False
        self._linking = Linking(self, store, on_expired)
        self._settling = Settling(self, store, on_expired)
        self._due_changes = DueChanges(store, on_expired)
        self._pruning = Pruning(self, store, retention, batch=PRUNE_BATCH)

    async def tick(self) -> float:
        began, before = self._store.now(), self.clock.monotonic()
        patience = await self._patience_at(began, before)
        due = await self._look()
        if patience > 0.0:
            swept = Swept([])
        elif due.lease_at is not None and due.lease_at <= began:
            swept = await self._sweep(began)
        else:
            swept = Swept([], due.lease_at)
        if due.is_left or swept.expired or _is_over(due.change_at, self._store.now()):
            pauses = await self._changes()
        else:
            # The look has found nothing for the parts, so they would find nothing either. What begins later
            # waits as it did after their own looks: for its hint, or for the next tick.
            pauses = [] if due.change_at is None else [due.change_at - self._store.now()]
        now = self._store.now()
        moments = await self._rounds(now)
        moments += [now + seconds for seconds in pauses]
        if swept.next_at is not None:
            moments.append(swept.next_at + self._spread)
        if patience > 0.0:
            moments.append(now + patience)
        delay = max(0.0, min(moments) - now)
        if self.is_looping:
            # Counted from the start of this tick, so that the next tick notices a jump during this one.
            self._patience.plan(began + self.clock.monotonic() - before + delay)
        return delay

    async def _patience_at(self, began: float, monotonic: float) -> float:
        """Seconds to wait before leases are judged. Both times are those of the start of this tick."""
        if self.is_looping:
            self._patience.begin(self._made_at + monotonic - self._made_monotonic)
            await self._begin(began)
        leases = await self._leases() if self._patience.is_late(began) else ()
        unrenewed_seconds = monotonic - self._renewed_at() if self.is_looping else 0.0
        return self._patience.remaining(began, leases, unrenewed_seconds=unrenewed_seconds)

    async def _rounds(self, now: float) -> list[float]:
        """Does what comes round after a time. Returns when each is due next."""
        if now >= self._count_at:
            await self.guard("counting", self._count(now))
        if now >= self._round_at:
            await self.guard("reporting lost nodes", self._lose_nodes(now))
            self._left_out.clear()
            self._linking.retry_all()
            self._round_at = now + ROUND_SECONDS
        await self._pruning.round(now)
        return [now + self._longest, self._count_at, self._round_at, self._pruning.next_at]

    async def _look(self) -> NextUpkeep:
        """What is due, in one call. If the look fails, every part looks for itself."""

        async def look() -> NextUpkeep:
            return await self._store.upkeep.next()

        return await self.guard("looking for what is due", look()) or NextUpkeep(0.0, 0.0, True)

    async def _changes(self) -> list[float]:
        """Does what is due beside leases. Returns the seconds until each part has to go on."""
        pauses = [
            await self.guard("linking children to their parents", self._linking.round()),
            await self.guard("settling dependents", self._settling.round()),
            await self.guard("applying deadlines of tasks", self._due_changes.round()),
        ]
        return [seconds for seconds in pauses if seconds is not None]

    async def _begin(self, now: float) -> None:
        """In the first tick: remote workers get time to return. While no gateway ran, none could renew."""
        if self._has_begun:
            return
        self._has_begun = True
        self._pruning.next_at = self._round_at = now + FIRST_PRUNE_SECONDS + self._spread
        leases = await self._leases(only_remote=True)
        if leases:
            self._patience.hold(now + min(max(leases), RETURN_SECONDS_MAX))

    async def _leases(self, *, only_remote: bool = False) -> Collection[float]:
        """The lease durations of the nodes."""

        async def look() -> set[float]:
            infos = [codec.loads_object(n.info_json) for n in await self._store.reads.nodes()]
            return {
                node_rules.lease_seconds_of(info)
                for info in infos
                if not only_remote or node_rules.is_remote(info)
            }

        return await self.guard("looking at the leases of the nodes", look()) or ()

    async def _sweep(self, at: float) -> Swept:
        """Judges all batches by the time `at` which the patience was computed. The store's clock may be read
        between two batches; a jump of it must not expire leases of runners that have not read it yet."""
        swept = await self._batch(at)
        for _ in range(BATCHES_MAX):
            if not swept.expired:
                break
            self.expired += len(swept.expired)
            for ruling in swept.expired:
                outcome_log.expired(ruling)
                self.expired_by_kind[_holder(ruling)] += 1
            self._on_expired()
            swept = await self._batch(at)
        return swept

    async def _batch(self, at: float) -> Swept:
        """Takes back a batch of expired leases. If that fails, takes them back one by one, so that a bad row
        does not block others."""
        now = self.clock.monotonic()
        self._held_out = {run: until for run, until in self._held_out.items() if until > now}
        without = self._left_out | self._held_out.keys()
        try:
            swept = await self._store.sweep(at=at, without=without)
        except StoreUnavailable as error:
            if not isinstance(error, RowHeld):
                raise
            log.warning("sweeper: expired leases are taken one by one: %s", error)
        except Exception as error:
            self.troubles += 1
            log.warning("sweeper: expired leases are taken one by one after %r", error)
        else:
            return self._again(swept)
        rulings: list[Ruling] = []
        for run in await self._store.runs.expired(at=at, without=without):
            part = self._take_back(run)
            taken_back = await self.guard(f"taking back task {run.task_id}", part)
            rulings += taken_back or ()
            if taken_back is None and len(self._left_out) < LEFT_OUT_MAX:
                self._left_out.add(run)
        # More than one batch may have expired: sweep again at once, without the held rows.
        return Swept(rulings, self._store.now())

    async def _take_back(self, run: RunId) -> list[Ruling]:
        try:
            return await self._store.runs.expire([run], brief=True)
        except RowHeld as error:
            self._held_out[run] = self.clock.monotonic() + HELD_OUT_SECONDS
            log.warning("sweeper: task %s is taken back later: %s", run.task_id, error)
            return []

    def _again(self, swept: Swept) -> Swept:
        """The result with the next sweep no later than the next try of a held row."""
        if not self._held_out:
            return swept
        seconds = min(self._held_out.values()) - self.clock.monotonic()
        moments = [self._store.now() + seconds, *([] if swept.next_at is None else [swept.next_at])]
        return Swept(swept.expired, min(moments))

    async def _count(self, now: float) -> None:
        """Folds the feed into the counters. Backs off while they do not change."""
        counted = await self._store.feed.counters()
        longer = min(self._count_seconds * 2.0, COUNT_SECONDS_MAX)
        if counted == self._counted:
            self._count_seconds = longer
        else:
            self._count_seconds = COUNT_SECONDS
            self._pruning.soon(now)
        self._counted = counted
        self._on_counted(counted)
        self._count_at = now + self._count_seconds

    async def _lose_nodes(self, now: float) -> None:
        await self._store.upkeep.lose_nodes(forget_before=now - NODE_SECONDS)


def _holder(ruling: Ruling) -> str:
    """Who held an expired lease: a node or remote worker claims under an id, a process of the store under
    none."""
    task = ruling.before if isinstance(ruling, Transition) else ruling.current
    return "engine" if task is None or task.claim_id is None else "node"


def _is_over(at: float | None, now: float) -> bool:
    return at is not None and at <= now
