"""`holdfast db backup` and `db restore` at the command line: refusals, dry runs, what they print."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Done, run_inside, stocked

STORE = "sqlite:///app.db"


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    await stocked(f"sqlite:///{tmp_path}/app.db")
    return tmp_path


def db(folder: Path, *args: str, url: str = STORE) -> Done:
    return run_inside(folder, "db", *args, "--url", url)


def test_a_backup_says_what_it_has(folder: Path) -> None:
    done = db(folder, "backup", "copy.db", "-o", "json")
    made = json.loads(done.out)
    assert (done.code, made["file"], made["tasks"]) == (0, "copy.db", 6)
    assert made["size_bytes"] == (folder / "copy.db").stat().st_size
    assert db(folder, "backup", "copy.db").code == 6
    assert db(folder, "backup", "copy.db", "--overwrite").code == 0
    looked = run_inside(folder, "task", "list", "-o", "name", "--url", "sqlite:///copy.db")
    assert len(looked.out.splitlines()) == 6


def test_a_dry_run_makes_no_file(folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = db(folder, "backup", "copy.db", "--dry-run", "-o", "json")
    assert (done.code, json.loads(done.out)["dry_run"]) == (0, True)
    assert sorted(folder.iterdir()) == before


def test_a_restore_asks_first_and_can_be_foreseen(folder: Path) -> None:
    db(folder, "backup", "copy.db")
    run_inside(folder, "queue", "pause", "default", "--url", STORE)
    refused = db(folder, "restore", "copy.db")
    assert (refused.code, "--yes" in refused.said) == (2, True)
    assert db(folder, "restore", "copy.db", "--dry-run").code == 0
    assert not (folder / "app.db.before-restore").exists()
    done = db(folder, "restore", "copy.db", "--yes", "-o", "json")
    assert (done.code, json.loads(done.out)["kept"]) == (0, "app.db.before-restore")
    again = db(folder, "restore", "copy.db", "--yes")
    assert (again.code, "move it away" in again.said) == (6, True)


def test_a_restore_needs_no_store_that_exists(folder: Path) -> None:
    db(folder, "backup", "copy.db")
    done = db(folder, "restore", "copy.db", "-o", "json", url="sqlite:///new.db")
    assert (done.code, json.loads(done.out)["kept"]) == (0, None)
    assert run_inside(folder, "stats", "--url", "sqlite:///new.db").code == 0


@pytest.mark.parametrize(
    ("verb", "command"), [("backup", "pg_dump --format=custom"), ("restore", "pg_restore")]
)
def test_for_postgresql_the_command_is_named(tmp_path: Path, verb: str, command: str) -> None:
    done = db(tmp_path, verb, "app.dump", url="postgresql://ann:secret@db.example/app")
    assert done.code == 2
    assert command in done.said
    assert "app.dump" in done.said
    assert "secret" not in done.said


@pytest.mark.parametrize(
    ("args", "url", "code", "says"),
    [
        (("backup", "."), STORE, 2, "is a folder"),
        (("backup", "app.db", "--overwrite"), STORE, 2, "the store itself"),
        (("backup", "none/x.db"), STORE, 2, "create it"),
        (("backup", "x.db"), "sqlite:///none.db", 10, "there is no SQLite file"),
        (("backup", "x.db"), "sqlite://", 2, "in memory"),
        (("restore", "none.db"), STORE, 2, "check the path"),
        (("restore", "app.db", "--yes"), STORE, 2, "the store itself"),
        (("restore", "words.txt", "--yes"), STORE, 10, "not a sound SQLite"),
    ],
)
def test_refusals_say_what_to_do(
    folder: Path, args: tuple[str, ...], url: str, code: int, says: str
) -> None:
    (folder / "words.txt").write_text("no database " * 99)
    done = db(folder, *args, url=url)
    assert (done.code, says in done.said) == (code, True), done


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("away/copy.db", "there is no folder 'away'"),
        ("x" * 300, "File name too long"),
        ("pipe", "'pipe' is no file"),
        ("-", "not written to stdout"),
        ("app.db-wal", "belongs to the store itself"),
    ],
)
def test_a_dry_run_finds_what_the_command_would(folder: Path, name: str, said: str) -> None:
    os.mkfifo(folder / "pipe")
    for more in ((), ("--dry-run",)):
        done = db(folder, "backup", name, "--overwrite", *more)
        assert (done.code, said in done.said) == (2, True), more
    assert (folder / "pipe").is_fifo()


def test_the_dry_run_of_a_restore_finds_a_store_that_was_kept(folder: Path) -> None:
    db(folder, "backup", "copy.db")
    (folder / "app.db.before-restore").touch()
    done = db(folder, "restore", "copy.db", "--dry-run")
    assert (done.code, "move it away" in done.said) == (6, True)
