"""Takes back what dead runners held, and forgets what nobody needs any more.

Promises: an expired lease becomes a queued task (or a dead letter) within about a second of its end, where
all nodes have leases of the same length; finished tasks and old events go when their retention is over, in
small bites; an idle store is asked seldom. Any number of sweepers may run: the store decides who gets which
row. Correctness never waits for a sweeper; only time does. A sweeper whose own time has jumped (a suspended
machine, a clock that was set forward, an outage of the store), or whose process could not renew its leases (a
full disk), first lets the longest lease pass that this endangers, of any node, in which living runners renew:
three times the jump at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

import msgspec

from holdfast.clock import Clock
from holdfast.core import codec, node as node_rules
from holdfast.core.decide import Decision
from holdfast.core.retry import unit_jitter
from holdfast.core.task import RunId
from holdfast.engine import outcome_log
from holdfast.engine.loop import Loop, log
from holdfast.engine.settling import Settling
from holdfast.engine.tying import Tying
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.scripts import nodes
from holdfast.store.store import Store, Swept

SWEEP_SECONDS_MAX: Final = 10.0
SPREAD_SECONDS: Final = 0.5
"""Nodes do not all come at the moment at which a lease ends."""
COUNT_SECONDS: Final = 5.0
COUNT_SECONDS_MAX: Final = 40.0
LEFT_OUT_MAX: Final = 1_000
HELD_OUT_SECONDS: Final = 5.0
"""How long an expired lease is left out that cannot be taken back because of another transaction."""
PRUNE_SECONDS: Final = 60.0
PRUNE_BITE: Final = 1_000
BITES_MAX: Final = 50
WAITS_MAX: Final = 10
"""How often a wait for living runners starts again: time that jumps for ever must not keep dead ones."""
LATE_SECONDS: Final = 0.3
"""A tick that is late by more than this asks which leases the nodes work with."""
NODE_SECONDS: Final = 3_600.0
MARK_SECONDS: Final = 3_600.0
"""A transaction proves by its mark that it was committed; far longer than any caller waits for the proof."""
TYPE_SECONDS: Final = 30 * 86_400.0
"""A type that no node, task or schedule has named for so long is forgotten."""


class Retention(msgspec.Struct, frozen=True):
    """How long things are kept, in seconds after their end."""

    done_seconds: float = 7 * 86_400.0
    dead_seconds: float = 90 * 86_400.0
    feed_seconds: float = 7 * 86_400.0


class Patience:
    """How long a sweeper waits after its time has jumped over a part of the leases that it judges.

    Runners renew each third of a lease, so a jump of less than that endangers no runner that is alive. After
    a longer one the runners may have stood still as the sweeper did, or judge by a clock that has not jumped
    yet. Nodes may work with leases of different lengths: the longest that is endangered decides.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._planned_at: float | None = None
        self._until: float | None = None
        self._waits = 0

    def plan(self, at: float) -> None:
        """The next tick is to come then, or earlier."""
        self._planned_at = at

    def is_late(self, now: float) -> bool:
        """Whether the time may have jumped over a lease of some node."""
        return self._planned_at is not None and now - self._planned_at > LATE_SECONDS

    def left(
        self, now: float, leases: Collection[float] = (), *, unrenewed_seconds: float = 0.0
    ) -> float:
        """Seconds to wait before leases are judged. `leases`: lengths that other nodes work with.
        `unrenewed_seconds`: how long ago this process renewed its own leases; where it could not, other
        runners that are alive could not either. A jump during a wait starts it again, some times."""
        jump = 0.0 if self._planned_at is None else now - self._planned_at
        jump = max(jump, unrenewed_seconds - self._lease_seconds / 3)
        endangered = [each for each in (self._lease_seconds, *leases) if jump > each / 3]
        if endangered and self._waits < WAITS_MAX:
            until = now + max(endangered)
            self._until = until if self._until is None else max(self._until, until)
            self._waits += 1
        if self._until is None:
            return 0.0
        left = self._until - now
        if left <= 0.0:
            self._until, self._waits = None, 0
        return max(0.0, left)


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
        self._store = store
        self._retention = retention
        self._on_expired = on_expired
        self._on_counted = on_counted
        # Whatever is leased after a look ends no sooner than one lease later.
        self._longest = min(lease_seconds, SWEEP_SECONDS_MAX)
        self._patience = Patience(lease_seconds)
        self._spread = SPREAD_SECONDS * unit_jitter(node, 0)
        self._prune_at = 0.0
        self._count_at = 0.0
        self._count_seconds = COUNT_SECONDS
        self._counted: object = None
        self.expired = 0
        self.pruned = 0
        self._left_out: set[RunId] = set()
        """Runs that could not be taken back; tried again with each pruning."""
        self._held_out: dict[RunId, float] = {}
        """Runs that could not be taken back because of a row that another transaction holds, until when."""
        self._tying = Tying(self, store, on_expired)
        self._settling = Settling(self, store, on_expired)

    async def tick(self) -> float:
        began, before = self._store.now(), self.clock.monotonic()
        leases = await self._leases() if self._patience.is_late(began) else ()
        unrenewed_seconds = before - self._renewed_at() if self.is_looping else 0.0
        patience = self._patience.left(began, leases, unrenewed_seconds=unrenewed_seconds)
        swept = Swept([]) if patience > 0.0 else await self._sweep(began)
        tie_seconds = await self.apart("tying children to their parents", self._tying.round())
        settle_seconds = await self.apart("settling dependents", self._settling.round())
        now = self._store.now()
        if now >= self._count_at:
            await self.apart("counting", self._count(now))
        if now >= self._prune_at:
            # What ends faster than one round forgets would pile up: then the next round comes at once.
            await self.apart("telling of lost nodes", self._lose_nodes(now))
            more = await self._prune(now)
            self._prune_at = now if more else now + PRUNE_SECONDS
            self._left_out.clear()
            self._tying.try_all()
        moments = [now + self._longest, self._count_at, self._prune_at]
        moments += [now + each for each in (tie_seconds, settle_seconds) if each is not None]
        if swept.next_at is not None:
            moments.append(swept.next_at + self._spread)
        if patience > 0.0:
            moments.append(now + patience)
        delay = max(0.0, min(moments) - now)
        if self.is_looping:
            # By the time at which this tick began: a jump during the tick must be seen by the next one.
            self._patience.plan(began + self.clock.monotonic() - before + delay)
        return delay

    async def _leases(self) -> Collection[float]:
        """Which lengths the nodes work with."""

        async def look() -> set[float]:
            rows = await self._store.query("nodes")
            return {node_rules.lease_seconds_of(codec.loads_object(row[3])) for row in rows}

        return await self.apart("looking at the leases of the nodes", look()) or ()

    async def _sweep(self, at: float) -> Swept:
        """All of it by the time that patience has judged: the store's clock may be read off in between, and
        a jump that it shows must not end the leases of runners that have not read it yet."""
        swept = await self._bite(at)
        for _ in range(BITES_MAX):
            if not swept.expired:
                break
            self.expired += len(swept.expired)
            for decision in swept.expired:
                outcome_log.expired(decision)
            self._on_expired()
            swept = await self._bite(at)
        return swept

    async def _bite(self, at: float) -> Swept:
        """What has expired, together; one by one when that fails, so that one bad row keeps no other."""
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
        decisions: list[Decision] = []
        for run in await self._store.expired(at=at, without=without):
            part = self._take_back(run)
            found = await self.apart(f"taking back task {run.task_id}", part)
            decisions += found or ()
            if found is None and len(self._left_out) < LEFT_OUT_MAX:
                self._left_out.add(run)
        # The others may be more than one bite: at once, without those that are held.
        return Swept(decisions, self._store.now())

    async def _take_back(self, run: RunId) -> list[Decision]:
        try:
            return await self._store.expire([run], brief=True)
        except RowHeld as error:
            self._held_out[run] = self.clock.monotonic() + HELD_OUT_SECONDS
            log.warning("sweeper: task %s is taken back later: %s", run.task_id, error)
            return []

    def _again(self, swept: Swept) -> Swept:
        """Also when those that are held are to be tried again."""
        if not self._held_out:
            return swept
        left = min(self._held_out.values()) - self.clock.monotonic()
        moments = [self._store.now() + left, *([] if swept.next_at is None else [swept.next_at])]
        return Swept(swept.expired, min(moments))

    async def _count(self, now: float) -> None:
        """So that nobody who asks for figures has much to add up; ever more seldom where nothing moves."""
        counted = await self._store.counters()
        longer = min(self._count_seconds * 2.0, COUNT_SECONDS_MAX)
        self._count_seconds = longer if counted == self._counted else COUNT_SECONDS
        self._counted = counted
        self._on_counted(counted)
        self._count_at = now + self._count_seconds

    async def _prune(self, now: float) -> bool:
        """One round; whether there is more to forget. What cannot be forgotten keeps nothing else."""
        keep = self._retention

        async def tasks() -> int:
            gone = await self._store.prune(
                before=now - keep.done_seconds,
                dead_before=now - keep.dead_seconds,
                feed_before=now - keep.feed_seconds,
                limit=PRUNE_BITE,
            )
            self.pruned += gone
            return gone

        async def entries() -> int:
            return len(await self._store.execute("prune_entries", now=now, limit=PRUNE_BITE))

        async def limits() -> int:
            before = now - NODE_SECONDS
            return len(await self._store.execute("prune_limits", before=before, limit=PRUNE_BITE))

        async def counters() -> int:
            return len(await self._store.execute("prune_counters", limit=PRUNE_BITE))

        async def marks() -> int:
            before = now - MARK_SECONDS
            return len(await self._store.execute("prune_marks", before=before, limit=PRUNE_BITE))

        async def types() -> int:
            await self._store.execute("prune_types", before=now - TYPE_SECONDS)
            return 0

        each = (tasks, entries, limits, counters, marks, types)
        more = [await self.apart(f"pruning {bite.__name__}", _prune_all(bite)) for bite in each]
        return any(more)

    async def _lose_nodes(self, now: float) -> None:
        await self._store.run(partial(nodes.lose, forget_before=now - NODE_SECONDS))


async def _prune_all(bite: Callable[[], Awaitable[int]]) -> bool:
    """Until a bite is not full, or the round is; whether there may be more."""
    for _ in range(BITES_MAX):
        if await bite() < PRUNE_BITE:
            return False
    return True
