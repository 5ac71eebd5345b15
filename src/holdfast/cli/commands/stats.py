"""`holdfast stats`: counts of tasks, and the nodes that run them."""

from __future__ import annotations

from typing import Any

from holdfast.cli.options import COMMON, Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import with_parts
from holdfast.cli.use_cases import UseCases
from holdfast.queue import views


def stats(*, common: Common = COMMON) -> None:
    """Count tasks by status, priority and queue; exact, without a scan."""

    async def work(parts: UseCases) -> dict[str, Any]:
        head = await parts.feed.position()
        return views.stats(await parts.stats.get(), await parts.nodes.runners(), head)

    item = with_parts(common, work)
    Printer(common).one(item, _fields(item), name=item["queued"])


def _fields(item: dict[str, Any]) -> list[tuple[str, object]]:
    by_priority = item["queued_by_priority"]
    waiting = ", ".join(f"{name} {count}" for name, count in by_priority.items())
    hints = item["hints"]
    lines: list[tuple[str, object]] = [
        ("queued", f"{item['queued']} ({waiting})"),
        ("running", str(item["running"])),
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
