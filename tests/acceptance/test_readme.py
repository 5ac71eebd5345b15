"""The commands of README.md work as they are printed, in a fresh folder with its first program."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Cli, Worker

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"`holdfast ([a-z][^`]*)`", README)))
SERVES = [command for command in COMMANDS if command.startswith("worker ")]
ENDS = [command for command in COMMANDS if command not in SERVES]


@pytest.fixture
def fresh(tmp_path: Path) -> Cli:
    """A folder with the first program of the page, under the name that the page gives it."""
    name = re.findall(r"Saved as `(\w+\.py)`", README)[0]
    program = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    (tmp_path / name).write_text(program, "utf-8")
    return Cli(tmp_path)


def test_the_page_has_commands() -> None:
    assert len(SERVES) == 1
    assert len(ENDS) == 2


@pytest.mark.parametrize("command", ENDS)
def test_a_command_ends_well(fresh: Cli, command: str) -> None:
    assert fresh.ok(*shlex.split(command))


@pytest.mark.parametrize("command", SERVES)
def test_a_worker_of_the_page_is_up(fresh: Cli, command: str) -> None:
    words = shlex.split(command)
    count = int(words[words.index("--processes") + 1])
    with Worker(fresh, words) as worker:
        assert len(worker.ready(count)) == count
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0


def test_every_verb_of_make_exists() -> None:
    verbs = set(re.findall(r"^make (\w+)|`make (\w+)`", README, re.MULTILINE))
    named = {one or other for one, other in verbs}
    there = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert len(named) >= 7
    assert named <= there
