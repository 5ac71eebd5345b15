"""The store: the verbs that move tasks, the same over every database.

Promises: what a verb acknowledges is durable; every change has its facts in the same transaction; every
write of a runner is fenced. Never: decides (the core does), never hands out SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.command import Complete, Expire, Order
from holdfast.core.decide import Decision, Refusal, Transition, decide
from holdfast.core.event import Event, Position
from holdfast.core.ids import Ids
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.task import Priority, RunId, Status, Task
from holdfast.store.claims import Claim, Claimed
from holdfast.store.inserts import Inserts
from holdfast.store.port import Dialect, RecordExists, WatchedFile
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import (
    admin,
    apply as apply_script,
    beats,
    claim as claim_script,
    feed,
    nodes,
)
from holdfast.store.scripts.beats import Kept
from holdfast.store.scripts.feed import Page, Reset
from holdfast.store.scripts.insert import Inserted

T = TypeVar("T")


CASCADES_MAX: Final = 100
SMALL: Final = 8
"""Tasks that are written about as quickly as one."""
COUNT_BITES: Final = 20
"""Bites of uncounted records that one question about figures works through."""
DRAWS: Final = 3
"""How often a claim draws the id of its record: two processes may draw the same one."""


class Swept(msgspec.Struct, frozen=True):
    """What was taken back from dead runners."""

    expired: list[Decision]
    next_at: float | None = None
    """When the next lease ends, if nothing had ended."""


class Store(Inserts):
    """The one store class; `driver` and `dialect` are what differs."""

    on_cut_short: Callable[[], None] = staticmethod(lambda: None)
    """Called when a transaction has left dependents to be settled: this process's sweeper, if it has one."""

    async def open(self) -> None:
        await self._driver.open()

    async def close(self) -> None:
        await self._driver.close()

    @property
    def ids(self) -> Ids:
        """Where this store's ids come from."""
        return self._ids

    @property
    def file(self) -> WatchedFile | None:
        """The file that other processes may have open too; None for a server or a store in memory."""
        return self._driver.file

    @property
    def is_quick(self) -> bool:
        """Whether small writes are done on the spot."""
        return self._driver.is_quick

    async def warm_up(self, claim: Claim) -> None:
        """Before the first task comes: what a worker asks all day is asked once, in vain."""
        await self._driver.warm_up(self._dialect.rehearse(claim, now=self.now()))

    # -- tasks ---------------------------------------------------------------------------------

    async def claim(self, claim: Claim, *, small: bool = False) -> Claimed:
        """The next tasks in order, under new fences, judged at the time that the database is reached.
        `small`: few are expected."""
        batch = self._ids.record(self.now())
        try:
            claimed, ids = await self._driver.write_one(
                lambda: self._dialect.claim(claim, now=self.now(), batch=batch), small=small
            )
        except RecordExists:
            # Nothing was taken; what an unanswered first run had taken, the keeper gives back.
            return Claimed([], look_again=True)
        if not ids:
            return claimed
        more = await self._write(
            lambda: claim_script.claim_limited(
                ids,
                claim,
                now=(now := self.now()),
                batch=self._ids.record(now),
                recorder=self._dialect,
            )
        )
        tasks = sorted(claimed.tasks + more.tasks, key=lambda task: (task.priority, task.due_at))
        others_took = len(ids) - len(more.tasks) - more.parked
        look_again = claimed.look_again or others_took > 0
        return Claimed(tasks, more.opens_at, more.parked, look_again, claimed.blind_seconds)

    async def claim_next(self, claim: Claim) -> list[Task]:
        """The first in line alone, unless a limit counts it: quicker than `claim` where that is all."""
        for _ in range(DRAWS):
            batch = self._ids.record(self.now())
            try:
                return await self._driver.write_one(
                    lambda batch=batch: self._dialect.claim_next(  # type: ignore[misc]
                        claim, now=self.now(), batch=batch
                    )
                )
            except RecordExists:
                continue
        return []

    async def claim_aged(
        self,
        claim: Claim,
        ageing_seconds: float = AGEING_SECONDS,
        *,
        below: Priority = Priority.CRITICAL,
    ) -> Claimed:
        """The tasks that have waited longest, of those less urgent than `below`."""

        def script() -> Script[Claimed]:
            now = self.now()
            aged = yield from self._dialect.pick_aged(
                claim, now=now, ageing_seconds=ageing_seconds, below=below
            )
            return (
                yield from claim_script.claim_these(
                    aged, claim, now=now, batch=self._ids.record(now), recorder=self._dialect
                )
            )

        return await self._write(script)

    async def open_gates(self) -> tuple[int, float | None]:
        """Lets tasks in that waited for a rate; says how many, and when the next may come."""
        now = self.now()
        return await self._write(
            lambda: claim_script.open_gates(
                now=now, batch=self._ids.record(now), recorder=self._dialect
            )
        )

    async def next_due(self, queues: Sequence[str], after: float | None = None) -> float | None:
        """When the first task is due that is not due yet, or was not yet at `after`."""
        now = self.now() if after is None else after
        rows = await self._one("next_due", queues=list(queues), now=now)
        return rows[0][0] if rows else None

    async def first_due(self, queues: Sequence[str]) -> float | None:
        """When the first task in line was or will be due; None when nothing is in line."""
        rows = await self._one("first_due", queues=list(queues))
        return rows[0][0] if rows else None

    async def apply(self, orders: Sequence[Order]) -> list[Decision]:
        """Carries out orders; an answer for each, in their order."""
        now = self.now()
        applied = await self._write(
            lambda: apply_script.apply(
                orders, now=now, batch=self._ids.record(now), recorder=self._dialect
            )
        )
        if applied.is_cut_short:
            self.on_cut_short()
        return applied.decisions

    async def cascades(self) -> list[str]:
        """Parents that have ended while some of their dependents are not settled yet."""
        return [row[0] for row in await self._one("cascades", limit=CASCADES_MAX)]

    async def settle(self, parent_id: str) -> int:
        """Settles the next dependents of such a parent; how much was done, 0 if another process does it."""
        now = self.now()
        return await self._write(
            lambda: apply_script.go_on(
                parent_id, now=now, batch=self._ids.record(now), recorder=self._dialect
            )
        )

    async def finish(self, ended: Sequence[tuple[Task, Order]]) -> list[Decision]:
        """Ends of claimed tasks. What completes and has nobody waiting is written in one statement;
        the rest, and whatever is not as the runner believes, goes the general way."""
        now = self.now()
        plain: dict[str, tuple[int, Transition]] = {}
        for n, (task, order) in enumerate(ended):
            # One outcome of a task: that of another run of it goes the general way, in its turn.
            if type(order.command) is Complete and not task.limits and task.id not in plain:
                moved = decide(task, order, now)
                if type(moved) is Transition:
                    plain[task.id] = n, moved
        answers: dict[int, Decision] = {}
        if plain:
            batch, moves = self._ids.record(now), [moved for _, moved in plain.values()]
            try:
                written = await self._driver.write_one(
                    lambda: self._dialect.complete_plain(moves, now=now, batch=batch),
                    small=len(plain) <= SMALL,
                )
            except RecordExists:
                written = set()
            answers.update([plain[task_id] for task_id in written])
        if len(answers) < len(ended):
            rest = [n for n in range(len(ended)) if n not in answers]
            decided = await self.apply([ended[n][1] for n in rest])
            answers.update(zip(rest, decided, strict=True))
        return [answers[n] for n in range(len(ended))]

    async def owned(self, node: str) -> list[tuple[str, int, float]]:
        """What the store believes that a node runs: (id, fence, started at)."""
        return await self._driver.read(lambda: self._dialect.owned(node))

    async def beat(
        self, node: str, info_json: str, held: Sequence[RunId], lease_seconds: float
    ) -> Kept:
        """A node's heartbeat in one go: its leases renewed, itself seen, what it owns told."""
        now = self.now()
        until = now + lease_seconds
        kept = await self._driver.write_one(
            lambda: beats.beat(self._dialect, node, info_json, held=held, until=until, now=now)
        )
        if not kept.is_known:
            await self.run(
                lambda dialect, ids, now: nodes.join(
                    dialect, ids, now, node=node, info_json=info_json
                )
            )
        # Processes whose clocks were wrong for a while must not judge each other's leases.
        self._driver.adopt(kept.latest_at)
        return kept

    async def sweep(self, limit: int = 100, *, without: Collection[RunId] = ()) -> Swept:
        """Takes back what dead runners held; says when the next lease ends, as far as is known now."""
        ended, next_at = await self._ending(limit, without)
        return Swept(await self.expire(ended)) if ended else Swept([], next_at)

    async def expired(self, limit: int = 100, *, without: Collection[RunId] = ()) -> list[RunId]:
        """Runs whose leases have ended."""
        return (await self._ending(limit, without))[0]

    async def expire(self, runs: Sequence[RunId]) -> list[Decision]:
        """Takes these runs back, unless their leases were renewed."""
        return await self.apply([Order(run.task_id, Expire(), fence=run.fence) for run in runs])

    async def _ending(
        self, limit: int, without: Collection[RunId]
    ) -> tuple[list[RunId], float | None]:
        now = self.now()
        asked = limit + len(without)
        rows = await self._driver.read(lambda: self._dialect.ending_leases(now=now, limit=asked))
        ended = [RunId(row[0], row[1]) for row in rows if row[2] <= now]
        next_at = next((row[2] for row in rows if row[2] > now), None)
        return [run for run in ended if run not in without][:limit], next_at

    async def get(self, ids: Sequence[str]) -> dict[str, Task]:
        tasks: list[Task] = await self._one("get_tasks", ids=list(ids))
        return {task.id: task for task in tasks}

    async def find(
        self,
        *,
        status: Status | None = None,
        type: str | None = None,
        queue: str | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """Newest first; `after` is the last id of the page before."""
        return await self._one(
            "find_tasks",
            status=status.value if status else None,
            type=type,
            queue=queue,
            prefix=prefix,
            after=after,
            limit=limit,
        )

    # -- the feed ------------------------------------------------------------------------------

    async def events(self, after: Position | None, limit: int = 500) -> Page | Reset:
        return await self._driver.read(lambda: feed.read(self._dialect, after, limit))

    async def head(self) -> Position:
        return await self._driver.read(lambda: feed.head(self._dialect))

    async def history(self, task_id: str) -> list[Event]:
        return await self._driver.read(lambda: feed.history(self._dialect, task_id))

    async def counters(self) -> list[feed.Count]:
        """(queue, type, priority, status, n), exact as of now. Behind a backlog of more than a million
        records that were never read, as of the last of them that was counted."""
        rows: list[feed.Count] = []
        for _ in range(COUNT_BITES):
            is_done, rows = await self._driver.write_one(lambda: feed.counters(self._dialect))
            if is_done:
                break
        return rows

    async def new_epoch(self) -> Position:
        """After a restore that the store cannot notice by itself: every reader gets a reset and reads the
        state again. The head of the feed in its new epoch."""
        epoch = self._ids.token()
        return await self._driver.write_one(lambda: feed.new_epoch(epoch))

    # -- what surrounds tasks --------------------------------------------------------------------

    async def run(
        self,
        make: Callable[[Dialect, Ids, float], Script[T]],
        *,
        small: bool = False,
        repeatable: bool = False,
    ) -> T:
        """Runs a script that writes, in one transaction. `small`: it takes no longer than a commit does.
        `repeatable`: a second run of a committed script gives the same answer and changes nothing more, so
        it need not leave a mark of its commit; such a script draws no ids."""
        now = self.now()
        return await self._driver.write(
            lambda: make(self._dialect, self._ids, now),
            small=small,
            mark=None if repeatable else self._mark,
        )

    async def run_carried(
        self, connection: object, make: Callable[[Dialect, Ids, float], Script[T]]
    ) -> T:
        """The same within the caller's own transaction."""
        now = self.now()
        return await self._driver.carry(connection, lambda: make(self._dialect, self._ids, now))

    async def query(self, statement: str, **params: Any) -> list[Any]:
        """The rows of one named statement that reads."""
        return await self._one(statement, **params)

    async def snapshot(self, make: Callable[[float], Script[T]]) -> T:
        """Runs a script that reads, all of it at one moment, which it is given."""
        return await self._driver.snapshot(lambda: make(self.now()))

    async def execute(
        self, statement: str, rows: list[tuple[Any, ...]] | None = None, **params: Any
    ) -> list[Any]:
        """One named statement that writes what has no facts, e.g. a node's heartbeat."""
        made = (
            (lambda: _single_rows(statement, rows, **params))
            if rows is not None
            else (lambda: _single(statement, **params))
        )
        return await self._driver.write_one(made)

    async def prune(
        self, *, before: float, dead_before: float, feed_before: float, limit: int = 1000
    ) -> int:
        """Forgets what retention no longer covers; how many rows went."""
        gone = await self._driver.write_one(
            lambda: admin.prune_tasks(
                self._dialect, before=before, dead_before=dead_before, limit=limit
            )
        )
        return gone + await self._driver.write_one(
            lambda: feed.prune(self._dialect, before=feed_before, limit=limit)
        )

    async def _write(self, make: Callable[[], Script[T]]) -> T:
        return await self._driver.write(make, mark=self._mark)

    async def _one(self, statement: str, **params: Any) -> list[Any]:
        return await self._driver.read(lambda: _single(statement, **params))


def _single(statement: str, **params: Any) -> Script[list[Any]]:
    return (yield call(statement, **params))


def _single_rows(statement: str, rows: list[tuple[Any, ...]], **params: Any) -> Script[list[Any]]:
    return (yield call_rows(statement, rows, **params))


__all__ = ["Claim", "Claimed", "Inserted", "Page", "Refusal", "Reset", "Store"]
