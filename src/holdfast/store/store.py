"""The store: the verbs that move tasks, the same over every database.

Promises: what a verb acknowledges is durable; every change has its facts in the same transaction; every
write of a runner is fenced. Never: decides (the core does), never hands out SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final, Self, TypeVar

import msgspec

from holdfast.core.command import Complete, Expire, Order
from holdfast.core.decide import Decision, Refusal, Transition, decide
from holdfast.core.event import Event, Position
from holdfast.core.ids import Ids
from holdfast.core.task import RunId, Status, Task
from holdfast.errors import StoreUnavailable
from holdfast.store.claims import Claim, Claimed
from holdfast.store.handouts import Handouts
from holdfast.store.port import HELD_SECONDS, Dialect, Rank, RecordExists, RowHeld, WatchedFile
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import (
    admin,
    apply as apply_script,
    beats,
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
CARRIED_SECONDS: Final = 5.0
"""What a script has in a caller's transaction, waits for other transactions included. Most tasks may run for
longer, so a step that another run holds is an error which the handler sees."""
HELD_LEASE_SECONDS: Final = 1.0
"""When to look again at a lease that has ended, but whose task another transaction holds."""


class Swept(msgspec.Struct, frozen=True):
    """What was taken back from dead runners."""

    expired: list[Decision]
    next_at: float | None = None
    """When to look again: the next lease ends, or one has that could not be taken back now."""


class Store(Handouts):
    """The one store class; `driver` and `dialect` are what differs."""

    on_cut_short: Callable[[], None] = staticmethod(lambda: None)
    """Called when a transaction has left dependents to be settled: this process's sweeper, if it has one."""

    async def open(self) -> None:
        await self._driver.open()

    async def close(self) -> None:
        await self._driver.close()

    def reserved(self, rank: Rank) -> Self:
        """The same store for an engine, see `Driver.reserved`."""
        driver = self._driver.reserved(rank)
        if driver is self._driver:
            return self
        made = copy(self)
        made._driver = driver
        return made

    def holds_up(self, connection: object) -> bool:
        """Whether every write waits for the transaction that a caller has open here: with one writer."""
        return self._driver.holds_up(connection)

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

    # -- tasks ---------------------------------------------------------------------------------

    async def apply(
        self, orders: Sequence[Order], *, wait: bool = True, brief: bool = False
    ) -> list[Decision]:
        """Carries out orders; an answer for each, in their order. Without `wait`, a task that another
        transaction holds is refused with the code `held`; a wait that takes long ends with StoreBusy, a
        `brief` one soon."""
        now = self.now()
        try:
            applied = await self._write(
                lambda: apply_script.apply(
                    orders,
                    now=now,
                    batch=self._ids.record(now),
                    recorder=self._dialect,
                    wait=wait,
                    brief=brief,
                )
            )
        except RowHeld as error:
            raise _held_up(orders, error) from error
        if applied.is_cut_short:
            self.on_cut_short()
        return applied.decisions

    async def cascades(self) -> list[str]:
        """Parents that have ended or come back while dependents that are free now were not told yet."""
        return [row[0] for row in await self._one("cascades", limit=CASCADES_MAX)]

    async def held_cascades(self) -> list[tuple[str, str | None]]:
        """Once all else is done: where another transaction holds a child, or the parent (no child)."""
        if self.one_writer:
            return []
        return [(row[0], row[1]) for row in await self._one("held_cascades", limit=CASCADES_MAX)]

    async def settle(self, parent_id: str) -> int:
        """Tells the next dependents of such a parent; how much was done, 0 if another process does it."""
        now = self.now()
        return await self._write(
            lambda: apply_script.go_on(
                parent_id, now=now, batch=self._ids.record(now), recorder=self._dialect
            )
        )

    async def finish(
        self, ended: Sequence[tuple[Task, Order]], *, brief: bool = False
    ) -> list[Decision]:
        """Ends of claimed tasks. What completes and has nobody waiting is written in one statement;
        the rest, and whatever is not as the runner believes, goes the general way. What another transaction
        holds up is refused with the code `held`: its end is to be handed in again, with `finish_held`.
        `brief`: no long wait for what the tasks share."""
        now = self.now()
        plain: dict[str, int] = {}
        moves: list[Transition] = []
        for n, (task, order) in enumerate(ended):
            # One outcome of a task: that of another run of it goes the general way, in its turn.
            if type(order.command) is Complete and not task.limits and task.id not in plain:
                moved = decide(task, order, now)
                if type(moved) is Transition:
                    plain[task.id] = n
                    moves.append(moved)
        answers: dict[int, Decision] = {}
        if plain:
            batch = self._ids.record(now)
            try:
                written = await self._driver.write_one(
                    lambda: self._dialect.complete_plain(moves, now=now, batch=batch),
                    small=len(plain) <= SMALL,
                )
            except (RecordExists, RowHeld):
                # A row that is held fails the statement for all; the general way passes over it.
                written = set()
            if len(written) == len(ended):
                return list(moves)
            answers = {n: moves[i] for i, (id_, n) in enumerate(plain.items()) if id_ in written}
        if len(answers) < len(ended):
            rest = [n for n in range(len(ended)) if n not in answers]
            orders = [ended[n][1] for n in rest]
            try:
                decided = await self.apply(orders, wait=False, brief=brief)
            except RowHeld:
                # Not a task of these but what they share, e.g. a limit: which of them is to be found out.
                decided = [apply_script.held_by_another(order) for order in orders]
            answers.update(zip(rest, decided, strict=True))
            refused = [n for n in rest if type(answers[n]) is Refusal]
            if held := [n for n in refused if is_held(answers[n])]:
                # By a transaction of ours, as a rule: a claim that came too late for the task.
                with suppress(StoreUnavailable):
                    decided = await self.apply([ended[n][1] for n in held], brief=True)
                    answers.update(zip(held, decided, strict=True))
        return [answers[n] for n in range(len(ended))]

    async def finish_held(self, ended: Sequence[tuple[Task, Order]]) -> list[Decision]:
        """Ends that another transaction held up: those that it does not hold up any more are written, without
        a long wait for the others. RowHeld when it is not a task but what they share; then one at a time."""
        return await self.apply([order for _, order in ended], wait=False, brief=True)

    async def owned(self, node: str) -> list[tuple[str, int, float]]:
        """What the store believes that a node runs: (id, fence, started at)."""
        return await self._driver.read(lambda: self._dialect.owned(node))

    async def beat(
        self, node: str, info_json: str, held: Sequence[RunId], lease_seconds: float
    ) -> Kept:
        """A node's heartbeat in one go: its leases renewed, itself seen, what it owns told."""

        def script() -> Script[Kept]:
            # Judged when the database is reached: a machine that has just woken learns the time by then.
            now = self.now()
            return beats.beat(
                self._dialect, node, info_json, held=held, until=now + lease_seconds, now=now
            )

        kept = await self._driver.write_one(script)
        # Processes whose clocks were wrong for a while must not judge each other's leases.
        self._driver.adopt(kept.latest_at)
        if not kept.is_known:
            await self.run(
                lambda dialect, ids, now: nodes.join(
                    dialect, ids, now, node=node, info_json=info_json
                )
            )
        return kept

    async def sweep(
        self, limit: int = 100, *, at: float | None = None, without: Collection[RunId] = ()
    ) -> Swept:
        """Takes back what dead runners held `at` a moment (now); says when the next lease ends, if known."""
        ended, next_at = await self._ending(limit, at, without)
        if not ended:
            return Swept([], next_at)
        is_held_up = len(expired := await self.expire(ended)) < len(ended)
        return Swept(expired, self.now() + HELD_LEASE_SECONDS if is_held_up else None)

    async def expired(self, *, at: float, without: Collection[RunId] = ()) -> list[RunId]:
        """Some of the runs whose leases had ended `at` a moment."""
        return (await self._ending(100, at, without))[0]

    async def expire(self, runs: Sequence[RunId], *, brief: bool = False) -> list[Decision]:
        """Takes these runs back, unless their leases were renewed. Tasks that another transaction holds are
        left out. `brief`: RowHeld comes soon."""
        orders = [Order(run.task_id, Expire(), fence=run.fence) for run in runs]
        decided = await self.apply(orders, wait=False, brief=brief)
        return [each for each in decided if not is_held(each)]

    async def _ending(
        self, limit: int, at: float | None, without: Collection[RunId]
    ) -> tuple[list[RunId], float | None]:
        now = self.now() if at is None else at
        most = limit + len(without)
        rows = await self._driver.read(lambda: self._dialect.ending_leases(now=now, limit=most))
        ended = [RunId(row[0], row[1]) for row in rows if row[2] <= now]
        next_at = next((row[2] for row in rows if row[2] > now), None)
        # One more than the limit: the first may be held, and must not stand for the others.
        return [run for run in ended if run not in without][: limit + 1], next_at

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
        wait_seconds: float = HELD_SECONDS,
    ) -> T:
        """Runs a script that writes, in one transaction. `small`: it takes no longer than a commit does.
        `repeatable`: a second run of a committed script gives the same answer and changes nothing more, so
        it need not leave a mark of its commit; such a script draws no ids. `wait_seconds`: see
        `Driver.write`."""
        now = self.now()
        return await self._driver.write(
            lambda: make(self._dialect, self._ids, now),
            small=small,
            mark=None if repeatable else self._mark,
            wait_seconds=wait_seconds,
        )

    async def run_carried(
        self, connection: object, make: Callable[[Dialect, Ids, float], Script[T]]
    ) -> T:
        """The same within the caller's own transaction. The script is short."""
        now = self.now()
        return await self._driver.carry(
            connection,
            lambda: make(self._dialect, self._ids, now),
            limit_seconds=CARRIED_SECONDS,
        )

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


def is_held(decision: Decision) -> bool:
    """Whether nothing was decided, because another transaction holds the task at this moment."""
    return isinstance(decision, Refusal) and decision.code == apply_script.HELD


def _held_up(orders: Sequence[Order], error: RowHeld) -> RowHeld:
    names = sorted({order.task_id for order in orders})
    which = (
        f"task {names[0]}" if len(names) == 1 else f"one of {len(names)} tasks from {names[0]} on"
    )
    return RowHeld(
        f"another transaction is open and holds {which}, or a limit, e.g. that of a handler which has ended "
        f"a step in it (ctx.once with tx): nothing was changed; try again when it has "
        f"ended ({error.__cause__})"
    )


def _single(statement: str, **params: Any) -> Script[list[Any]]:
    return (yield call(statement, **params))


def _single_rows(statement: str, rows: list[tuple[Any, ...]], **params: Any) -> Script[list[Any]]:
    return (yield call_rows(statement, rows, **params))


__all__ = ["Claim", "Claimed", "Inserted", "Page", "Refusal", "Reset", "Store"]
