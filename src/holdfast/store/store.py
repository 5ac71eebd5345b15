"""The store: the verbs that move tasks, the same on every database. Everything else is in its parts.

Promises: what a verb acknowledges is durable; every change has its events in the same transaction; every
write of a runner is fenced. Never: decides (the core does), never exposes SQL or names of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Self, TypeVar

from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.command import Instruction
from holdfast.core.decide import Ruling
from holdfast.core.group import NewGroup
from holdfast.core.ids import Ids
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.retention import HubRetention
from holdfast.core.submit import Submission, like
from holdfast.core.task import Priority, RunId, Task
from holdfast.errors import StoreBusy
from holdfast.store import claims, inserts
from holdfast.store.access import Access
from holdfast.store.backlog import BacklogStore
from holdfast.store.beside import Beside
from holdfast.store.by_id import ClaimsById
from holdfast.store.cascades import CascadeStore
from holdfast.store.decisions import DecisionStore
from holdfast.store.fast import insert as fast_insert
from holdfast.store.fast.insert import PreparedInsert
from holdfast.store.fast.lone_caller import LoneCaller
from holdfast.store.feed import FeedStore
from holdfast.store.groups import GroupStore
from holdfast.store.interventions import InterventionStore
from holdfast.store.links import LinkStore
from holdfast.store.port import ROW_WAIT_SECONDS, Dialect, Driver, Raced, Rank, RowHeld, WatchedFile
from holdfast.store.reads import Reads
from holdfast.store.runs import (
    HELD_LEASE_SECONDS,
    RunStore,
    Swept,
    ending,
    finish,
    held_up,
    is_held,
)
from holdfast.store.schedules import ScheduleStore
from holdfast.store.script import Guard, Script, guarded
from holdfast.store.scripts import (
    admin,
    apply as apply_script,
    audit,
    feed,
    heartbeat as beats,
    nodes,
    retention,
)
from holdfast.store.scripts.edges import Linked
from holdfast.store.scripts.feed import Reset
from holdfast.store.scripts.heartbeat import HeartbeatAnswer
from holdfast.store.scripts.insert import Inserted
from holdfast.store.upkeep import Upkeep
from holdfast.store.watch import StoreWatch

T = TypeVar("T")


RACES_MAX: Final = 5
"""Runs of a script that raises `Raced`."""
IN_TX_SECONDS: Final = 5.0
"""Time limit of a script in a caller's transaction, including waits for other transactions. Most tasks may
run longer than this. So a step of `ctx.once` whose entry another run holds raises an error in the handler
before the task's lease is in danger."""


