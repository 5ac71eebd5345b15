"""Which store a URL names: the one place that picks a database.

`sqlite:///file.db`, `sqlite://` in memory, `postgresql://...`. A bad URL or a missing driver is refused
at once, before anything is opened. Ids are seeded when a store is made, and again in a forked child:
processes forked from one parent must not make the same ids.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from holdfast.clock import Clock
from holdfast.core.address import (
    Scheme,
    after_scheme,
    check_address,
    check_url,
    scheme_of,
    shown_url,
)
from holdfast.core.ids import Ids
from holdfast.errors import BadConfig, MissingExtra
from holdfast.forks import PassiveFollower, follow
from holdfast.store.store import Store


def store_for(
    url: str,
    clock: Clock,
    *,
    server_time: bool = True,
    inline: bool = False,
    ids: Ids | None = None,
    create: bool = True,
) -> Callable[[], Store]:
    """A function that makes the store, not open yet, when it is needed. Without `create`, `open` raises an
    error if the tables are absent or old, and changes nothing."""
    scheme = scheme_of(check_address(url))
    if scheme is Scheme.SQLITE:
        path = sqlite_path(url)
        return lambda: _sqlite(path, clock, ids or fresh_ids(), inline=inline, create=create)
    if scheme is Scheme.POSTGRES:
        check_url(url)
        if importlib.util.find_spec("asyncpg") is None:
            raise MissingExtra("PostgreSQL needs asyncpg: pip install 'holdfast[postgres]'")
        return lambda: _postgres(
            url, clock, ids or fresh_ids(), server_time=server_time, create=create
        )
    raise BadConfig(
        f"'{shown_url(url)}' is not a database that holdfast knows: use sqlite:///path/to/file.db, "
        "sqlite:// (in memory) or postgresql://user@host/database"
    )


def sqlite_path(url: str) -> str:
    """sqlite:// is memory (an empty path), sqlite:///x.db relative, sqlite:////x.db absolute."""
    rest = after_scheme(url)
    if rest in ("", "//", "///:memory:"):
        return ""
    if not rest.startswith("///"):
        raise _not_sqlite(url, "write sqlite:///file.db or sqlite:////absolute/file.db")
    if rest == "///":
        raise _not_sqlite(
            url, "the path is empty; write sqlite:///file.db, or sqlite:// for a store in memory"
        )
    if "?" in rest:
        raise _not_sqlite(
            url, "it has no options; leave out what follows the ?, or write %3F for one in the name"
        )
    path = unquote(rest[3:])
    if path.rpartition("/")[2] in ("", ".", "..") or Path(path).is_dir():
        raise _not_sqlite(url, "it names a directory; add the name of a file")
    return path


def _not_sqlite(url: str, why: str) -> BadConfig:
    return BadConfig(f"'{shown_url(url)}' is not the URL of a SQLite file: {why}")


class _Bits(PassiveFollower, random.Random):
    """Random bits that are seeded again in a forked child."""

    ids: Ids

    def start_over(self) -> None:
        self.seed(_seed())
        self.ids.start_over()


def fresh_ids() -> Ids:
    bits = _Bits(_seed())
    bits.ids = Ids(bits)
    follow(bits)
    return bits.ids


def _seed() -> int:
    return random.SystemRandom().getrandbits(128)


def secret_ids() -> Ids:
    """Ids that cannot be guessed and that forked processes do not share, e.g. for the tokens of locks."""
    return Ids(random.SystemRandom())


def _sqlite(path: str, clock: Clock, ids: Ids, *, inline: bool, create: bool) -> Store:
    from holdfast.store.sqlite.dialect import SqliteDialect
    from holdfast.store.sqlite.driver import SqliteDriver

    return Store(SqliteDriver(path, clock, inline=inline, create=create), SqliteDialect(), ids)


def _postgres(url: str, clock: Clock, ids: Ids, *, server_time: bool, create: bool) -> Store:
    from holdfast.store.postgres.dialect import PostgresDialect
    from holdfast.store.postgres.driver import PostgresDriver

    driver = PostgresDriver(url, clock, server_time=server_time, create=create)
    return Store(driver, PostgresDialect(clock.monotonic), ids)
