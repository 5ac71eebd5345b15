"""Prints the hosts on which a command has failed, with equal failures once.

Promises: one line for each kind of end: `web-[1-4]: failed, exit 2`. Never: reads executions.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.commands.fleet.job_view import cut
from holdfast.cli.output.table import Item
from holdfast.core.fleet.hosts.names import fold


def failure_lines(executions: Sequence[Item]) -> list[str]:
    """A line for equal ends, that of the most hosts first."""
    found: dict[str, list[str]] = {}
    for execution in executions:
        found.setdefault(_end(execution), []).append(execution["host"])
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return [f"{cut(fold(hosts))}: {end}" for end, hosts in ordered]


def _end(execution: Item) -> str:
    """failed, exit 2. The reason follows if it says more than the exit code."""
    code = execution["exit_code"]
    plain = f"the command failed: it ended with exit code {code}"
    reason = (execution["reason"] or "").removeprefix(plain).removeprefix(": ")
    parts = [execution["kind"], *([] if code is None else [f"exit {code}"])]
    return ", ".join(parts) + (f": {reason}" if reason else "")
