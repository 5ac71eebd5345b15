"""Backups of a SQLite store: made while other processes write, and put back.

Promises: a backup is one moment of the whole file, tables of the application included. It is checked before
it gets its name, and it is on disk before the call returns. A restore is all or nothing: it writes into the
file in one transaction of SQLite, so a crash in the middle leaves the store as it was. The feed of a
restored store begins a new epoch (see `connection.end_copied_epoch`).
Never: waits for a writer, or makes one wait; replaces a store that a process has open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import apsw

from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.store import schema
from holdfast.store.sql import load_migrations
from holdfast.store.sqlite import connection as sqlite
from holdfast.store.sqlite.backup_files import (
    BESIDE,
    KEPT,
    check_kept,
    check_other,
    check_room,
    check_target,
    file_errors,
    publish,
    sync,
    unfinished,
)

STEP_PAGES: Final = 2_000
"""Pages that are copied between two calls of `on_step`: 8 MB of SQLite's usual pages."""
HEAD: Final = """SELECT coalesce((SELECT first_offset + events_count - 1 FROM holdfast_feed
    ORDER BY first_offset DESC LIMIT 1), 0)"""
TASKS: Final = "SELECT count(*) FROM holdfast_task"
OnStep: TypeAlias = Callable[[int, int], None]
"""Is called with the pages that are copied, and all pages."""


class BackupFacts(NamedTuple):
    """What is in a backup. The store had the same at the moment of the backup."""

    schema: int
    """The number of the newest migration."""
    head: int
    """The offset of the last event."""
    tasks: int


def silent(done: int, total: int) -> None:
    """Shows no progress."""


def look(path: str) -> BackupFacts:
    """What a store or a backup has now. Raises if it is no store that this version can use."""
    with _opened(path) as connection:
        return _facts(connection, path)


def back_up(path: str, target: Path, on_step: OnStep = silent) -> BackupFacts:
    """Copies the store into the file `target`, which gets its name when the copy is complete, checked and on
    disk. An older file of this name is replaced."""
    check_target(path, target, overwrite=True)
    with file_errors(target), unfinished(target) as part:
        with _opened(path) as source:
            source.execute("BEGIN")  # The first read fixes the moment; writers of a WAL go on.
            facts = _facts(source, path)
            _copy_new(source, part, on_step, facts)
        publish(part, target)
    return facts


def check_restore(backup: Path, path: str) -> BackupFacts:
    """What a restore would make of the store. Raises if it cannot."""
    target = Path(path)
    with file_errors(target):
        check_other(path, backup)
        check_room(backup, target.parent, copies=2 + target.exists())
        check_kept(target, _kept(target))
    return look(str(backup))


def restore(backup: Path, path: str, on_step: OnStep = silent) -> tuple[BackupFacts, Path | None]:
    """Makes the store what the backup has. Returns also where the replaced store is kept."""
    target = Path(path)
    check_restore(backup, path)
    with file_errors(target), unfinished(target) as part:
        with _opened(str(backup)) as source:
            source.execute("BEGIN")
            facts = _facts(source, str(backup))
            _copy_new(source, part, silent, facts)
        was_there = _replace(part, target, _kept(target), on_step)
    return facts, _kept(target) if was_there else None


def _kept(target: Path) -> Path:
    return target.with_name(target.name + KEPT)


def _replace(part: Path, target: Path, kept: Path, on_step: OnStep) -> bool:
    """Writes the checked copy into the store. Returns whether there was one."""
    was_there = target.exists() and target.stat().st_size > 0
    if was_there:
        _set_aside(target, kept)
    is_copied = was_there and target.exists()
    sqlite.create_file(str(target))
    with _opened(str(target)) as store, _opened(str(part)) as source:
        _lock(store, target)
        if is_copied:
            with unfinished(kept) as before:
                _copy_new(store, before, silent, None)
                publish(before, kept)
        _copy(source, store, on_step)
    sync(target.parent)
    return was_there


@contextmanager
def _opened(path: str) -> Iterator[apsw.Connection]:
    """A connection to a file that exists. Errors of SQLite become those of Holdfast."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    if not os.access(path, os.W_OK):
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(path, flags=flags)
        try:
            connection.set_busy_timeout(sqlite.BUSY_MILLISECONDS)
            yield connection
        finally:
            connection.close(force=True)
    except apsw.Error as error:
        raise sqlite.translated(error, f"'{path}' cannot be copied") from error


def _set_aside(target: Path, kept: Path) -> None:
    """Moves a file that is no database, so that it cannot be copied, to the name of the kept store."""
    try:
        with _opened(str(target)) as connection:
            connection.execute("PRAGMA schema_version").fetchall()
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, apsw.NotADBError):
            raise
        for end in BESIDE:
            with suppress(FileNotFoundError):
                Path(f"{target}{end}").replace(f"{kept}{end}")


def _lock(connection: apsw.Connection, target: Path) -> None:
    """Takes the file for this connection alone. A process that has it open, even idle, keeps a lock on it."""
    connection.set_busy_timeout(0)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except apsw.BusyError as error:
        raise StoreBusy(
            f"a process has '{target}' open: stop the workers, the server and the applications that use "
            "it, then try again"
        ) from error


def _facts(connection: apsw.Connection, path: str) -> BackupFacts:
    is_store = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if not connection.execute(is_store, (schema.NAME,)).fetchall():
        raise StoreUnavailable(
            f"'{path}' is no Holdfast store: give the file of a store or a backup"
        )
    applied = sqlite.applied(connection)
    schema.pending(load_migrations(sqlite.PACKAGE), applied)
    (head,), (tasks,) = [connection.execute(text).fetchall()[0] for text in (HEAD, TASKS)]
    return BackupFacts(max(applied), int(str(head)), int(str(tasks)))


def _copy_new(
    source: apsw.Connection, part: Path, on_step: OnStep, facts: BackupFacts | None
) -> None:
    """Copies into an empty file, which ends with a new epoch, checked and on disk. `facts`: what it must
    have; None: it is a copy of a store that may be damaged."""
    with _opened(str(part)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        _copy(source, copy, on_step)
        copy.execute("PRAGMA journal_mode = DELETE")  # One file, which can be read from any medium.
        if facts is not None:
            copy.execute(sqlite.MARK_COPIED)
            _verify(copy, part, facts)
    sync(part)


def _copy(source: apsw.Connection, target: apsw.Connection, on_step: OnStep) -> None:
    with target.backup("main", source, "main") as copying:
        while not copying.done:
            copying.step(STEP_PAGES)
            on_step(copying.page_count - copying.remaining, copying.page_count)


def _verify(copy: apsw.Connection, part: Path, facts: BackupFacts) -> None:
    """Reads the whole copy back."""
    found = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)").fetchall()]
    if found != ["ok"]:
        raise StoreUnavailable(
            f"the store is damaged, so that no backup of it was made: {'; '.join(found)}. Restore an older "
            "backup, or save what can be read with the command .recover of sqlite3"
        )
    if (has := _facts(copy, str(part))) != facts:
        raise StoreUnavailable(f"the copy has {has}, the store had {facts}: try again")
