"""`holdfast db backup` and `db restore` on SQLite: one moment under load, nothing half done after a crash."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.app import back_up, look_at_file, restore
from holdfast.errors import BadConfig, Conflict, DiskFull, FeedReset, StoreBusy, StoreUnavailable
from holdfast.store.sqlite import backup, backup_files

WRITER = """
import asyncio, sys
from holdfast import TaskQueue

async def main():
    queue = TaskQueue(sys.argv[1], lease_seconds=2)

    @queue.task
    async def add(a: int) -> int:
        return a

    async with queue:
        number = 0
        while True:
            tasks = [{"type": "add", "payload": {"a": number + n}} for n in range(5)]
            handles = await queue.enqueue_many(tasks)
            number += 5
            print(handles[-1].id, flush=True)

asyncio.run(main())
"""
"""Enqueues and runs tasks. Prints an id after the answer of each enqueue."""
CRASH = """
import os, sys
from pathlib import Path
from holdfast.store.sqlite import backup, backup_files

backup.STEP_PAGES = 20
left = int(sys.argv[4])

def on_step(done, total):
    global left
    left -= 1
    if left == 0:
        os._exit(9)

if sys.argv[1] == "back_up":
    backup.back_up(sys.argv[2], Path(sys.argv[3]), on_step)
else:
    backup.restore(Path(sys.argv[3]), sys.argv[2], on_step)
"""
"""Dies in the middle of a copy, as with kill -9."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "app.db")


def silent(done: int, total: int) -> None: ...


def enqueue(path: str, count: int, size: int = 10) -> list[str]:
    """Enqueues tasks. Returns their ids."""
    queue = TaskQueue(f"sqlite:///{path}")
    queue.task(name="work")(work)
    handles = queue.sync.enqueue_many([{"type": "work", "payload": {"text": "x" * size}}] * count)
    queue.sync.close()
    return [handle.id for handle in handles]


async def work(text: str) -> None: ...


