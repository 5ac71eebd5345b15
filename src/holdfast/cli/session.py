"""Access of a command to the store, directly or through a gateway: finds it, opens it, closes it.

Promises: a command does not know which of the two it got: `with_queue` and `with_parts` give it the same use
cases. A store that does not exist is an error; only a worker and `db migrate` create or upgrade one.
Never: starts workers.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from holdfast.app import TaskQueue, http_of, sqlite_path
from holdfast.cli.load import load_queue
from holdfast.cli.options import Common
from holdfast.cli.use_cases import UseCases
from holdfast.config import Resolved, find_gateway, find_token, find_url
from holdfast.core.address import Scheme, is_gateway, scheme_of, shown_url
from holdfast.core.text import one_line
from holdfast.errors import BadConfig, StoreUnavailable
from holdfast.queue.by import By

T = TypeVar("T")
TRIES: Final = 2
"""How often a command asks a gateway that does not answer. A person waits for the command."""
ANSWER_SECONDS: Final = 10.0
"""How long each try of a command that reads waits for the answer."""
GONE_SECONDS: Final = 60.0
"""How long a command that waits, e.g. `enqueue --wait`, goes on while no gateway answers."""


class Target(NamedTuple):
    """What a command works on."""

    found: Resolved
    """The URL of a store or of a gateway."""
    token: str | None = None

    @property
    def is_gateway(self) -> bool:
        return is_gateway(self.found.value)


def target(common: Common) -> Target:
    """The gateway of the command if one is given, else its store."""
    if common.app is not None:
        return _of_app(common, common.app)
    gateway = find_gateway(common.gateway, common.url, os.environ, Path.cwd())
    found = gateway or store_url(common)
    if is_gateway(found.value):
        token = find_token(common.token, os.environ, Path.cwd())
        return Target(found, None if token is None else token.value)
    if gateway is not None:
        raise BadConfig(
            f"'{shown_url(found.value)}' ({found.origin}) is not a gateway: write holdfast://host:8787, or "
            "give a store with --url"
        )
    if common.token is not None:
        raise BadConfig("--token is for a gateway: give --gateway too, or leave it out")
    return Target(found)


def _of_app(common: Common, app: str) -> Target:
    """The store, or the gateway, of the queue object of an application."""
    if common.url or common.gateway:
        raise BadConfig("--app names the store too: leave out --url and --gateway, or --app")

    queue = load_queue(app)
    url = getattr(queue, "url", None)
    if not isinstance(queue, TaskQueue) or url is None:
        raise BadConfig(f"'{app}' is a queue without a URL: give --url")
    http = http_of(queue)
    token = common.token if common.token is not None or http is None else http.token
    return Target(Resolved(url, f"--app {app}"), token)


def with_queue(
    common: Common, work: Callable[[TaskQueue], Awaitable[T]], *, create: bool = False
) -> T:
    """Opens the store or the gateway, runs the command, closes it. `create`: also makes a missing store."""
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    to = target(common)
    if not to.is_gateway:
        check_exists(to.found, create=create)
    return asyncio.run(_session(to, work, create=create))


def with_parts(common: Common, work: Callable[[UseCases], Awaitable[T]]) -> T:
    """The same with the use cases of the queue, for a command that reads (see `api.with_operations`)."""
    return with_queue(common, lambda queue: work(use_cases(queue)))


def use_cases(queue: TaskQueue) -> UseCases:
    """The use cases of a queue, on a store or behind a gateway."""
    return queue.parts


async def _session(to: Target, work: Callable[[TaskQueue], Awaitable[T]], *, create: bool) -> T:
    if to.is_gateway:
        queue = TaskQueue(to.found.value, token=to.token)
    else:
        queue = TaskQueue(to.found.value, create=create)
    if (http := http_of(queue)) is not None:
        http.tries, http.read_seconds = TRIES, ANSWER_SECONDS
        http.patience_seconds, http.on_retry = GONE_SECONDS, remark
    try:
        await queue.open()
        return await work(queue)
    finally:
        await queue.stop()


def remark(text: str) -> None:
    """Prints a line to stderr, with any output."""
    print(one_line(text), file=sys.stderr, flush=True)


@contextmanager
def advice(text: Callable[[], str]) -> Iterator[None]:
    """Adds what goes on, and how to look at it, to the error that no gateway answers."""
    try:
        yield
    except StoreUnavailable as error:
        error.add_note(text())
        raise


def check_local(common: Common, verb: str) -> None:
    """Raises BadConfig if a command that needs the database would get a gateway."""
    to = target(common)
    if to.is_gateway:
        raise BadConfig(
            f"holdfast {verb} needs the database, and {to.found.origin} names a gateway: give --url"
        )


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


def by(reason: str = "", expected_version: int | None = None) -> By:
    """Who makes the change, why, and which version it is for. A gateway takes the principal of the token in
    place of the actor."""
    return By(actor(), reason, expected_version)


def actor() -> str:
    """The user of this command."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:uid {os.getuid()}"
