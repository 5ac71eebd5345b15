"""`holdfast doctor`: checks the store, the nodes and the queues.

Promises: exit code 0 when no check failed, so it serves as a health check. On success it prints nothing,
except on a terminal, with -v or with -o. Without --fix it changes nothing.
"""

from __future__ import annotations

import sys
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import Parameter

from holdfast.app import TaskQueue, http_of
from holdfast.cli import values
from holdfast.cli.commands import gateway_checks
from holdfast.cli.commands.doctor_fix import mends_of
from holdfast.cli.commands.machine_checks import check_machine
from holdfast.cli.options import COMMON, Common, Flag, Output
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import Usage, describe
from holdfast.cli.session import remark, shown_store, target, with_queue
from holdfast.core.fleet.rules import RULES
from holdfast.errors import HoldfastError
from holdfast.fleet.checks import check_fleet
from holdfast.queue.check import Check, Level
from holdfast.queue.checks import check_all
from holdfast.sync.lease_check import check_leases

STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
COLUMNS = [
    Column("CHECK", lambda item: item["name"]),
    Column("LEVEL", lambda item: item["level"], style=lambda text: STYLES.get(Level(text), "")),
    Column("FOUND", lambda item: item["text"], wrap=True),
]


class Found(NamedTuple):
    """What the checks have found."""

    checks: list[Check]
    error: HoldfastError | None = None
    """Why they could not look."""


def doctor(
    *,
    verbose: Annotated[Flag, Parameter(name=("--verbose", "-v"), help="Show every check.")] = False,
    strict: Annotated[Flag, Parameter(help="Treat warnings as failures.")] = False,
    max_wait: Annotated[str, Parameter(help="How long a due task may wait.")] = "5m",
    fix: Annotated[
        Flag, Parameter(help="Mend what has one safe mend: an old schema, runs whose lease ended.")
    ] = False,
    dry_run: Annotated[Flag, Parameter(help="With --fix: only name the mends.")] = False,
    common: Common = COMMON,
) -> int:
    """Check the store, the workers and the backlog; exit code 1 when a check fails. With --gateway also the
    gateway: whether it answers, its version, the token and the clock."""
    patience = values.seconds(max_wait, "--max-wait")
    if dry_run and not fix:
        raise Usage("--dry-run is for --fix: without it, doctor changes nothing")
    found = _look(common, patience)
    if fix:
        found = _fixed(common, found, patience, dry_run=dry_run)
    checks = found.checks
    bad = {Level.FAIL, Level.WARN} if strict else {Level.FAIL}
    if verbose or common.output is not Output.TABLE or sys.stdout.isatty():
        items = [msgspec.to_builtins(check) for check in checks]
        Printer(common).rows(items, COLUMNS, empty="")
    else:
        for check in checks:
            if check.level is not Level.OK:
                print(f"{check.level}: {check.name}: {check.text}", file=sys.stderr)
    return 1 if any(check.level in bad for check in checks) else 0


def _fixed(common: Common, found: Found, patience: float, *, dry_run: bool) -> Found:
    """What the checks find after the mends. A dry run only names them."""
    mends = mends_of(found.checks, found.error)
    if not mends:
        remark("nothing has a safe mend")
    for mend in mends:
        remark(f"{'would mend' if dry_run else 'mend'} {mend.check}: {mend.does}")
        if not dry_run:
            remark(f"mended {mend.check}: {mend.make(common)}")
    return found if dry_run or not mends else _look(common, patience)


def _look(common: Common, max_wait: float) -> Found:
    to = target(common)

    async def work(queue: TaskQueue) -> list[Check]:
        http = http_of(queue)
        if http is None:
            store = (await queue.open()).store
            beside = [await check_leases(store), *await check_machine(to.found.value)]
            return [*await check_all(queue, max_wait), *await check_fleet(store, RULES), *beside]
        return await gateway_checks.check_all(http, max_wait)

    try:
        checks = with_queue(common, work)
    except HoldfastError as error:
        name = "gateway" if to.is_gateway else "store"
        return Found([Check(name, Level.FAIL, f"[{describe(error).code}] {error}")], error)
    where = f"{shown_store(to.found.value)} (from {to.found.origin})"
    return Found([_with_text(checks[0], f"{where}: {checks[0].text}"), *checks[1:]])


def _with_text(check: Check, text: str) -> Check:
    return msgspec.structs.replace(check, text=text)
