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
    from holdfast.cli.demo.stage import Stage

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
    os.environ.update(  # the handlers' module reads them when it is imported, here and in the workers
        HOLDFAST_DEMO_URL=url, HOLDFAST_DEMO_QUEUE=name, HOLDFAST_DEMO_FOLDER=str(folder)
    )
    stream = sys.stdout if common.output is Output.TABLE else sys.stderr
    try:
        from holdfast.cli.demo.stage import Stage

        stage = asyncio.run(Stage(name, folder, stream).run())
        _print(common, stage, url, kept=keep)
    finally:
        if not keep or not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if stage.proof.holds else 1


def _print(common: Common, stage: Stage, url: str, *, kept: bool) -> None:
    from holdfast.cli.demo import summary

    printer = Printer(common)
    if printer.is_table:
        print()
        print("\n".join(summary.lines(stage.proof, stage.tally, stage.story, url, kept=kept)))
    else:
        found = summary.as_json(stage.proof, stage.tally, stage.story, url)
        printer.one(found, [], name=stage.name)