class Store:
    """The only store class. Databases differ in `driver` and `dialect`."""

    def __init__(self, driver: Driver, dialect: Dialect, ids: Ids) -> None:
        self._driver = driver
        self._dialect = dialect
        self._ids = ids
        self._access = Access(driver, dialect, ids)
        self._lone = LoneCaller()
        self.reads = Reads(self._access)
        self.feed = FeedStore(self._access)
        self.backlog = BacklogStore(self._access)
        self.runs = RunStore(self._access, self.apply)
        self.links = LinkStore(self._access)
        self.cascades = CascadeStore(self._access)
        self.schedules = ScheduleStore(self._access)
        self.upkeep = Upkeep(self._access)
        self.by_id = ClaimsById(self._access, self.runs.expire)
        self.decisions = DecisionStore(self._access)
        self.interventions = InterventionStore(self._access)
        self.groups = GroupStore(self._access)
        self.now = driver.now
        """The store's time, which decides whether a lease has ended."""
        self.one_writer = dialect.one_writer

    async def open(self) -> None:
        await self._driver.open()

    async def close(self) -> None:
        await self._driver.close()

    async def warm_up(self, claim: ClaimRequest) -> None:
        """Prepares the statements of a worker before the first task arrives: runs them without effect."""
        await self._driver.warm_up(self._dialect.fast.rehearse(claim, now=self.now()))

    def reserved(self, rank: Rank) -> Self:
        """The same store with the connections of an engine, see `Driver.reserved`."""
        driver = self._driver.reserved(rank)
        if driver is self._driver:
            return self
        store = type(self)(driver, self._dialect, self._ids)
        store._access.watch = self._access.watch
        return store

    def holds_up(self, connection: object) -> bool:
        """Whether every write waits for the open transaction on this connection, as with one writer."""
        return self._driver.holds_up(connection)

    @property
    def watch(self) -> StoreWatch:
        """Who is called after steps of interventions and ends of decisions."""
        return self._access.watch

    @property
    def ids(self) -> Ids:
        """The source of ids."""
        return self._ids

    @property
    def file(self) -> WatchedFile | None:
        """The file that other processes may have open. None for a server or a store in memory."""
        return self._driver.file

    @property
    def is_quick(self) -> bool:
        """Whether small writes run inline."""
        return self._driver.is_quick

    # -- new tasks -----------------------------------------------------------------------------

    async def insert(
        self,
        group: Sequence[Submission],
        *,
        tx: object = None,
        hint: str = "",
        beside: Beside | None = None,
        into: NewGroup | None = None,
    ) -> list[Inserted]:
        """Inserts all tasks of a caller, or none. `hint` is sent with the commit. `beside` writes further
        rows in the same transaction, not with `tx`. `tx`: a connection with an open transaction of the
        caller. The insert then runs in it and locks no row that others need; after its commit `links.link`
        is due if any task has dependencies. `into`: the task group that these tasks make."""
        if tx is not None:
            return await inserts.insert_in_tx(self._access, tx, group, hint=hint, into=into)
        if beside is None and into is None:
            inserted = await fast_insert.insert(self._access, self._lone, group, hint=hint)
            if inserted:
                return inserted
        return await inserts.insert(
            self._access, self.links, group, hint=hint, beside=beside, into=into
        )

    def prepare_insert(self, model: Submission) -> PreparedInsert:
        """Prepares what tasks like the model share. Each call of the answer inserts one: a plain task that
        differs from the model, which has no delay and no tags, only in id, payload and moment."""

        async def general(task_id: str, payload_json: str, now: float, hint: str) -> Inserted:
            group = [like(model, payload_json, task_id, now)]
            return (await inserts.insert(self._access, self.links, group, hint=hint))[0]

        return fast_insert.prepare_insert(self._access, self._lone, model.task, general)

    async def insert_and_claim(
        self, group: Sequence[Submission], claim: ClaimRequest
    ) -> tuple[list[Inserted], Claimed]:
        """Inserts tasks and, if all are plain, claims the next tasks in the same commit. Otherwise no task is
        claimed."""
        started = await fast_insert.insert_and_claim(self._access, group, claim)
        return started or (await inserts.insert(self._access, self.links, group), Claimed([]))

    # -- claims --------------------------------------------------------------------------------

    async def claim(self, claim: ClaimRequest) -> Claimed:
        """Claims the next tasks in order, under new fences, at the time when the database is reached. Tasks
        whose limit another transaction holds are skipped, so tasks of other types do not wait for them. With
        `expected` 1 and `limit` 1, a task with limits is not claimed."""
        return await claims.claim(self._access, claim)

    async def claim_aged(
        self,
        claim: ClaimRequest,
        ageing_seconds: float = AGEING_SECONDS,
        *,
        below: Priority = Priority.CRITICAL,
    ) -> Claimed:
        """Claims the tasks that have waited longest, of those less urgent than `below`."""
        return await claims.claim_aged(self._access, claim, ageing_seconds, below=below)

    # -- tasks ---------------------------------------------------------------------------------

    async def apply(
        self,
        instructions: Sequence[Instruction],
        *,
        wait: bool = True,
        brief: bool = False,
        beside: Beside | None = None,
    ) -> list[Ruling]:
        """Applies the instructions and returns a ruling for each, in order. Without `wait`, a task that
        another transaction holds is refused with the code `held`. A long wait ends with StoreBusy, a `brief`
        one earlier. `beside` writes further rows in the same transaction."""
        now = self.now()
        try:
            applied = await self._access.write(
                lambda: apply_script.apply(
                    instructions,
                    now=now,
                    record_id=self._ids.record(now),
                    recorder=self._dialect,
                    wait=wait,
                    brief=brief,
                    beside=beside,
                )
            )
        except RowHeld as error:
            raise held_up(instructions, error) from error
        if applied.is_cut_short:
            self.cascades.on_cut_short()
        return applied.rulings

    async def finish(
        self, ended: Sequence[tuple[Task, Instruction]], *, brief: bool = False
    ) -> list[Ruling]:
        """Writes the outcomes of claimed tasks. An outcome that another transaction blocks is refused with
        the code `held`; retry it with `finish_held`. `brief`: no long wait for rows that the tasks share."""
        return await finish(self._access, self.apply, ended, brief=brief)

    async def finish_held(self, ended: Sequence[tuple[Task, Instruction]]) -> list[Ruling]:
        """Writes the held outcomes whose rows are free now, without a long wait for the others. RowHeld if
        the tasks share a row that is held; then call it for one task at a time."""
        return await self.apply([instruction for _, instruction in ended], wait=False, brief=True)

    async def heartbeat(
        self,
        node: str,
        info_json: str,
        runs: Sequence[RunId],
        lease_seconds: float,
        *,
        guard: Guard | None = None,
    ) -> HeartbeatAnswer:
        """Renews the leases of a node, records that it is live, and returns what it owns. With a `guard` all
        is one transaction."""

        def script() -> Script[HeartbeatAnswer]:
            # The time when the database is reached: a machine that has just woken knows it by then.
            now = self.now()
            return beats.heartbeat(
                self._dialect, node, info_json, runs=runs, until=now + lease_seconds, now=now
            )

        if guard is None:
            answer = await self._driver.write_one(script)
        else:
            answer = await self._driver.write(lambda: guarded(guard, script()))
        # Processes whose clocks were wrong for a while must not expire each other's leases.
        self._driver.adopt(answer.latest_at)
        if not answer.is_known:
            await self.run(
                lambda dialect, ids, now: nodes.join(
                    dialect, ids, now, node=node, info_json=info_json
                )
            )
        return answer

    async def sweep(
        self, limit: int = 100, *, at: float | None = None, without: Collection[RunId] = ()
    ) -> Swept:
        """Expires leases that have ended, or had ended `at` a time. Also returns when the next lease ends, if
        known."""
        ended, next_at = await ending(self._access, limit, at, without)
        if not ended:
            return Swept([], next_at)
        expired = await self.runs.expire(ended)
        is_held_up = len(expired) < len(ended)
        return Swept(expired, self.now() + HELD_LEASE_SECONDS if is_held_up else None)

    # -- scripts of locks, ledger and orders -----------------------------------------------------

    async def run(
        self,
        make: Callable[[Dialect, Ids, float], Script[T]],
        *,
        small: bool = False,
        repeatable: bool = False,
        wait_seconds: float = ROW_WAIT_SECONDS,
    ) -> T:
        """Runs a script that writes, in one transaction; again if it raises `Raced`. `small`: it takes no
        longer than a commit. `repeatable`: a second run of a committed script returns the same answer and
        changes nothing, so the commit needs no mark; such a script draws no ids. `wait_seconds`: see
        `Driver.write`. The time is taken when the transaction begins: before that, the driver reads a clock
        that it has not read for a while, and a process that was idle judges no lease by its own drift."""
        for _ in range(RACES_MAX):
            try:
                return await self._driver.write(
                    lambda: make(self._dialect, self._ids, self.now()),
                    small=small,
                    mark=None if repeatable else self._access.mark,
                    wait_seconds=wait_seconds,
                )
            except Raced:
                continue
        raise StoreBusy("other processes add rows of the same names: try again in a moment")

    async def run_in_tx(
        self, connection: object, make: Callable[[Dialect, Ids, float], Script[T]]
    ) -> T:
        """Runs a short script in the caller's transaction. The time is taken when it begins, as by `run`."""
        return await self._driver.run_in_tx(
            connection,
            lambda: make(self._dialect, self._ids, self.now()),
            limit_seconds=IN_TX_SECONDS,
        )

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Runs a script that only reads. Parts without scripts use `reads`."""
        return await self._driver.read(make)

    async def prune(
        self,
        *,
        before: float,
        dead_before: float,
        feed_before: float,
        conflicts_before: float | None = None,
        keep: HubRetention | None = None,
        limit: int = 1000,
    ) -> int:
        """Removes tasks and events that retention no longer covers, and what lies beside them. Returns how
        many rows."""
        keep = keep or HubRetention()
        await self.run(
            partial(retention.prune_named, before=before, dead_before=dead_before, limit=limit)
        )
        prune_output = partial(
            retention.prune_output, before=before, dead_before=dead_before, limit=limit
        )
        while await self._driver.write_one(prune_output):
            pass
        old_output = self.now() - keep.output_seconds
        while await self._driver.write_one(lambda: retention.forget_output(before=old_output)):
            pass
        gone = await self._driver.write_one(
            lambda: admin.prune_tasks(
                self._dialect, before=before, dead_before=dead_before, limit=limit
            )
        )
        gone += await self.run(partial(retention.prune_kept, limit=limit))
        gone += await self.run(
            lambda _dialect, _ids, now: retention.forget(
                now, limit, keep=keep, conflicts_before=conflicts_before
            )
        )
        if keep.audit_seconds is not None:
            before_audit = self.now() - keep.audit_seconds
            gone += await self.run(lambda *_: audit.prune(before_audit, limit))
        return gone + await self._driver.write_one(
            lambda: feed.prune(self._dialect, before=feed_before, limit=limit)
        )


__all__ = [
    "ClaimRequest", "Claimed", "Inserted", "Linked", "PreparedInsert", "Reset", "Store", "Swept",
    "is_held",
]  # fmt: skip
