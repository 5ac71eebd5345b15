"""`holdfast completion bash|zsh|fish`: prints a script that completes commands, options and values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.completion import bash, fish, zsh
from holdfast.cli.completion.commands import all_commands


class Shell(StrEnum):
    """A shell with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {Shell.BASH: bash.script, Shell.ZSH: zsh.script, Shell.FISH: fish.script}


def completion(shell: Annotated[Shell, Parameter(help="The shell: bash, zsh or fish.")], /) -> None:
    """Print a script that completes commands, options and values. Load it with `source <(holdfast completion
    bash)`, the same with zsh, or `holdfast completion fish | source`."""
    print(SCRIPTS[shell](all_commands()), end="")
