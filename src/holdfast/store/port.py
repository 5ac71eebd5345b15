"""The ports of a store: a driver runs scripts, a dialect has what differs between databases.

Code that all databases share is in `scripts/` and `store.py`. A new backend brings a driver, a dialect with
its shortcuts, statements of the same names, and migrations. The conformance suite tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from holdfast.core.alike import AlikeTasks
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Task
from holdfast.errors import StoreBusy
from holdfast.store.script import Rows, Script, StatementCall

T = TypeVar("T")
ROW_WAIT_SECONDS: Final = 2.0
"""How long a caller waits for a row that another transaction holds."""


class Rank(IntEnum):
    """The order in which writes get a connection."""

    LOOPS = 0
    """The loops of an engine: leases, outcomes, claims, sweeps."""
    RUNNERS = 1
    """Handlers: progress, checkpoints and steps of their tasks."""
    CALLERS = 2


class RowExists(Exception):
    """A row that should be new exists."""


class WatchedFile(Protocol):
    """A store in a file: how its processes detect the commits of others."""

    path: str

    def version(self) -> int:
        """Changes with every commit of another connection, and of another event loop of this process."""
        ...

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Calls the listener in the event loop after each commit of this store that changed rows."""
        ...


class RecordExists(RowExists):
    """The id of a feed record exists: of another process, or of an earlier run of the statement."""


class Raced(Exception):
    """A script found a row absent that another transaction has added meanwhile: `Store.run` runs it again."""


class RowHeld(StoreBusy):
    """Another transaction holds a row for longer than a statement waits. Nothing was changed. Verbs that know
    the row name it in the message."""


class Driver(Protocol):
    """Runs scripts against one database. A script may run again after a conflict, so it is passed as a
    function that makes it. Raises StoreUnavailable if the database cannot be reached.

    Writes that may be repeated after their commit (`write_one`, `call`, and `write` without a mark) draw no
    ids while they run: ids of tasks, records and orders are drawn before. A second run therefore meets the
    rows of the first one: it changes nothing, or fails with RowExists."""

    @property
    def file(self) -> WatchedFile | None:
        """The file that other processes may have open too; None for a server or a store in memory."""
        ...

    is_quick: bool
    """Whether a small write would run inline, without a turn of the event loop."""

    def reserved(self, rank: Rank) -> Driver:
        """The same database for an engine: connections are reserved for its loops and runners, which are
        served before callers."""
        ...

    def holds_up(self, connection: object) -> bool:
        """Whether every write of this store waits for the open transaction on this connection."""
        ...

    async def open(self) -> None:
        """Connects and migrates. SchemaMismatch if the schema is newer than this code."""
        ...

    async def close(self) -> None: ...

    async def warm_up(self, calls: Sequence[StatementCall]) -> None:
        """Prepares these statements. Changes nothing."""
        ...

    async def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
        wait_seconds: float = ROW_WAIT_SECONDS,
    ) -> T:
        """Runs a script in one transaction, durable when this returns. `small`: it takes no longer than a
        commit, so a driver may run it inline. `wait_seconds`: how long a caller's transaction is retried
        while another one holds a row; then RowHeld is raised.

        `mark` draws a number that no other transaction has. With it a driver finds out whether a transaction
        was committed although its COMMIT got no answer. If so, its answer is returned and it is not run
        again. None: a second run of a committed script returns the same answer and changes nothing."""
        ...

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        """Runs a script whose statements need no common transaction."""
        ...

    async def call(self, statement: StatementCall, *, small: bool = False) -> Rows:
        """Runs one statement that writes: `write_one` without a script."""
        ...

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Runs a script that only reads, or assigns offsets. Its statements need no common transaction."""
        ...

    async def read_dated(self, statement: StatementCall) -> Rows:
        """Runs one statement that only reads and whose rows end with `server_at`. A driver whose time is that
        of a server reads it there, so that the next call need not ask for it."""
        ...

    async def snapshot(self, make: Callable[[], Script[T]]) -> T:
        """Runs a script that only reads, at one moment."""
        ...

    async def run_in_tx(
        self,
        connection: object,
        make: Callable[[], Script[T]],
        *,
        may_clash: bool = False,
        limit_seconds: float | None = None,
    ) -> T:
        """Runs a script in the open transaction of a caller's connection, after a check that it leads to this
        database. `may_clash`: another transaction may insert the same key at the same time. `limit_seconds`:
        after this time RowHeld is raised, and the caller's transaction has failed. By default the settings of
        the caller's connection apply."""
        ...

    def now(self) -> float:
        """The store's time, which decides about leases. It never goes backwards and never stands still."""
        ...

    def adopt(self, at: float) -> None:
        """Moves the store's time forward to `at`, the time of another process, if it is behind."""
        ...


