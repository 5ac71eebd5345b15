"""`holdfast init`: the first files of an application.

Promises: all files or none; a file that exists is not touched. Never: opens a store or the network.
"""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from holdfast.cli.options import DryRun
from holdfast.cli.problem import Usage
from holdfast.cli.session import remark
from holdfast.cli.values import STDIN
from holdfast.core.check import shown
from holdfast.core.text import one_line
from holdfast.errors import BadConfig, Conflict

TEMPLATES: Final = {
    "app.py": "a queue with one task",
    "test_app.py": "its test, without a database and without waiting",
    "holdfast-worker.service": "a unit for systemd",
}
"""The files, and what they are."""
NEXT: Final = (
    "holdfast worker app:queue",
    "holdfast enqueue greet name=you --wait    # in another terminal",
    "python -m pytest",
)


def init(
    folder: Annotated[Path, Parameter(help="Where; it is made if it does not exist.")] = Path(),
    /,
    *,
    dry_run: DryRun = False,
) -> None:
    """Write the first files of an application: a queue with a task, its test, a unit for systemd."""
    if str(folder) == STDIN:
        raise Usage("- is no folder: name one, or leave it out for this one")
    path = str(folder.absolute())
    if one_line(path) != path:
        raise BadConfig(
            f"{shown(path)} cannot stand in the unit of systemd: choose a folder without "
            "line breaks and control characters"
        )
    there = [name for name in TEMPLATES if os.path.lexists(folder / name)]
    if there:
        raise Conflict(
            f"{', '.join(there)} in '{folder.absolute()}' would be replaced: choose another folder, "
            "e.g. holdfast init myapp"
        )
    texts = {name: _text(name, folder) for name in TEMPLATES}
    if not dry_run:
        _write(folder, texts)
    for name, what in TEMPLATES.items():
        print(f"{folder / name}  {what}")
    if dry_run:
        remark("dry run: nothing was written")
        return
    steps = NEXT if folder == Path() else (f"cd {_quoted(folder)}", *NEXT)
    for nth, step in enumerate(steps):
        remark(f"{'next' if nth == 0 else '    '}  {step}")


def _quoted(folder: Path) -> str:
    """The folder as a shell takes it."""
    name = str(folder)
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def _text(name: str, folder: Path) -> str:
    text = (files("holdfast.cli") / "templates" / f"{name}.txt").read_text("utf-8")
    program = str(Path(sys.executable).with_name("holdfast"))
    for mark, value in (
        ("@FOLDER@", str(folder.absolute())),
        ("@HOLDFAST@", f'"{program}"' if " " in program else program),
        ("@USER@", _user()),
    ):
        text = text.replace(mark, value.replace("%", "%%"))  # systemd reads % as a mark
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Writes all files. After an error those that were written are removed again."""
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                made.append(folder / name)
                file.write(text)
    except BaseException as error:
        for path in made:
            path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise BadConfig(
            f"'{folder}' cannot be written: {error.strerror}; choose another folder"
        ) from None
