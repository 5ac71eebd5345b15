"""The exit codes of commands, in one table. docs/reference/cli.md has the same; a test compares them.

Never: imports a library; the help prints the table.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """How a command ended. The errors of `holdfast.errors` have these codes too (`exit_code`)."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    REFUSED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    TIMEOUT = 7
    PENDING = 8
    REJECTED = 9
    UNAVAILABLE = 10
    INTERRUPTED = 130


SHORT: Final = {
    Exit.DONE: "ok",
    Exit.FAILED: "failed",
    Exit.USAGE: "usage",
    Exit.PARTIAL: "partly failed",
    Exit.REFUSED: "token refused or right missing",
    Exit.NOT_FOUND: "not found",
    Exit.CONFLICT: "conflict",
    Exit.TIMEOUT: "timeout",
    Exit.PENDING: "waits for a decision or an approval",
    Exit.REJECTED: "rejected",
    Exit.UNAVAILABLE: "unavailable",
    Exit.INTERRUPTED: "interrupted",
}
"""What the help says of each."""