def ids_in(path: Path) -> set[str]:
    """The tasks of a file. Each has to have its event, and events have no gaps."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ids = {row[0] for row in file.execute("SELECT id FROM holdfast_task")}
        records = file.execute(
            "SELECT first_offset, events_count FROM holdfast_feed ORDER BY first_offset"
        ).fetchall()
    following = [first + count for first, count in records]
    assert [first for first, _ in records[1:]] == following[:-1]
    assert look_at_file(str(path)).head >= len(ids)
    return ids


def epoch_of(path: Path | str) -> str:
    with closing(sqlite3.connect(path)) as file:
        return str(file.execute("SELECT epoch FROM holdfast_feed_head").fetchone()[0])


def test_a_backup_is_one_moment_while_others_write(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write between two steps of the copy succeeds at once, and is not in the backup."""
    monkeypatch.setattr(backup, "STEP_PAGES", 20)
    before = enqueue(store, 20, size=4000)
    later: list[str] = []

    def write_between(done: int, total: int) -> None:
        if len(later) < 10:
            later.extend(enqueue(store, 2))

    facts = back_up(store, tmp_path / "copy.db", write_between)
    assert len(later) >= 10
    assert ids_in(tmp_path / "copy.db") == set(before)
    assert (facts.tasks, facts.head) == (20, 20)
    assert ids_in(Path(store)) == {*before, *later}
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_backups_under_load_have_every_write_that_was_answered(store: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", WRITER, f"sqlite:///{store}"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            answered: set[str] = set()
            for number in range(5):
                answered |= {next(writer.stdout).strip() for _ in range(20)}
                copy = tmp_path / f"copy-{number}.db"
                facts = back_up(store, copy, silent)
                found = ids_in(copy)
                assert answered <= found
                assert facts.tasks == len(found)
                assert writer.poll() is None
        finally:
            writer.kill()


@pytest.mark.parametrize("steps", [1, 5])
def test_a_backup_that_is_killed_leaves_no_backup(store: str, tmp_path: Path, steps: int) -> None:
    ids = enqueue(store, 50, size=4000)
    copy = tmp_path / "copy.db"
    assert crash("back_up", store, copy, steps) == 9
    assert not copy.exists()
    back_up(store, copy, silent)
    assert ids_in(copy) == set(ids)
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_a_restore_that_is_killed_leaves_the_store_as_it_was(
    store: str, tmp_path: Path, steps: int
) -> None:
    old = enqueue(store, 50, size=4000)
    copy = tmp_path / "copy.db"
    back_up(store, copy, silent)
    new = enqueue(store, 50, size=4000)
    assert crash("restore", store, copy, steps) == 9
    assert ids_in(Path(store)) == {*old, *new}
    assert ids_in(copy) == set(old)
    (tmp_path / "app.db.before-restore").unlink()
    restore(copy, store, silent)
    assert ids_in(Path(store)) == set(old)


def crash(act: str, store: str, copy: Path, steps: int) -> int:
    """The exit code of a copy that dies after that many steps."""
    args = [sys.executable, "-c", CRASH, act, store, str(copy), str(steps)]
    return subprocess.run(args, check=False).returncode


async def test_readers_of_a_restored_store_start_over(store: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    enqueue_in = TaskQueue(f"sqlite:///{store}")
    enqueue_in.task(name="work")(work)
    await enqueue_in.enqueue("work", {"text": "a"})
    back_up(store, copy, silent)
    await enqueue_in.enqueue("work", {"text": "b"})
    position = [event.position async for event in enqueue_in.events(follow=False)][-1]
    await enqueue_in.stop()
    restore(copy, store, silent)

    queue = TaskQueue(f"sqlite:///{store}")
    queue.task(name="work")(work)
    await queue.enqueue("work", {"text": "c"})  # the offsets of the lost events are used again
    with pytest.raises(FeedReset) as reset:
        [event async for event in queue.events(position, follow=False)]
    assert reset.value.reason == "epoch"
    await queue.stop()


def test_a_backup_that_is_copied_by_hand_begins_a_new_epoch_too(store: str, tmp_path: Path) -> None:
    enqueue(store, 1)
    before = epoch_of(store)
    back_up(store, tmp_path / "copy.db", silent)
    assert epoch_of(store) == before
    (tmp_path / "copy.db").replace(store)
    enqueue(store, 1)
    after = epoch_of(store)
    assert after not in (before, "copied")
    enqueue(store, 1)
    assert epoch_of(store) == after


def test_the_replaced_store_is_kept(store: str, tmp_path: Path) -> None:
    old = enqueue(store, 2)
    back_up(store, tmp_path / "copy.db", silent)
    new = enqueue(store, 2)
    _, kept = restore(tmp_path / "copy.db", store, silent)
    assert kept == tmp_path / "app.db.before-restore"
    assert ids_in(kept) == {*old, *new}
    with pytest.raises(Conflict, match="move it away"):
        restore(tmp_path / "copy.db", store, silent)
    kept.rename(tmp_path / "undo.db")
    restore(tmp_path / "undo.db", store, silent)
    assert ids_in(Path(store)) == {*old, *new}


async def test_a_store_that_a_process_has_open_is_not_restored(store: str, tmp_path: Path) -> None:
    queue = TaskQueue(f"sqlite:///{store}")
    await queue.open()
    back_up(store, tmp_path / "copy.db", silent)
    before = epoch_of(store)
    with pytest.raises(StoreBusy, match="stop the workers"):
        restore(tmp_path / "copy.db", store, silent)
    assert epoch_of(store) == before
    assert not (tmp_path / f"app.db{backup_files.PART}").exists()
    await queue.stop()


def test_tables_of_the_application_are_in_the_backup(store: str, tmp_path: Path) -> None:
    enqueue(store, 1)
    with closing(sqlite3.connect(store)) as file, file:
        file.execute("CREATE TABLE orders (name text)")
        file.execute("INSERT INTO orders VALUES ('first')")
    back_up(store, tmp_path / "copy.db", silent)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as file:
        assert file.execute("SELECT name FROM orders").fetchall() == [("first",)]


def test_a_damaged_store_does_not_replace_an_older_backup(store: str, tmp_path: Path) -> None:
    old = enqueue(store, 100, size=4000)
    copy = tmp_path / "copy.db"
    back_up(store, copy, silent)
    with closing(sqlite3.connect(store)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with Path(store).open("r+b") as raw:
        raw.seek(Path(store).stat().st_size - 4096 * 12)
        raw.write(b"\xff" * 4096 * 8)
    with pytest.raises(StoreUnavailable, match=r"damaged|not a sound"):
        back_up(store, copy, silent)
    assert ids_in(copy) == set(old)
    restore(copy, store, silent)
    assert ids_in(Path(store)) == set(old)


@pytest.mark.parametrize(
    "there", [b"no database " * 99, b"", None], ids=["damaged", "empty", "gone"]
)
def test_a_store_that_is_lost_is_restored(store: str, tmp_path: Path, there: bytes | None) -> None:
    ids = enqueue(store, 3)
    back_up(store, tmp_path / "copy.db", silent)
    for path in tmp_path.glob("app.db*"):
        if path.is_file():
            path.unlink()
    if there is not None:
        Path(store).write_bytes(there)
    _, kept = restore(tmp_path / "copy.db", store, silent)
    assert ids_in(Path(store)) == set(ids)
    assert (None if kept is None else kept.read_bytes()) == (there or None)


def refusals(store: str, folder: Path) -> Iterator[tuple[type[Exception], str, Path]]:
    yield BadConfig, store, Path(store)
    yield BadConfig, store, Path(f"{store}-wal")
    yield BadConfig, store, folder / "none" / "copy.db"
    yield StoreUnavailable, str(folder / "other.db"), folder / "copy.db"
    yield StoreUnavailable, str(folder / "none.db"), folder / "copy.db"


def test_what_cannot_be_copied_is_refused(store: str, tmp_path: Path) -> None:
    ids = enqueue(store, 1)
    with closing(sqlite3.connect(tmp_path / "other.db")) as file:
        file.execute("CREATE TABLE other (name text)")
    for error, path, copy in refusals(store, tmp_path):
        with pytest.raises(error):
            back_up(path, copy, silent)
    with pytest.raises(StoreUnavailable, match="no Holdfast store"):
        restore(tmp_path / "other.db", store, silent)
    assert ids_in(Path(store)) == set(ids)


def test_a_full_disk_is_named_before_the_copy(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(store, 1)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(DiskFull, match="MiB free"):
        back_up(store, tmp_path / "copy.db", silent)
    assert not (tmp_path / "copy.db").exists()


KILLED = """
import os, sys, apsw

connection = apsw.Connection(sys.argv[1])
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute("DELETE FROM holdfast_task")
os._exit(9)
"""
"""Opens an older backup as a store, and dies: its changes are beside the file."""


@pytest.mark.parametrize("is_deleted", [False, True])
def test_changes_that_a_killed_process_has_left_do_not_get_into_a_backup(
    store: str, tmp_path: Path, is_deleted: bool
) -> None:
    enqueue(store, 3)
    copy = tmp_path / "copy.db"
    back_up(store, copy, silent)
    subprocess.run([sys.executable, "-c", KILLED, str(copy)], check=False)
    if is_deleted:
        copy.unlink()
    with pytest.raises(Conflict, match="-wal' is there: a process has"):
        back_up(store, copy, silent)
    for left in tmp_path.glob("copy.db*"):
        left.unlink()
    assert (back_up(store, copy, silent).tasks, look_at_file(str(copy)).tasks) == (3, 3)


def test_one_process_writes_a_backup_of_a_name(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(store, 3)
    monkeypatch.setattr(backup, "STEP_PAGES", 20)
    copy, refused = tmp_path / "copy.db", []

    def begin_another(done: int, total: int) -> None:
        with pytest.raises(Conflict, match="another process writes") as error:
            back_up(store, copy, silent)
        refused.append(error)

    assert back_up(store, copy, begin_another).tasks == 3
    assert len(refused) > 1
    assert look_at_file(str(copy)).tasks == 3
    assert not list(tmp_path.glob("*.part"))
