"""Runs scripts on SQLite: one writer thread with group commit, one reader thread beside it.

Promises: a write is committed and synced before its caller hears yes; writes that wait together commit
together; a script that fails takes nothing of its neighbours with it. Never: holds up the event loop for
longer than a quick disk's commit, unless `inline`, which is for virtual time.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

import apsw

from holdfast.clock import Clock
from holdfast.errors import InvalidInput, StoreBusy, StoreUnavailable
from holdfast.store.port import RowExists
from holdfast.store.script import Call, Rows, Script, one
from holdfast.store.sqlite import connection as sqlite
from holdfast.store.steady import Steady

T = TypeVar("T")
QUICK_SECONDS: Final = 0.001
"""A commit that takes longer on average must not hold up the event loop."""
GROUP_MAX: Final = 64
"""Writes that one commit may carry."""


class Job(NamedTuple):
    """A script that waits for its thread."""

    make: Callable[[], Script[Any]]
    future: asyncio.Future[Any] | None
    loop: asyncio.AbstractEventLoop | None


class Answer(NamedTuple):
    job: Job
    value: Any
    error: BaseException | None


class SqliteDriver:
    """See `holdfast.store.port.Driver`. An empty path is a database in memory."""

    def __init__(self, path: str, clock: Clock, *, inline: bool = False) -> None:
        self.path = path or ":memory:"
        self._clock = clock
        self._inline = inline
        steady = Steady(clock.now, clock.monotonic)
        self.now = steady.now
        self.adopt = steady.adopt
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._writing = threading.Lock()
        self._commit_seconds = QUICK_SECONDS
        self.is_quick = False
        self._answering = False
        self._version = 0
        self._changes = 0
        self._committed: Callable[[], None] | None = None

    @property
    def file(self) -> Self | None:
        return None if self.path == ":memory:" or self._inline else self

    def version(self) -> int:
        """Read on the writing connection, whose own commits do not count: a process does not wake itself.
        While that connection is busy, the last answer."""
        if self._writer is not None and self._writing.acquire(blocking=False):
            try:
                found = self._writer.execute("PRAGMA data_version").fetchall()
                self._version = int(str(found[0][0]))
            finally:
                self._writing.release()
        return self._version

    def on_commit(self, listener: Callable[[], None]) -> None:
        self._committed = listener

    async def open(self) -> None:
        if self._inline:
            self._open_writer()
            return
        await asyncio.to_thread(self._open_writer)
        self._start("holdfast-sqlite-writer", self._write_loop)
        if self._reader is not None:
            self._start("holdfast-sqlite-reader", self._read_loop)
        self._answering = True

    async def close(self) -> None:
        if self._answering:
            self._answering = False  # Whoever comes behind the last job would wait for ever.
            for jobs in (self._jobs, self._reads):
                jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._threads.clear()
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    async def warm_up(self, calls: Sequence[Call]) -> None:
        """One connection, one cache of statements: nothing is worth the while."""

    async def write(
        self,
        make: Callable[[], Script[T]],
        *,
        small: bool = False,
        mark: Callable[[], int] | None = None,
    ) -> T:
        """No answer can be lost on its way from a file, so the mark is not needed."""
        if self._inline:
            return self._write_inline(lambda writer: sqlite.run(writer, make()))
        if small and self.is_quick and self._writing.acquire(blocking=False):
            try:
                return self._write_on_the_spot(lambda writer: sqlite.run(writer, make()))
            except StoreBusy:
                pass  # Another process is writing: the writer thread can wait for it.
        return await self._submit(self._jobs, make)

    async def write_one(self, make: Callable[[], Script[T]], *, small: bool = False) -> T:
        try:
            return await self.write(make, small=small)
        except apsw.ConstraintError as error:
            raise RowExists from error

    async def call(self, wanted: Call, *, small: bool = False) -> Rows:
        if small and self.is_quick and self._writing.acquire(blocking=False):
            try:
                return self._write_on_the_spot(lambda writer: sqlite.execute(writer, wanted))
            except apsw.ConstraintError as error:
                raise RowExists from error
            except StoreBusy:
                pass
        return await self.write_one(lambda: one(wanted))

    async def read(self, make: Callable[[], Script[T]]) -> T:
        if self._inline:
            return self._write_inline(lambda writer: sqlite.run(writer, make()))
        return await self._submit(self._jobs if self._reader is None else self._reads, make)

    async def carry(self, connection: object, make: Callable[[], Script[T]]) -> T:
        if isinstance(connection, apsw.Connection):
            if not connection.in_transaction:
                raise InvalidInput(
                    "the connection has no open transaction: use `with connection:` or BEGIN IMMEDIATE"
                )
            return sqlite.run(connection, make())
        if isinstance(connection, sqlite3.Connection):
            raise InvalidInput(
                "a connection of the standard library's sqlite3 cannot carry the enqueue: its own copy "
                "of SQLite does not see this one's locks within a process, and two that write at once "
                "destroy the file; open the file with apsw.Connection for your transaction"
            )
        raise InvalidInput(
            f"a {type(connection).__name__} cannot carry the enqueue: "
            "pass the apsw connection whose transaction is open on this very file"
        )

    async def _submit(
        self, jobs: queue.SimpleQueue[Job | None], make: Callable[[], Script[T]]
    ) -> T:
        if not self._answering:
            raise StoreUnavailable("the SQLite store is closed: open it first")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        jobs.put(Job(make, future, loop))
        return await future

    def _start(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _open_writer(self) -> None:
        writer = sqlite.connect(self.path)
        try:
            sqlite.migrate(writer)
        except BaseException:
            writer.close()
            raise
        self._writer = writer
        if self.path != ":memory:" and not self._inline:
            self._reader = sqlite.connect(self.path, shared=True)

    def _write_inline(self, work: Callable[[apsw.Connection], T]) -> T:
        writer = self._writer
        if writer is None:
            raise StoreUnavailable("the SQLite store is closed: open it first")
        try:
            writer.execute("BEGIN IMMEDIATE")
            value = work(writer)
            writer.execute("COMMIT")
        except apsw.ConstraintError:
            sqlite.rollback(writer)
            raise
        except apsw.Error as error:
            sqlite.rollback(writer)
            raise sqlite.translated(error, "SQLite refused a transaction") from error
        except BaseException:
            sqlite.rollback(writer)
            raise
        return value

    def _write_on_the_spot(self, work: Callable[[apsw.Connection], T]) -> T:
        """A small write on a quick disk, in the event loop's own thread: the way to the writer and back
        would take longer. StoreBusy at once when another process is writing. For whoever holds `_writing`,
        which is given back."""
        begun = self._clock.monotonic()
        if self._writer is not None:
            self._writer.set_busy_timeout(0)
        try:
            return self._write_inline(work)
        finally:
            if self._writer is not None:
                self._writer.set_busy_timeout(sqlite.BUSY_MILLISECONDS)
            self._took(begun)
            has_changed = self._has_changed()
            self._writing.release()
            if has_changed and self._committed is not None:
                self._committed()

    def _took(self, begun: float) -> None:
        took = self._clock.monotonic() - begun
        self._commit_seconds += 0.2 * (took - self._commit_seconds)
        self.is_quick = self._commit_seconds < QUICK_SECONDS

    def _write_loop(self) -> None:
        assert self._writer is not None
        while (first := self._jobs.get()) is not None:
            with self._writing:
                begun = self._clock.monotonic()
                answers = _commit_group(self._writer, first, self._next_job)
                if len(answers) == 1:
                    self._took(begun)
                then = self._committed if self._has_changed() else None
            _deliver(answers, then)

    def _has_changed(self) -> bool:
        """Whether rows were written since this was asked last. Only with `_writing` held."""
        before, self._changes = self._changes, self._writer.total_changes() if self._writer else 0
        return before != self._changes

    def _next_job(self) -> Job | None:
        """Another write that waits already, if any."""
        try:
            job = self._jobs.get_nowait()
        except queue.Empty:
            return None
        if job is None:
            self._jobs.put(None)
        return job

    def _read_loop(self) -> None:
        assert self._reader is not None
        while (job := self._reads.get()) is not None:
            _deliver([_read(self._reader, job)], None)


def _commit_group(
    writer: apsw.Connection, first: Job, next_job: Callable[[], Job | None]
) -> list[Answer]:
    """Runs what waits in one transaction, each script within a savepoint of its own. Whatever comes in
    while others run still joins: a claim that follows an enqueue shares its commit."""
    group = [first]
    answers: list[Answer] = []
    try:
        writer.execute("BEGIN IMMEDIATE")
        for job in group:
            if not writer.in_transaction:
                writer.execute("BEGIN IMMEDIATE")
            answers.append(_run_job(writer, job, first=job is first))
            if len(group) < GROUP_MAX and (following := next_job()) is not None:
                group.append(following)
        if writer.in_transaction:
            writer.execute("COMMIT")
    except Exception as error:
        sqlite.rollback(writer)
        failure = error
        if isinstance(error, apsw.Error):
            failure = sqlite.translated(error, "SQLite refused a transaction")
        return [Answer(job, None, failure) for job in group]
    return answers


def _run_job(writer: apsw.Connection, job: Job, *, first: bool) -> Answer:
    """Alone in its transaction so far, a script that fails rolls that back; later ones have a savepoint."""
    if not first:
        writer.execute("SAVEPOINT one")
    try:
        value = sqlite.run(writer, job.make())
        if not first:
            writer.execute("RELEASE one")
        return Answer(job, value, None)
    except Exception as error:
        if first:
            sqlite.rollback(writer)
        elif not writer.in_transaction:
            # The whole transaction is gone (disk full, I/O error): nobody may hear yes.
            raise
        else:
            writer.execute("ROLLBACK TO one")
            writer.execute("RELEASE one")
        if isinstance(error, apsw.Error) and not isinstance(error, apsw.ConstraintError):
            return Answer(job, None, sqlite.translated(error, "SQLite refused a statement"))
        return Answer(job, None, error)


def _read(reader: apsw.Connection, job: Job) -> Answer:
    try:
        reader.execute("BEGIN")
        value = sqlite.run(reader, job.make())
        return Answer(job, value, None)
    except apsw.Error as error:
        return Answer(job, None, sqlite.translated(error, "SQLite refused a read"))
    except Exception as error:
        return Answer(job, None, error)
    finally:
        sqlite.rollback(reader)


def _deliver(answers: list[Answer], then: Callable[[], None] | None) -> None:
    """One wake-up of the event loop for the whole group; `then` is called in it as well."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        if answer.job.loop is not None:
            by_loop.setdefault(answer.job.loop, []).append(answer)
    for loop, found in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, found, then)


def _resolve(answers: list[Answer], then: Callable[[], None] | None) -> None:
    if then is not None:
        then()
    for job, value, error in answers:
        if job.future is None or job.future.done():
            continue
        if error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)
