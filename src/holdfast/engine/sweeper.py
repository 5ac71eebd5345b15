"""Takes back tasks with expired leases, and prunes old rows.

Promises: a task with an expired lease is queued again (or becomes a dead letter) within about a second,
if all nodes have leases of the same duration. Finished tasks and old events are pruned after their
retention, in small batches. An idle store gets few queries. Any number of sweepers may run: the store
decides which one gets a row. Correctness never depends on a sweeper; only latency does. After its own
time has jumped (a suspended machine, a clock that was set forward, an outage of the store), or while its
process cannot renew its leases (a full disk), a sweeper first waits for the longest lease that this
endangers, of any node, so that live runners can renew: at most three times the jump. When it starts, it
waits so for remote workers, which may have had no gateway to renew at: at most `RETURN_SECONDS_MAX`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec

from holdfast.clock import Clock
from holdfast.core import codec, node as node_rules
from holdfast.core.decide import Ruling, Transition
from holdfast.core.lease import renewal_interval
from holdfast.core.retention import HubRetention
from holdfast.core.retry import unit_jitter
from holdfast.core.task import RunId
from holdfast.engine import outcome_log
from holdfast.engine.due_changes import DueChanges
from holdfast.engine.linking import Linking
from holdfast.engine.loop import Loop, log
from holdfast.engine.settling import Settling
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.store import Store, Swept

SWEEP_SECONDS_MAX: Final = 10.0
SPREAD_SECONDS: Final = 0.5
"""Spreads the sweeps of several nodes after the end of a lease."""
COUNT_SECONDS: Final = 5.0
COUNT_SECONDS_MAX: Final = 40.0
LEFT_OUT_MAX: Final = 1_000
HELD_OUT_SECONDS: Final = 5.0
"""How long an expired lease is skipped whose row another transaction holds."""
PRUNE_SECONDS: Final = 60.0
FIRST_PRUNE_SECONDS: Final = 5.0
"""A process that starts prunes after this time. A round has some twenty statements, which the database plans
for the first time then: they must not delay the first tasks."""
PRUNE_BATCH: Final = 1_000
BATCHES_MAX: Final = 50
WAITS_MAX: Final = 10
"""How often a wait for live runners may start again. A clock that keeps jumping must not block the sweep."""
LATE_SECONDS: Final = 0.3
"""A tick that is late by more than this reads the lease durations of the nodes."""
RETURN_SECONDS_MAX: Final = 30.0
"""The longest wait of a sweeper that starts for remote workers to return."""
NODE_SECONDS: Final = 3_600.0
MARK_SECONDS: Final = 3_600.0
"""Retention of marks, which prove that a transaction was committed. No caller waits that long for the
proof."""
TYPE_SECONDS: Final = 30 * 86_400.0
"""A type that no node, task or schedule has used for this long is pruned."""


class Retention(msgspec.Struct, frozen=True):
    """How long rows are kept, in seconds after their end."""

    done_seconds: float = 7 * 86_400.0
    dead_seconds: float = 90 * 86_400.0
    feed_seconds: float = 7 * 86_400.0
    conflict_seconds: float = 90 * 86_400.0
    """Of conflicts that were settled."""
    hub: HubRetention = HubRetention()


class Patience:
    """How long a sweeper waits after its time has jumped.

    Runners renew every third of a lease, so a shorter jump endangers no live runner. After a longer jump the
    runners may have been suspended like the sweeper, or use a clock that has not jumped yet. Nodes may have
    leases of different durations: the longest lease that is endangered decides.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._planned_at: float | None = None
        self._until: float | None = None
        self._waits = 0

    def plan(self, at: float) -> None:
        """Sets the time of the next tick, which may also come earlier."""
        self._planned_at = at

    def begin(self, at: float) -> None:
        """The first tick is planned for this time. If the store answers slowly, the time may jump between its
        first reading and the first tick, too."""
        if self._planned_at is None:
            self._planned_at = at

    def hold(self, until: float) -> None:
        """Leases are judged at this time at the earliest."""
        self._until = until if self._until is None else max(self._until, until)

    def is_late(self, now: float) -> bool:
        """Whether the time may have jumped."""
        return self._planned_at is not None and now - self._planned_at > LATE_SECONDS

    def remaining(
        self, now: float, leases: Collection[float] = (), *, unrenewed_seconds: float = 0.0
    ) -> float:
        """Seconds to wait before leases are judged. `leases`: the lease durations of other nodes.
        `unrenewed_seconds`: time since this process renewed its own leases. If it cannot renew, other live
        runners may not be able to either. A jump during a wait starts the wait again, at most `WAITS_MAX`
        times."""
        jump = 0.0 if self._planned_at is None else now - self._planned_at
        jump = max(jump, unrenewed_seconds - renewal_interval(self._lease_seconds))
        endangered = [
            lease_seconds
            for lease_seconds in (self._lease_seconds, *leases)
            if jump > renewal_interval(lease_seconds)
        ]
        if endangered and self._waits < WAITS_MAX:
            until = now + max(endangered)
            self._until = until if self._until is None else max(self._until, until)
            self._waits += 1
        if self._until is None:
            return 0.0
        seconds = self._until - now
        if seconds <= 0.0:
            self._until, self._waits = None, 0
        return max(0.0, seconds)


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
        self._retention = retention
        self._on_expired = on_expired
        self._on_counted = on_counted
        # A lease that is granted after a sweep ends one lease duration later at the earliest.
        self._longest = min(lease_seconds, SWEEP_SECONDS_MAX)
        self._patience = Patience(lease_seconds)
        self._spread = SPREAD_SECONDS * unit_jitter(node, 0)
        self._prune_at = 0.0
        self._count_at = 0.0
        self._count_seconds = COUNT_SECONDS
        self._counted: object = None
        self.expired = 0
        self.expired_by_kind: Counter[str] = Counter()
        self.pruned = 0
        self._left_out: set[RunId] = set()
        """Runs that could not be taken back. They are tried again after each pruning."""
        self._held_out: dict[RunId, float] = {}
        """Runs whose rows another transaction holds, and until when each is skipped."""
        self._has_begun = False
        self._linking = Linking(self, store, on_expired)
        self._settling = Settling(self, store, on_expired)
        self._due_changes = DueChanges(store, on_expired)

    async def tick(self) -> float:
        began, before = self._store.now(), self.clock.monotonic()
        if self.is_looping:
            self._patience.begin(self._made_at + before - self._made_monotonic)
            await self._begin(began)
        leases = await self._leases() if self._patience.is_late(began) else ()
        unrenewed_seconds = before - self._renewed_at() if self.is_looping else 0.0
        patience = self._patience.remaining(began, leases, unrenewed_seconds=unrenewed_seconds)
        swept = Swept([]) if patience > 0.0 else await self._sweep(began)
        link_seconds = await self.guard("linking children to their parents", self._linking.round())
        settle_seconds = await self.guard("settling dependents", self._settling.round())
        due_seconds = await self.guard("applying deadlines of tasks", self._due_changes.round())
        now = self._store.now()
        if now >= self._count_at:
            await self.guard("counting", self._count(now))
        if now >= self._prune_at:
            # When rows end faster than one round prunes them, the next round starts at once.
            await self.guard("reporting lost nodes", self._lose_nodes(now))
            more = await self._prune(now)
            self._prune_at = now if more else now + PRUNE_SECONDS
            self._left_out.clear()
            self._linking.retry_all()
        moments = [now + self._longest, self._count_at, self._prune_at]
        moments += [
            now + seconds
            for seconds in (link_seconds, settle_seconds, due_seconds)
            if seconds is not None
        ]
        if swept.next_at is not None:
            moments.append(swept.next_at + self._spread)
        if patience > 0.0:
            moments.append(now + patience)
        delay = max(0.0, min(moments) - now)
        if self.is_looping:
            # Counted from the start of this tick, so that the next tick notices a jump during this one.
            self._patience.plan(began + self.clock.monotonic() - before + delay)
        return delay

    async def _begin(self, now: float) -> None:
        """In the first tick: remote workers get time to return. While no gateway ran, none could renew."""
        if self._has_begun:
            return
        self._has_begun = True
        self._prune_at = now + FIRST_PRUNE_SECONDS + self._spread
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
        self._count_seconds = longer if counted == self._counted else COUNT_SECONDS
        self._counted = counted
        self._on_counted(counted)
        self._count_at = now + self._count_seconds

    async def _prune(self, now: float) -> bool:
        """One round of pruning. Returns whether there is more to prune. A table that fails does not block the
        others."""
        keep = self._retention

        async def tasks() -> int:
            pruned = await self._store.prune(
                before=now - keep.done_seconds,
                dead_before=now - keep.dead_seconds,
                feed_before=now - keep.feed_seconds,
                conflicts_before=now - keep.conflict_seconds,
                keep=keep.hub,
                limit=PRUNE_BATCH,
            )
            self.pruned += pruned
            return pruned

        async def entries() -> int:
            return await self._store.upkeep.prune_entries(now=now, limit=PRUNE_BATCH)

        async def limits() -> int:
            before = now - NODE_SECONDS
            limits = await self._store.upkeep.prune_limits(before=before, limit=PRUNE_BATCH)
            return limits + await self._store.upkeep.prune_turns(before=before, limit=PRUNE_BATCH)

        async def counters() -> int:
            return await self._store.upkeep.prune_counters(limit=PRUNE_BATCH)

        async def marks() -> int:
            before = now - MARK_SECONDS
            return await self._store.upkeep.prune_marks(before=before, limit=PRUNE_BATCH)

        async def types() -> int:
            await self._store.upkeep.prune_types(before=now - TYPE_SECONDS)
            return 0

        prunings = (tasks, entries, limits, counters, marks, types)
        more = [
            await self.guard(f"pruning {batch.__name__}", _prune_all(batch)) for batch in prunings
        ]
        return any(more)

    async def _lose_nodes(self, now: float) -> None:
        await self._store.upkeep.lose_nodes(forget_before=now - NODE_SECONDS)


def _holder(ruling: Ruling) -> str:
    """Who held an expired lease: a node or remote worker claims under an id, a process of the store under
    none."""
    task = ruling.before if isinstance(ruling, Transition) else ruling.current
    return "engine" if task is None or task.claim_id is None else "node"


async def _prune_all(batch: Callable[[], Awaitable[int]]) -> bool:
    """Prunes until a batch is not full, at most `BATCHES_MAX` batches. Returns whether there may be more."""
    for _ in range(BATCHES_MAX):
        if await batch() < PRUNE_BATCH:
            return False
    return True
