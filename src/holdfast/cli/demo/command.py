"""`holdfast demo`: the command."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TextIO

from cyclopts import Parameter

from holdfast.cli.options import COMMON, Common
from holdfast.cli.output.printer import Printer
from holdfast.clock import SystemClock
from holdfast.errors import MissingExtra

if TYPE_CHECKING:
    from holdfast.cli.demo.fleet_checks import FleetRun
    from holdfast.cli.demo.script import Demo

PREFIX: Final = "holdfast-demo-"


class FinishedFleet(NamedTuple):
    """The second part: its store, and what was seen."""

    url: str
    seen: FleetRun


def demo(
    *,
    keep: Annotated[bool, Parameter(help="Keep the store, to look at it afterwards.")] = True,
    common: Common = COMMON,
) -> int:
    """Watch tasks survive a killed worker, and a command run on 1,000 hosts, in under a minute.

    Hundreds of tasks of four priorities run in three worker processes, one of which is killed with
    SIGKILL. Then a server rolls one command out on 1,000 simulated hosts: approved, blocked on a rack, over a
    network that loses messages; this part needs holdfast[gateway]. Without --url it makes SQLite files in the
    folder for temporary files.
    """
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    url = common.url or f"sqlite:///{folder / 'demo.db'}"
    name = f"demo-{folder.name.removeprefix(PREFIX)}"
    os.environ.update(  # `tasks.py` reads them on import, in this process and in the workers
        HOLDFAST_DEMO_URL=url, HOLDFAST_DEMO_QUEUE=name, HOLDFAST_DEMO_FOLDER=str(folder)
    )
    stream = sys.stdout if Printer(common).is_table else sys.stderr
    try:
        from holdfast.cli.demo import display
        from holdfast.cli.demo.fleet_checks import fleet_claims
        from holdfast.cli.demo.script import Demo

        printer = Printer(common)
        finished = asyncio.run(Demo(name, folder, stream).run())
        if printer.is_table:
            print()
            print("\n".join(display.summary(finished.report, finished.progress, finished.result)))
            print()
        fleet = _run_fleet(common.url or f"sqlite:///{folder / 'fleet.db'}", folder, stream)
        _print(printer, finished, fleet, url, keep=keep)
    finally:
        if not keep or not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    is_proved = fleet is None or all(claim.holds for claim in fleet_claims(fleet.seen))
    return 0 if finished.report.holds and is_proved else 1


def _run_fleet(url: str, folder: Path, stream: TextIO) -> FinishedFleet | None:
    """None: the packages of a server are not installed."""
    from holdfast.gateway.server import check_extra

    try:
        check_extra()
    except MissingExtra:
        print("The part with 1,000 hosts needs: pip install 'holdfast[gateway]'", file=stream)
        return None
    from holdfast.cli.demo.fleet import FleetDemo

    return FinishedFleet(url, asyncio.run(FleetDemo(url, folder, stream, SystemClock()).run()))


def _print(
    printer: Printer, finished: Demo, fleet: FinishedFleet | None, url: str, *, keep: bool
) -> None:
    from holdfast.cli.demo import display
    from holdfast.cli.demo.fleet_checks import fleet_claims

    report, progress, result = finished.report, finished.progress, finished.result
    if not printer.is_table:
        view = display.summary_json(report, progress, result, url)
        if fleet is not None:
            claims = fleet_claims(fleet.seen)
            view["fleet"] = display.fleet_json(fleet.seen, claims, fleet.url)
            view["ok"] = report.holds and all(claim.holds for claim in claims)
        printer.one(view, [], name=finished.name)
        return
    if fleet is not None:
        print()
        print("\n".join(display.fleet_summary(fleet.seen, fleet_claims(fleet.seen))))
    if keep:
        print()
        print("\n".join(display.next_steps(url, report, None if fleet is None else fleet.url)))
