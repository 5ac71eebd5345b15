"""Completion in shells: bash for real; for zsh and fish, scripts of a small tree that were seen to work.

HOLDFAST_GOLDEN=1 pytest tests/unit/cli/test_completion.py     # writes the small scripts again
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.commands.completion import SCRIPTS, Shell
from holdfast.cli.completion.commands import all_commands, commands_of
from holdfast.cli.tree import BY_PATH, NOUNS, VERBS

GOLDEN = Path(__file__).parent / "golden"
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_holdfast
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bash") / "holdfast.bash"
    path.write_text(SCRIPTS[Shell.BASH](all_commands()))
    return path


def complete(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", str(script), "holdfast", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ta"], ["task", "task-group"]),
        (["task", "li"], ["list"]),
        (["task", "list", "--stat"], ["--status"]),
        (["task", "list", "--status", "q"], ["queued"]),
        (["--url", "task", "queue", "pa"], ["pause"]),
        (["-o", "json", "task", "list", "--color", "a"], ["auto", "always"]),
        (["-o", "j"], ["json", "jsonl"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["watch", "x", "--progress", "p"], ["plain"]),
        (["queue", "pause", "mail", "--dry-run", "--rea"], ["--reason"]),
        (["queue", "pause", "mail", "--reason", ""], []),
        (["enqueue", "add", ""], []),
        (["no", "such", "--"], []),
        (["help", "ex"], ["exit-codes"]),
        (["help", "dl"], ["dlq"]),
        (["task", "list", "--status", "=", "q"], ["queued"]),
        (["-o", "="], ["table", "wide", "json", "jsonl", "name"]),
    ],
)
def test_bash_completes(script: Path, words: list[str], expected: list[str]) -> None:
    assert complete(script, *words) == expected


def test_bash_completes_every_verb_and_its_options(script: Path) -> None:
    assert set(NOUNS) <= set(complete(script, ""))
    for noun in NOUNS:
        verbs = {verb.path.split()[1] for verb in VERBS if verb.path.startswith(f"{noun} ")}
        assert set(complete(script, noun, "")) == verbs
    assert {"--query", "-q", "--output"} <= set(complete(script, "audit", "list", "-"))


@pytest.mark.parametrize("shell", [Shell.ZSH, Shell.FISH])
def test_the_script_of_a_small_tree(shell: Shell) -> None:
    verbs = [BY_PATH["version"], BY_PATH["completion"], BY_PATH["queue show"]]
    made = SCRIPTS[shell](commands_of(verbs, {"queue": "Queues"}))
    golden = GOLDEN / f"completion.{shell.value}"
    if os.environ.get("HOLDFAST_GOLDEN"):
        golden.write_text(made)
    assert made == golden.read_text()


@pytest.mark.parametrize("shell", [Shell.ZSH, Shell.FISH])
def test_a_script_names_every_command_and_option(shell: Shell) -> None:
    commands = all_commands()
    made = SCRIPTS[shell](commands)
    for command in commands:
        assert f"'{command.path}'" in made or f"\\'{command.path}\\'" in made
        for option in command.options:
            longest = max(option.names, key=len)
            assert (longest if shell is Shell.ZSH else f"-l {longest[2:]}") in made
