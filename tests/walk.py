"""Takes the steps of a page, as a reader would: saves its files, runs its commands, compares what they print.

| in the page | step |
|---|---|
| a block that begins with `# NAME.EXT` | the file is written; a second one of the same name replaces it |
| `console`: `$ command`, then lines | it prints these lines. `…` is any text, alone on a line any lines |
| `console`: `$ holdfast worker …` | it stays up; the lines are awaited in what it writes |
| `console`: lines without a command | are awaited in what the last worker writes |
| `console`: `^C` | SIGINT to the last worker, which has to end with 0 |
| `$ export NAME=value` | holds for all later commands |
| `$ pip install 'holdfast[extra]'` | is not run: the extra has to exist |

A command has to succeed, unless its output has a line that begins with `error[`. Runs of spaces count as one.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests import launcher
from tests.acceptance.cli_support import HOLDFAST, LEFT_OUT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w/.-]+\.\w+|Dockerfile)\n")
SECONDS = 100
SERVES = ("holdfast worker", "holdfast server")


class Block(NamedTuple):
    language: str
    text: str


class Step(NamedTuple):
    """A command with the lines that follow it. An empty command continues the last worker."""

    command: str
    said: list[str]


def blocks(text: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(text)]


def steps(text: str) -> Iterator[Step]:
    command, said = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ ") or line == "^C":
            if command or said:
                yield Step(command, said)
            command, said = line.removeprefix("$ "), []
        elif command.endswith("\\"):
            command = f"{command[:-1]} {line.strip()}"
        else:
            said.append(line)
    yield Step(command, said)


def pattern(said: list[str]) -> str:
    """A regular expression of the lines that a page shows."""
    lines = []
    for line in said:
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            words = re.escape(" ".join(line.split())).replace("…", ".*").replace(r"\ ", " ")
            lines.append(f"{words}\n")
    return "".join(lines)


def plain(text: str) -> str:
    """The text with one space between words and without empty lines at its end."""
    lines = [" ".join(line.split()) for line in text.rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


class Serving:
    """A worker that is up, and the lines that it has written."""

    def __init__(self, words: list[str], folder: Path, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [*HOLDFAST, *words],
            cwd=folder,
            env=dict(env),
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = self._process.stdout

    def says(self, said: list[str]) -> None:
        """Waits for each line, in order."""
        for line in said:
            written: list[str] = []
            if line.strip() == "…":
                continue
            for found in self._lines:
                written.append(found)
                if re.search(pattern([line])[:-1], plain(found)):
                    break
            else:
                raise AssertionError(f"{line!r} is not in:\n{''.join(written)}")

    def interrupt(self, said: list[str]) -> None:
        self._process.send_signal(signal.SIGINT)
        self.says(said)
        rest, _ = self._process.communicate(timeout=SECONDS)
        assert self._process.returncode == 0, rest

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


class Walk:
    """The steps of one page, in a folder."""

    def __init__(self, folder: Path, replace: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.env = {name: text for name, text in os.environ.items() if name not in LEFT_OUT}
        bin_folder = Path(sys.executable).parent
        self.env |= {"PATH": f"{bin_folder}{os.pathsep}{self.env['PATH']}", "NO_COLOR": "1"}
        self._replace = dict(replace or {})
        self._serving: list[Serving] = []
        self.commands: list[str] = []

    def take(self, text: str) -> None:
        """Takes all steps of a page."""
        for block in blocks(text):
            if named := FILE.match(block.text):
                path = self.folder / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._put_in(block.text), "utf-8")
            elif block.language == "console":
                for step in steps(self._put_in(block.text)):
                    self._take(step)

    def close(self) -> None:
        for serving in self._serving:
            serving.close()

    def _put_in(self, text: str) -> str:
        """Puts addresses of this machine in place of those of the page."""
        for shown, real in self._replace.items():
            text = text.replace(shown, real)
        return text

    def _take(self, step: Step) -> None:
        self.commands.append(step.command)
        if step.command.startswith("export "):
            name, _, value = step.command.removeprefix("export ").partition("=")
            self.env[name] = shlex.split(value)[0]
        elif step.command.startswith("pip install"):
            for words in re.findall(r"holdfast\[([\w,]+)\]", step.command):
                there = importlib.metadata.metadata("holdfast").get_all("Provides-Extra") or []
                assert set(words.split(",")) <= set(there), step.command
        elif step.command == "^C":
            self._serving.pop().interrupt(step.said)
        elif not step.command:
            self._serving[-1].says(step.said)
        elif step.command.startswith(SERVES):
            words = shlex.split(step.command, comments=True)[1:]
            self._serving.append(Serving(words, self.folder, self.env))
            self._serving[-1].says(step.said)
        else:
            self._run(step)

    def _run(self, step: Step) -> None:
        words = shlex.split(step.command, comments=True)
        if words[0] == "holdfast" and not set(words) & {"|", ">", "<", "&&"}:
            ran = launcher.run(words[1:], self.folder, self.env, "", timeout=SECONDS)
        else:
            ran = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", step.command],
                capture_output=True,
                text=True,
                cwd=self.folder,
                env=self.env,
                check=False,
                timeout=SECONDS,
            )
        outputs = (
            plain(ran.stdout + ran.stderr),
            plain(ran.stderr + ran.stdout),
            plain(ran.stdout),
        )
        shown = f"$ {step.command}\n{ran.stdout}{ran.stderr}"
        assert (ran.returncode == 0) == ("error[" not in outputs[0]), shown
        said = step.said
        while said and not said[-1].strip():
            said = said[:-1]
        wanted = pattern(said) if said else None
        assert wanted is None or any(re.fullmatch(wanted, output) for output in outputs), (
            f"{shown}\nThe page says:\n" + "\n".join(said)
        )


@contextmanager
def walking(folder: Path, replace: Mapping[str, str] | None = None) -> Iterator[Walk]:
    """Ends the workers that the page has left running."""
    walk = Walk(folder, replace)
    try:
        yield walk
    finally:
        walk.close()
