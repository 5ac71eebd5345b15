"""The checks of `holdfast doctor` that look beside the store: the disk of a SQLite file, and the Redis of the
settings in this folder.

Promises: a check never changes anything, and ends within seconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from holdfast.app import silence_of_redis, sqlite_path
from holdfast.config import FILE_NAME, read_tables
from holdfast.core.address import Scheme, scheme_of, shown_url
from holdfast.gateway.settings import server_settings
from holdfast.queue.check import Check, Level
from holdfast.queue.disk_check import check_disk

REDIS_SECONDS: Final = 3.0


async def check_machine(url: str) -> list[Check]:
    """The results of the checks that apply to this store."""
    checks = []
    if scheme_of(url) is Scheme.SQLITE and (path := sqlite_path(url)):
        checks.append(check_disk(Path(path)))
    settings = server_settings(read_tables(Path.cwd() / FILE_NAME), os.environ, {})
    if settings.redis is not None:
        checks.append(await check_redis(settings.redis))
    return checks


async def check_redis(url: str) -> Check:
    """Whether the Redis between gateways answers."""
    where = shown_url(url)
    if (why := await silence_of_redis(url, REDIS_SECONDS)) is not None:
        text = (
            f"{where} does not answer ({why}): gateways fall back to the hints of the database and read "
            "events from it; start it, or remove server.redis"
        )
        return Check("redis", Level.FAIL, text)
    return Check("redis", Level.OK, f"{where} answers")