class Aside(NamedTuple):
    """The ids of tasks that a shortcut leaves to the general path of claims."""

    limited: list[str]
    """Tasks with limits."""
    fair: list[str]
    """Tasks of fair types, with and without limits. Others of their lanes may start in their place."""


NONE_ASIDE: Final = Aside([], [])


PreparedCall: TypeAlias = Callable[[str, str, float, int, str], StatementCall]
"""From id, payload, time, id of the record and hint to the insert of a task."""


class FastPaths(Protocol):
    """The shortcuts of a dialect: scripts of few statements. `insert_one` and `start_one` are one
    statement."""

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        """Inserts a plain task. RowExists if there is a row of its id."""
        ...

    def prepare_insert(self, task: Task) -> PreparedCall:
        """Makes the calls of `insert_one` for tasks that differ from this one, which is plain and has no
        delay, only in id, payload and moment."""
        ...

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        """Inserts plain tasks. Returns the ids that did not exist before."""
        ...

    def insert_alike(
        self, group: AlikeTasks, *, now: float, record_id: int, hint: str
    ) -> Script[set[str] | None]:
        """Inserts plain tasks, one statement for each part. A part may be on its way while the next one is
        made. Returns the ids that did not exist before. None: all."""
        ...

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        """Inserts a plain task that runs at once. Returns the statement, which writes nothing if another task
        is before it in line, and the started task. None if the dialect or the task does not allow it."""
        ...

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, Aside]]:
        """Claims tasks without limits, whose types are not fair. Also returns the others that were next in
        order."""
        ...

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        """Claims the first task in line. Claims nothing if it has limits or its type is fair."""
        ...

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        """Completes tasks without dependents and limits. Returns the ids that were written."""
        ...

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        """The frequent statements of a worker, with arguments that match no row."""
        ...


class Dialect(Protocol):
    """What differs between databases."""

    one_writer: bool
    """Transactions never overlap, so several verbs may share one."""
    cascade_batch: int
    """Edges to dependents that one transaction reads. The rest is left for the next one."""

    @property
    def fast(self) -> FastPaths:
        """The shortcuts."""
        ...

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]: ...

    def record_ref(self, record_id: int) -> Script[int]: ...

    def assign_offsets(self) -> Script[bool]:
        """Gives offsets to a batch of committed records. Returns whether none is left."""
        ...

    def update_counters(self) -> Script[bool]:
        """Adds a batch of numbered records to the counters. Returns whether none is left."""
        ...

    def prune_feed(self, *, before: float, limit: int) -> Script[int]:
        """Removes counted records, and records where the feed begins now. Returns how many."""
        ...

    def prune_tasks(self, *, before: float, dead_before: float, limit: int) -> Script[int]:
        """Removes tasks that ended before, and updates the counters. Returns how many. Executions of jobs
        stay: they are removed with their job."""
        ...

    def delete_tasks(self, ids: Sequence[str]) -> Script[list[str]]:
        """Removes those of the tasks that have ended, with what belongs to them, and updates the counters.
        Returns their ids."""
        ...

    def hint(self, text: str) -> Script[None]:
        """Sends a hint with the commit of this transaction. '' sends none."""
        ...

    def pick_aged(
        self, claim: ClaimRequest, *, now: float, ageing_seconds: float, below: Priority
    ) -> Script[list[Task]]:
        """Locks the tasks that have waited longest, of those less urgent than `below`."""
        ...

    def owned(self, node: str) -> Script[list[Any]]:
        """The runs of a node in the store: (id, fence, started at)."""
        ...

    def next_upkeep(self, *, now: float) -> Script[Any]:
        """The row of the statement of that name."""
        ...

    def ending_leases(self, *, now: float, limit: int) -> Script[list[Any]]:
        """Leases that have ended, or else the one that ends first: (id, fence, lease until). Of the rows that
        another transaction holds, only the first is returned."""
        ...
