"""Access of a command to the store: finds it, opens it, closes it.

Promises: a store that does not exist is an error; only a worker and `db migrate` create or
upgrade one.
Never: starts workers.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.app import TaskQueue, sqlite_path
from holdfast.cli.options import Common
from holdfast.config import Resolved, find_url
from holdfast.core.address import Scheme, scheme_of, shown_url
from holdfast.errors import BadConfig, StoreUnavailable
from holdfast.queue.by import By
from holdfast.queue.parts import Parts

T = TypeVar("T")


def with_queue(
    common: Common, work: Callable[[TaskQueue], Awaitable[T]], *, create: bool = False
) -> T:
    """Opens the store, runs the command, closes the store. With `create` a missing store is created."""
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    found = store_url(common)
    check_exists(found, create=create)
    return asyncio.run(_session(found.value, work, create=create))


def with_parts(common: Common, work: Callable[[Parts], Awaitable[T]]) -> T:
    """The same with the use cases of the queue."""
    return with_queue(common, lambda queue: work(queue.parts))


async def _session(url: str, work: Callable[[TaskQueue], Awaitable[T]], *, create: bool) -> T:
    queue = TaskQueue(url, create=create)
    try:
        await queue.open()
        return await work(queue)
    finally:
        await queue.stop()


def store_url(common: Common) -> Resolved:
    return find_url(common.url, os.environ, Path.cwd())


def check_exists(found: Resolved, *, create: bool = False) -> None:
    """A SQLite file must exist, unless the command creates it. A store in memory is refused: another
    process cannot see it."""
    if scheme_of(found.value) is not Scheme.SQLITE:
        return
    path = sqlite_path(found.value)
    if not path:
        raise BadConfig(
            f"{shown_url(found.value)} ({found.origin}) is in memory, where only one process can see it: "
            "give the URL of a file or of PostgreSQL"
        )
    if not create and not Path(path).exists():
        raise StoreUnavailable(
            f"there is no SQLite file '{path}' ({found.origin}): start a worker, which creates it, or "
            "give the right --url"
        )


def shown_store(url: str) -> str:
    """The address without its secrets. The path of a SQLite file is absolute: another process may have
    another working directory."""
    if scheme_of(url) is not Scheme.SQLITE or not (path := sqlite_path(url)):
        return shown_url(url)
    return f"sqlite:///{Path(path).absolute()}"


def by(reason: str = "") -> By:
    """Who makes the change, and why."""
    return By(actor(), reason)


def actor() -> str:
    """The user of this command."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:uid {os.getuid()}"
