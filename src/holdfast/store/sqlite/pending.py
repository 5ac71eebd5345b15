"""Scripts that wait for a thread of SQLite. They run in groups, and are answered in their event loops.

Promises: a group commits together, each script in a savepoint. A script that fails does not affect the
others. An event loop that has ended meanwhile is skipped, and so is a script whose caller was cancelled
before it began.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import apsw

from holdfast.store.script import Script
from holdfast.store.sqlite import connection as sqlite

GROUP_MAX: Final = 64
"""Scripts in one commit at most."""


class PendingScript(NamedTuple):
    """A script that waits for its thread."""

    make: Callable[[], Script[Any]]
    future: asyncio.Future[Any] | None
    loop: asyncio.AbstractEventLoop | None

    @property
    def is_abandoned(self) -> bool:
        """Whether its caller was cancelled. Such a script is not begun, as on a server."""
        return self.future is not None and self.future.cancelled()


Jobs: TypeAlias = "queue.SimpleQueue[PendingScript | None]"


class ScriptAnswer(NamedTuple):
    job: PendingScript
    value: Any
    error: BaseException | None


def next_job(jobs: Jobs) -> PendingScript | None:
    """Returns the next script if one waits already."""
    while True:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            return None
        if job is None:
            jobs.put(None)
            return None
        if not job.is_abandoned:
            return job


def commit_group(
    writer: apsw.Connection, first: PendingScript, next_job: Callable[[], PendingScript | None]
) -> list[ScriptAnswer]:
    """Runs the waiting scripts in one transaction, each in a savepoint. Scripts that arrive meanwhile join: a
    claim that follows an enqueue shares its commit."""
    group = [first]
    answers: list[ScriptAnswer] = []
    try:
        writer.execute("BEGIN IMMEDIATE")
        for job in group:
            if not writer.in_transaction:
                writer.execute("BEGIN IMMEDIATE")
            answers.append(run_job(writer, job, first=job is first))
            if len(group) < GROUP_MAX and (following := next_job()) is not None:
                group.append(following)
        if writer.in_transaction:
            writer.execute("COMMIT")
    except Exception as error:
        sqlite.rollback(writer)
        failure = error
        if isinstance(error, apsw.Error):
            failure = sqlite.translated(error, "SQLite refused a transaction")
        return [ScriptAnswer(job, None, failure) for job in group]
    return answers


def run_job(writer: apsw.Connection, job: PendingScript, *, first: bool) -> ScriptAnswer:
    """Runs one script. The first one of a transaction needs no savepoint: if it fails, the transaction is
    rolled back."""
    if not first:
        writer.execute("SAVEPOINT one")
    try:
        value = sqlite.run(writer, job.make())
        if not first:
            writer.execute("RELEASE one")
        return ScriptAnswer(job, value, None)
    except Exception as error:
        if first:
            sqlite.rollback(writer)
        elif not writer.in_transaction:
            # The whole transaction was rolled back (disk full, I/O error): acknowledge no script.
            raise
        else:
            writer.execute("ROLLBACK TO one")
            writer.execute("RELEASE one")
        if isinstance(error, apsw.Error) and not isinstance(error, apsw.ConstraintError):
            return ScriptAnswer(job, None, sqlite.translated(error, "SQLite refused a statement"))
        return ScriptAnswer(job, None, error)


def read(reader: apsw.Connection, job: PendingScript) -> ScriptAnswer:
    try:
        reader.execute("BEGIN")
        value = sqlite.run(reader, job.make())
        return ScriptAnswer(job, value, None)
    except apsw.Error as error:
        return ScriptAnswer(job, None, sqlite.translated(error, "SQLite refused a read"))
    except Exception as error:
        return ScriptAnswer(job, None, error)
    finally:
        sqlite.rollback(reader)


def deliver(
    answers: list[ScriptAnswer], first: Mapping[asyncio.AbstractEventLoop, Callable[[], None]]
) -> None:
    """Wakes each event loop once for its answers. `first`: the function to call in a loop before that."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ScriptAnswer]] = {}
    for answer in answers:
        if answer.job.loop is not None:
            by_loop.setdefault(answer.job.loop, []).append(answer)
    for loop, loop_answers in by_loop.items():
        try:
            loop.call_soon_threadsafe(resolve, loop_answers, first.get(loop))
        except RuntimeError:
            continue  # The loop has ended, and its callers with it.


def resolve(answers: list[ScriptAnswer], then: Callable[[], None] | None) -> None:
    if then is not None:
        then()
    for job, value, error in answers:
        if job.future is None or job.future.done():
            continue
        if error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)
