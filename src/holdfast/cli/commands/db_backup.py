"""`holdfast db backup` and `db restore`: a copy of a SQLite store, and the way back.

Promises: what is printed as done is on disk. Of PostgreSQL, which has its own programs for this, the error
names the command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import (
    TaskQueue,
    back_up,
    check_backup,
    check_restore,
    look_at_file,
    restore as put_back,
    sqlite_path,
)
from holdfast.cli.confirm import confirmed
from holdfast.cli.options import COMMON, Common, DryRun, Flag, Yes
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.session import check_exists, check_local, shown_store, target, with_queue
from holdfast.cli.values import STDIN
from holdfast.config import Resolved
from holdfast.core.address import Scheme, scheme_of, shown_url
from holdfast.errors import BadConfig, NotSupported

File = Annotated[str, Parameter(help="The file of the backup.")]
DUMP = "pg_dump --format=custom --file={file} {url}"
LOAD = "pg_restore --no-owner --dbname={url} {file}"


def backup(
    file: File,
    /,
    *,
    overwrite: Annotated[Flag, Parameter(help="Replace an older backup of this name.")] = False,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Copy a SQLite store into a file while workers write. The copy is one moment, and is read back before it
    gets its name."""
    check_local(common, "db backup")
    found, path = _sqlite(common, file, DUMP)
    check_exists(found)
    if file == STDIN:
        raise Usage(
            "a backup is read back before it counts, so it is not written to stdout: name a file"
        )
    to = Path(file)
    check_backup(path, to, overwrite=overwrite)
    facts = look_at_file(path) if dry_run else back_up(path, to, _progress("copied"))
    size = Path(path).stat().st_size if dry_run else to.stat().st_size
    item = {"file": file, "store": shown_store(found.value), "size_bytes": size, **facts._asdict()}
    Printer(common, dry_run=dry_run).one(item, _lines(item), name=file)


def restore(
    file: File,
    /,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int | None:
    """Make a SQLite store what a backup has. Stop the processes that use it first. The store that is replaced
    is kept beside it, and readers of the feed start over."""
    check_local(common, "db restore")
    found, path = _sqlite(common, file, LOAD)
    facts = check_restore(_present(file), path)
    is_there = Path(path).exists()
    item: dict[str, Any] = {"store": shown_store(found.value), "file": file, **facts._asdict()}
    if dry_run:
        Printer(common, dry_run=True).one(item, _lines(item), name=path)
        return None
    question = f"Everything that '{path}' got since the backup is replaced. Go on?"
    if is_there and not confirmed(question, yes=yes):
        return 1
    _, kept = put_back(Path(file), path, _progress("restored"))
    item |= {"kept": None if kept is None else str(kept), **with_queue(common, _head, create=True)}
    Printer(common).one(item, _lines(item), name=path)
    return None


async def _head(queue: TaskQueue) -> dict[str, Any]:
    """Opens the restored store: upgrades its tables, and begins the new epoch."""
    head = await (await queue.open()).store.feed.head()
    return {"epoch": head.epoch}


def _sqlite(common: Common, file: str, command: str) -> tuple[Resolved, str]:
    """The path of the store. Raises if it is none in a file."""
    found = target(common).found
    if scheme_of(found.value) is not Scheme.SQLITE:
        url = shown_url(found.value)
        raise NotSupported(
            f"PostgreSQL has its own programs for this: {command.format(file=file, url=url)} "
            "(docs/howto/postgresql.md, Backup and restore)"
        )
    if not (path := sqlite_path(found.value)):
        raise BadConfig(
            f"{found.value} ({found.origin}) is in memory: give the URL of a file, e.g. --url sqlite:///app.db"
        )
    return found, path


def _present(file: str) -> Path:
    path = Path(file)
    if file == STDIN:
        raise Usage("a backup is not read from stdin: name a file")
    if not path.is_file():
        raise BadConfig(f"there is no backup '{file}': check the path")
    return path


def _lines(item: dict[str, Any]) -> list[tuple[str, object]]:
    names = {"size_bytes": "bytes", "head": "last event"}
    return [(names.get(name, name), value) for name, value in item.items()]


def _progress(done_word: str) -> Callable[[int, int], None]:
    """Shows how far a long copy is, at a terminal."""
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        end = "\r" if done < total else "\r\033[K"
        share = 100 * done // max(total, 1)
        print(f"{done_word}: {share}%", end=end, file=sys.stderr, flush=True)

    return show
