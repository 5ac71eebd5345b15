"""`holdfast doctor --fix`: the mends of faults that have one safe mend.

Promises: a mend is named before it is made. Each does what another command does on request, and can be
repeated. Never: guesses, changes the store for any other fault, or makes a store that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.cli.api import answer_of, v2
from holdfast.cli.lists import PAGE_MAX
from holdfast.cli.options import Common
from holdfast.cli.session import with_queue
from holdfast.errors import HoldfastError
from holdfast.queue.check import Check, Level
from holdfast.queue.checks import schema
from holdfast.store.schema import OldSchema
from holdfast.sync import lease_check


class Mend(NamedTuple):
    """What ends a fault."""

    check: str
    does: str
    make: Callable[[Common], str]
    """Makes the mend. Returns what was done."""


def mends_of(checks: Sequence[Check], error: HoldfastError | None) -> list[Mend]:
    """The mends of what the checks have found. `error`: why they could not look."""
    if isinstance(error, OldSchema):
        return [SCHEMA]
    bad = {check.name for check in checks if check.level is not Level.OK}
    return [LEASES] if lease_check.NAME in bad else []


def _upgrade(common: Common) -> str:
    return with_queue(common, lambda queue: schema(queue, 0.0), create=True).text


def _end_runs(common: Common) -> str:
    count, more = 0, True
    while more:
        body = {"projectId": None, "limit": PAGE_MAX, "dryRun": False}
        answer = answer_of(common, "POST", v2("fix-expired-locks"), body)
        count += answer["fixed"]
        # Runs that another transaction holds stay; the next command tries them again.
        more = answer["more"] and answer["fixed"] > 0
    return f"{count} {'run has' if count == 1 else 'runs have'} ended; their tasks go on by their retries"


SCHEMA: Final = Mend("schema", "upgrade the tables, as `holdfast db migrate`", _upgrade)
LEASES: Final = Mend(
    lease_check.NAME,
    "end the runs whose lease has ended, as `holdfast sync fix-expired-locks`",
    _end_runs,
)
