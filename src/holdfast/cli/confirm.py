"""Confirmation of a change that cannot be undone.

Promises: asks on a terminal; elsewhere `--yes` is required and nothing happens without it.
"""

from __future__ import annotations

import sys

from holdfast.cli.problem import Usage


def confirmed(question: str, *, yes: bool, can_count: bool = False) -> bool:
    """Whether to continue. `can_count`: the command has `--dry-run`."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        otherwise = ", or --dry-run to count first" if can_count else ""
        raise Usage(f"{question} There is no terminal to ask on: give --yes{otherwise}")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
