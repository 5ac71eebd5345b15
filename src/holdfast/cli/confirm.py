"""Asking before a change that cannot be taken back.

Promises: on a terminal a person is asked; elsewhere `--yes` is needed and nothing happens without it.
"""

from __future__ import annotations

import sys

from holdfast.cli.problem import Usage


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether to go on."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Usage(
            f"{question} Nobody can be asked here: give --yes, or look first with --dry-run"
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
