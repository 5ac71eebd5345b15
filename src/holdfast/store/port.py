"""The seams of a store: a driver runs scripts, a dialect knows what its database does in its own way.

Everything that both stores do alike is in `scripts/` and `store.py`. A new backend brings a driver, a
dialect, statements under the same names and migrations; the conformance suite says whether it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Task
from holdfast.errors import StoreBusy
from holdfast.store.script import Rows, Script, StatementCall

T = TypeVar("T")
HELD_SECONDS: Final = 2.0
"""How long a caller waits for a row that another open transaction holds."""


class Rank(IntEnum):
    """Who a write is for, the first in line first."""

    LOOPS = 0
    """Those of an engine: leases, ends of tasks, claims, sweeps."""
    RUNNERS = 1
    """Handlers, about their own tasks: progress, checkpoints, steps."""
    CALLERS = 2


class RowExists(Exception):
    """A row that was to be new is there already."""


class WatchedFile(Protocol):
    """A store that is a file: how its processes notice each other."""

    path: str

    def version(self) -> int:
        """Changes with every commit of another connection, and of another event loop of this process."""
        ...

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Calls back in the event loop after each commit of this store that changed something."""
        ...


class RecordExists(RowExists):
    """The id of a feed record is taken: by another process, or by an earlier run of the same statement."""


class RowHeld(StoreBusy):
    """Another open transaction holds a row that a statement needs, for longer than it waits. Nothing was
    changed. Verbs that know which row it is say so."""


class Driver(Protocol):
    """Runs scripts against one database. A script may be run again after a conflict, so it comes as a
    function that makes it. Raises StoreUnavailable when the database cannot be reached.

    What may be repeated after it was committed (`write_one`, `call`, and `write` without a mark) draws
    nothing that names a row while it runs: ids of tasks, records and orders are drawn before. So a second
    run meets the rows of the first one: it changes nothing more, or fails with RowExists."""

    @property
    def file(self) -> WatchedFile | None:
        """The file that other processes may have open too; None for a server or a store in memory."""
        ...

    is_quick: bool
    """Whether a small write would be done on the spot, without a turn of the event loop."""

    def reserved(self, rank: Rank) -> Driver:
        """The same database for an engine: callers leave its loops and its runners the connections that they
        need, and are served after them."""
        ...

    def holds_up(self, connection: object) -> bool:
        """Whether every write of this store waits for the transaction that a caller has open here."""
        ...

    async def open(self) -> None:
        """Connects and migrates; SchemaMismatch when the schema is newer than this code."""
        ...

    async def close(self) -> None: ...

    async def warm_up(self, calls: Sequence[StatementCall]) -> None:
        """Makes ready what these statements will need, and changes nothing."""
        ...

    async def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
        wait_seconds: float = HELD_SECONDS,
    ) -> T:
        """In one transaction, durable when this returns. `small` promises that it takes no longer than
        a commit does, so that a driver may do it on the spot. `wait_seconds`: for how long a caller's
        transaction is run again while another one holds a row that it needs; then RowHeld is raised.

        `mark` draws a number that no other transaction has. By it a driver finds out whether a transaction
        was committed whose COMMIT was not answered: then its answer is returned, and it is not run again.
        None promises that a second run of a committed script gives the same answer and changes nothing
        more."""
        ...

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        """A script whose statements may each stand alone: no transaction need be around them."""
        ...

    async def call(self, wanted: StatementCall, *, small: bool = False) -> Rows:
        """One statement that writes and stands alone, by the shortest way: `write_one` for those who need
        no script."""
        ...

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """A script that only reads, or numbers the feed; its statements may each stand alone."""
        ...

    async def snapshot(self, make: Callable[[], Script[T]]) -> T:
        """A script that only reads, all of it at one moment."""
        ...

    async def run_in_tx(
        self,
        connection: object,
        make: Callable[[], Script[T]],
        *,
        may_clash: bool = False,
        limit_seconds: float | None = None,
    ) -> T:
        """Within the transaction that a caller has open on a connection of its own, which is proved to lead
        to this very database. `may_clash`: another transaction may bring the same key at the same time.
        `limit_seconds`: after these RowHeld is raised, and the caller's transaction has failed. The default
        leaves limits to the settings of the caller's connection."""
        ...

    def now(self) -> float:
        """The store's time, which judges leases: it never goes back and never stands still."""
        ...

    def adopt(self, at: float) -> None:
        """Another process of this store says that it is `at`: the store's time follows when it is behind."""
        ...


class FastPaths(Protocol):
    """The shortcuts of a dialect: scripts of few statements. Those of `insert_one` and `start_one` are single
    ones."""

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        """A plain task. RowExists when there is such a row."""
        ...

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        """Plain tasks; the ids that were not there before."""
        ...

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        """Inserts a plain task as one that runs: the statement, which writes nothing when another task is
        before it in line, and the task as it is then. None where there is no such way."""
        ...

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, list[str]]]:
        """Takes what no limit counts; also the ids of tasks under limits that were next in order."""
        ...

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        """Takes the first in line; nothing if a limit counts it."""
        ...

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        """Completions without dependents or limits; the ids that were written."""
        ...

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        """The statements that a worker repeats all day, with arguments that touch no row."""
        ...


class Dialect(Protocol):
    """What a database does in a way of its own."""

    one_writer: bool
    """Transactions never overlap, so that several verbs may as well share one."""
    cascade_batch: int
    """Edges to dependents that one transaction looks at; the rest is left for the next one."""

    @property
    def fast(self) -> FastPaths:
        """Its shortcuts."""
        ...

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]: ...

    def record_ref(self, record_id: int) -> Script[int]: ...

    def assign_offsets(self) -> Script[bool]:
        """Gives offsets to a batch of what has been committed; whether nothing is left."""
        ...

    def update_counters(self) -> Script[bool]:
        """Adds what a batch of the numbered records says to the counters; whether nothing is left."""
        ...

    def prune_feed(self, *, before: float, limit: int) -> Script[int]:
        """Forgets counted records, and says from where on the feed is whole; how many went."""
        ...

    def prune_tasks(self, *, before: float, dead_before: float, limit: int) -> Script[int]:
        """Forgets tasks that ended before, and counts them off; how many went."""
        ...

    def hint(self, text: str) -> Script[None]:
        """Wakes whoever listens, once this transaction is committed; '' does nothing."""
        ...

    def pick_aged(
        self, claim: ClaimRequest, *, now: float, ageing_seconds: float, below: Priority
    ) -> Script[list[Task]]:
        """Locks the tasks that have waited longest, of those less urgent than `below`."""
        ...

    def owned(self, node: str) -> Script[list[Any]]:
        """What the store believes that a node runs: (id, fence, started at)."""
        ...

    def ending_leases(self, *, now: float, limit: int) -> Script[list[Any]]:
        """Leases that have ended, or else the one that ends first: (id, fence, lease until). Of those that
        another transaction holds, only the very first is given."""
        ...
