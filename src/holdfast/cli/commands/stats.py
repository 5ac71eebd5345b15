"""`holdfast stats`: how many tasks there are, of what kind, and who works on them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.app import TaskQueue
from holdfast.cli.options import COMMON, Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import with_queue
from holdfast.queue.nodes import Node
from holdfast.queue.stats import Stats

OF_THIS_PROCESS = (
    "registered_handlers",
    "fenced",
    "leases_lost",
    "restarts",
    "deaf_handlers",
    "abandoned_threads",
    "troubles",
)
"""Fields of `Stats` that only a process with workers knows."""


def stats(*, common: Common = COMMON) -> None:
    """Count tasks by status, priority and queue; exact, without a scan."""

    async def work(q: TaskQueue) -> dict[str, Any]:
        return view(await q.get_stats(), await q.get_nodes())

    item = with_queue(common, work)
    Printer(common).one(item, _fields(item), name=item["pending"])


def view(found: Stats, nodes: list[Node]) -> dict[str, Any]:
    """The statistics of the store; workers are those of all live nodes."""
    item: dict[str, Any] = msgspec.to_builtins(found)
    for name in OF_THIS_PROCESS:
        del item[name]
    workers = sum(node.workers for node in nodes)
    busy = sum(node.busy for node in nodes)
    return {**item, "nodes": len(nodes), "workers": workers, "available_workers": workers - busy}


def _fields(item: dict[str, Any]) -> list[tuple[str, object]]:
    by_priority = item["pending_by_priority"]
    waiting = ", ".join(f"{name} {count}" for name, count in by_priority.items())
    hints = item["hints"]
    lines: list[tuple[str, object]] = [
        ("pending", f"{item['pending']} ({waiting})"),
        ("processing", str(item["processing"])),
        ("blocked", str(item["blocked"])),
        ("paused", str(item["paused"])),
        ("completed", str(item["completed"])),
        ("dead letters", str(item["dead_letter_count"])),
        ("aborted", str(item["aborted"])),
        (
            "nodes",
            f"{item['nodes']} live, {item['workers']} workers, {item['available_workers']} free",
        ),
        ("hints", f"{'pushing' if hints['pushing'] else 'polling'}: {hints['why']}"),
    ]
    for name, counts in sorted(item["by_queue"].items()):
        said = ", ".join(f"{status} {count}" for status, count in sorted(counts.items()) if count)
        lines.append((f"queue {name}", said))
    return lines
