"""`holdfast demo`: the command."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from holdfast.cli.options import COMMON, Common, Output
from holdfast.cli.output.printer import Printer

if TYPE_CHECKING:
    from holdfast.cli.demo.script import Demo

PREFIX: Final = "holdfast-demo-"


def demo(
    *,
    keep: Annotated[bool, Parameter(help="Keep the store, to look at it afterwards.")] = True,
    common: Common = COMMON,
) -> int:
    """Watch tasks survive failures and a killed worker, in about 15 seconds.

    Hundreds of tasks of four priorities run in three worker processes, one of which is killed with
    SIGKILL. Without --url it makes a SQLite file in the folder for temporary files.
    """
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    url = common.url or f"sqlite:///{folder / 'demo.db'}"
    name = f"demo-{folder.name.removeprefix(PREFIX)}"
    os.environ.update(  # `tasks.py` reads them on import, in this process and in the workers
        HOLDFAST_DEMO_URL=url, HOLDFAST_DEMO_QUEUE=name, HOLDFAST_DEMO_FOLDER=str(folder)
    )
    stream = sys.stdout if common.output is Output.TABLE else sys.stderr
    try:
        from holdfast.cli.demo.script import Demo

        finished = asyncio.run(Demo(name, folder, stream).run())
        _print(common, finished, url, keep=keep)
    finally:
        if not keep or not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if finished.report.holds else 1


def _print(common: Common, finished: Demo, url: str, *, keep: bool) -> None:
    from holdfast.cli.demo import display

    printer = Printer(common)
    report, progress, result = finished.report, finished.progress, finished.result
    if printer.is_table:
        print()
        print("\n".join(display.summary(report, progress, result, url, keep=keep)))
    else:
        view = display.summary_json(report, progress, result, url)
        printer.one(view, [], name=finished.name)
