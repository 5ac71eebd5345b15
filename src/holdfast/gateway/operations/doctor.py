"""The checks of `holdfast doctor` at a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from holdfast.app import sqlite_path
from holdfast.core.address import Scheme, scheme_of
from holdfast.core.check import check_number
from holdfast.core.rights import Operation
from holdfast.fleet.checks import check_fleet
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue.checks import check_all
from holdfast.queue.disk_check import check_disk
from holdfast.sync.lease_check import check_leases

MAX_WAIT_SECONDS: Final = 300.0
"""How long a due task may wait, unless the request says it."""


async def check(call: Call, *, max_wait_seconds: float = MAX_WAIT_SECONDS) -> Answer:
    """Checks the store, the nodes and the queues. The answer names those of all projects."""
    call.authorise_store(Operation.STATS_READ)
    patience = check_number("max_wait_seconds", max_wait_seconds)
    checks = await check_all(call.services.queue, patience)
    checks += await check_fleet(call.services.store, call.services.fleet.rules)
    checks.append(await check_leases(call.services.store))
    url = getattr(call.services.queue, "url", "")
    if url and scheme_of(url) is Scheme.SQLITE and (path := sqlite_path(url)):
        checks.append(check_disk(Path(path)))
    return Answer({"items": msgspec.to_builtins(checks), "next": None})
