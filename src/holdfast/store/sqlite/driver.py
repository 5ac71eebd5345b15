"""Runs scripts on SQLite: one writer thread with group commit, one reader thread beside it.

Promises: a write is committed and synced before it is acknowledged. Writes that wait together share a commit,
and a script that fails does not affect the others. Any event loop of the process may use the driver. It
closes when each loop that opened it has closed it or has ended. Never: blocks the event loop for longer than
a commit on a fast disk, unless `inline`, which is for virtual time.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Self, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.forks import follow
from holdfast.store.port import ROW_WAIT_SECONDS, Rank, RowExists
from holdfast.store.script import Rows, Script, StatementCall, one
from holdfast.store.sqlite import connection as sqlite, in_memory, in_tx
from holdfast.store.sqlite.fork_guard import ForkGuard
from holdfast.store.sqlite.loops import LoopCommits
from holdfast.store.sqlite.pending import Jobs, PendingScript, commit_group, deliver, next_job, read
from holdfast.store.store_clock import StoreClock

T = TypeVar("T")
W = TypeVar("W")
QUICK_SECONDS: Final = 0.0015
"""A commit that takes longer on average must not block the event loop. The way through the writer thread adds
about a sixth of this to the start of a task."""


class SqliteDriver:
    """See `holdfast.store.port.Driver`. An empty path is a database in memory."""

    def __init__(
        self, path: str, clock: Clock, *, inline: bool = False, create: bool = True
    ) -> None:
        self.path = path or ":memory:"
        self._clock = clock
        self._inline = inline
        self._create = create
        store_clock = StoreClock(clock.now, clock.monotonic)
        self.now = store_clock.now
        self.adopt = store_clock.adopt
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._jobs: Jobs = queue.SimpleQueue()
        self._reads: Jobs = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._loops: set[asyncio.AbstractEventLoop] = set()
        """The loops that opened the driver and have not closed it."""
        self._fork_guard = ForkGuard()
        self._writing = self._fork_guard.writing
        self._inherited: list[apsw.Connection] = []
        """Connections of the parent process that were in use during the fork."""
        self._commit_seconds = QUICK_SECONDS
        self.is_quick = False
        self._answering = False
        self._version = 0
        self._changes = 0
        self._commits = LoopCommits()
        follow(self)

    @property
    def file(self) -> Self | None:
        return None if self.path == ":memory:" or self._inline else self

    def version(self) -> int:
        """The data version of the writer connection, which does not count its own commits, plus the commits
        of other event loops of this process. While that connection is busy, the last value is returned."""
        if self._writer is not None and self._writing.acquire(blocking=False):
            try:
                rows = self._writer.execute("PRAGMA data_version").fetchall()
                self._version = int(str(rows[0][0]))
            finally:
                self._writing.release()
        return self._version + self._commits.elsewhere(asyncio.get_running_loop())

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Calls the listener in this event loop after each of its commits that changed rows."""
        self._commits.listen(asyncio.get_running_loop(), listener)

    def reserved(self, rank: Rank) -> Self:
        return self

    def holds_up(self, connection: object) -> bool:
        return in_tx.is_writing(connection)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._inline:
            self._open(loop)
        else:
            await _aside(self._open, loop)

    async def close(self) -> None:
        threads, connections = self._leave(asyncio.get_running_loop())
        for thread in threads:
            await _aside(thread.join)
        for connection in connections:
            connection.close()

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._fork_guard.opening:
            self._loops.add(loop)
            if self._writer is not None:
                return
            try:
                self._open_writer()
            except BaseException:
                self._loops.discard(loop)
                raise
            if not self._inline:
                self._start_threads()

    def _start_threads(self) -> None:
        assert self._writer is not None
        self._jobs, self._reads = queue.SimpleQueue(), queue.SimpleQueue()
        self._start("holdfast-sqlite-writer", self._write_loop, self._writer, self._jobs)
        if self._reader is not None:
            self._start("holdfast-sqlite-reader", self._read_loop, self._reader, self._reads)
        self._answering = True

    def _leave(
        self, loop: asyncio.AbstractEventLoop
    ) -> tuple[list[threading.Thread], list[apsw.Connection]]:
        """Removes the loop. Returns the threads and connections to close, or none while other loops use
        them."""
        with self._fork_guard.opening:
            ended = {other for other in self._loops if other is loop or other.is_closed()}
            self._loops -= ended
            self._commits.drop(ended)
            if self._loops:
                return [], []
            if self._answering:
                self._answering = False  # A script after the None would never be answered.
                for jobs in (self._jobs, self._reads):
                    jobs.put(None)
            return self._taken_out()

    def _taken_out(self) -> tuple[list[threading.Thread], list[apsw.Connection]]:
        threads, self._threads = self._threads, []
        connections = (self._reader, self._writer)
        self._reader = self._writer = None
        self._commits = LoopCommits()
        self._changes = 0
        return threads, [connection for connection in connections if connection is not None]

    # -- forks: a child gets a copy of SQLite's lock table, but not the locks themselves ---------------

    def before_fork(self) -> None:
        self._fork_guard.hold()

    def after_fork_in_parent(self) -> None:
        self._fork_guard.release()

    def start_over(self) -> None:
        """Closes the connections of the parent. Otherwise SQLite would count their locks as held by this
        process and not take them. No connection is in use, so closing them does not change the file."""
        _, connections = self._taken_out()
        if self._fork_guard.is_held:
            for connection in connections:
                connection.close()
        else:
            self._inherited = connections
        self._loops = set()
        self._answering = False
        self._fork_guard = ForkGuard()
        self._writing = self._fork_guard.writing

    async def warm_up(self, calls: Sequence[StatementCall]) -> None:
        """Does nothing: there is one connection with one cache of statements."""

    async def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
        wait_seconds: float = ROW_WAIT_SECONDS,
    ) -> T:
        """Ignores the mark: the answer of a commit to a file cannot be lost."""
        if self._inline:
            return self._write_inline(sqlite.run_alone, make)
        if small and self.is_quick and self._writing.acquire(blocking=False):
            try:
                return self._write_on_the_spot(sqlite.run_alone, make)
            except StoreBusy:
                pass  # Another process is writing. The writer thread can wait for it.
        return await self._submit(self._jobs, make)

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        try:
            return await self.write(make, small=small)
        except apsw.ConstraintError as error:
            raise RowExists from error

    async def call(self, statement: StatementCall, *, small: bool = False) -> Rows:
        if small and self.is_quick and self._writing.acquire(blocking=False):
            try:
                return self._write_on_the_spot(sqlite.execute_alone, statement)
            except apsw.ConstraintError as error:
                raise RowExists from error
            except StoreBusy:
                pass
        return await self.write_one(lambda: one(statement))

    async def read(self, make: Callable[[], Script[T]]) -> T:
        if self._inline:
            return self._write_inline(sqlite.run_alone, make)
        return await self._submit(self._jobs if self._reader is None else self._reads, make)

    async def read_dated(self, statement: StatementCall) -> Rows:
        """Takes no time from the rows: the store's time is that of the machine."""
        return await self.read(lambda: one(statement))

    async def snapshot(self, make: Callable[[], Script[T]]) -> T:
        return await self.read(make)  # A read is one transaction, so it sees one moment.

    async def run_in_tx(
        self,
        connection: object,
        make: Callable[[], Script[T]],
        *,
        may_clash: bool = False,
        limit_seconds: float | None = None,
    ) -> T:
        caller = in_tx.checked(connection)
        in_tx.check_file(caller, self.path)
        return in_tx.run(caller, make())

    async def _submit(self, jobs: Jobs, make: Callable[[], Script[T]]) -> T:
        if not self._answering:
            raise StoreUnavailable("the SQLite store is closed: open it first")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        jobs.put(PendingScript(make, future, loop))
        return await future

    def _start(self, name: str, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _open_writer(self) -> None:
        if self._inherited:
            raise StoreUnavailable(
                "this process was forked while another thread was writing to SQLite, whose locks are in "
                "an unknown state here: fork before the store is opened, or use multiprocessing's 'spawn'"
            )
        if not self._create:
            sqlite.check_present(self.path)
        kept = sqlite.STATEMENTS_KEPT_INLINE if self._inline else sqlite.STATEMENTS_KEPT
        writer = sqlite.connect(self.path, statements_kept=kept)
        try:
            if self.path == ":memory:":
                in_memory.create(writer)
            else:
                sqlite.migrate(writer)
                sqlite.end_copied_epoch(writer)
        except BaseException:
            writer.close()
            raise
        self._writer = writer
        if self.path != ":memory:" and not self._inline:
            self._reader = sqlite.connect(self.path, shared=True)

    def _write_inline(self, work: Callable[[apsw.Connection, W], T], what: W) -> T:
        """Runs work that is a transaction."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailable("the SQLite store is closed: open it first")
        try:
            return work(writer, what)
        except apsw.ConstraintError:
            sqlite.rollback(writer)
            raise
        except apsw.Error as error:
            sqlite.rollback(writer)
            raise sqlite.translated(error, "SQLite refused a transaction") from error
        except BaseException:
            sqlite.rollback(writer)
            raise

    def _write_on_the_spot(self, work: Callable[[apsw.Connection, W], T], what: W) -> T:
        """Runs a small write on a fast disk in the thread of the event loop: a switch to the writer thread
        and back would take longer. Raises StoreBusy at once if another process writes. The caller holds
        `_writing`, which is released here."""
        started_at = self._clock.monotonic()
        if self._writer is not None:
            self._writer.set_busy_timeout(0)
        try:
            return self._write_inline(work, what)
        finally:
            if self._writer is not None:
                self._writer.set_busy_timeout(sqlite.BUSY_MILLISECONDS)
            self._took(started_at)
            listener = self._counted() if self._commits.listeners else None
            self._writing.release()
            if listener is not None:
                listener()

    def _counted(self) -> Callable[[], None] | None:
        """Counts a commit of this event loop if it changed rows. Returns the listener to call then."""
        if not self._has_changed():
            return None
        loop, listeners = asyncio.get_running_loop(), self._commits.listeners
        self._commits.count((loop,))
        return listeners.get(loop)

    def _took(self, started_at: float) -> None:
        """Updates the moving average of the duration of a commit."""
        seconds = self._clock.monotonic() - started_at
        self._commit_seconds += 0.2 * (seconds - self._commit_seconds)
        self.is_quick = self._commit_seconds < QUICK_SECONDS

    def _write_loop(self, writer: apsw.Connection, jobs: Jobs) -> None:
        writing, following = self._writing, partial(next_job, jobs)
        while (first := jobs.get()) is not None:
            if first.is_abandoned:
                continue
            with writing:
                started_at = self._clock.monotonic()
                answers = commit_group(writer, first, following)
                if len(answers) == 1:
                    self._took(started_at)
                has_changed = bool(self._commits.listeners) and self._has_changed()
                if has_changed:
                    self._commits.count({answer.job.loop for answer in answers})
            deliver(answers, self._commits.listeners if has_changed else {})

    def _has_changed(self) -> bool:
        """Whether rows were written since the last call. The caller holds `_writing`."""
        before, self._changes = self._changes, self._writer.total_changes() if self._writer else 0
        return before != self._changes

    def _read_loop(self, reader: apsw.Connection, jobs: Jobs) -> None:
        reading = self._fork_guard.reading
        while (job := jobs.get()) is not None:
            if job.is_abandoned:
                continue
            with reading:
                answer = read(reader, job)
            deliver([answer], {})


async def _aside(function: Callable[..., None], *args: object) -> None:
    """Calls the function in a separate thread: handlers that do not return may occupy all threads of the
    event loop's executor."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="holdfast-sqlite")
    try:
        await asyncio.get_running_loop().run_in_executor(executor, function, *args)
    except asyncio.CancelledError:
        executor.shutdown(wait=False)
        raise
    except BaseException:
        executor.shutdown()
        raise
    executor.shutdown()  # The thread is idle and ends at once.
