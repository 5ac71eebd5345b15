"""The output of a run: printed tables and files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from proof.lab.report import markdown

RESULTS = Path(__file__).resolve().parent / "results"
Text: TypeAlias = Callable[[dict[str, Any]], str]


def write(name: str, result: dict[str, Any], text: str, folder: Path = RESULTS) -> None:
    """Writes JSON, and a table as Markdown."""
    (folder / f"{name}.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
    (folder / f"{name}.md").write_text(text + "\n")
    sys.stdout.write(text + "\n\n")


def memory_text(result: dict[str, Any]) -> str:
    """One row for each process and figure."""
    rows = [
        [
            name,
            figure,
            f"{v['second_quarter']:g}",
            f"{v['last_quarter']:g}",
            f"{v['per_hour']:+g}",
            "flat" if v["flat"] else "GROWS",
        ]
        for name, figures in result["processes"].items()
        for figure, v in figures.items()
    ]
    head = ["process", "figure", "second quarter", "last quarter", "an hour", "verdict"]
    intro = (
        f"Memory over {result['minutes']:g} minutes of mixed load, {result['cores_used']} cores used. "
        "Medians of quarters of the run; own_mb is private memory of a process, blocks are "
        "what Python's allocator has handed out, tasks those of asyncio."
    )
    return f"{intro}\n\n{markdown(head, rows)}"


def reader_text(result: dict[str, Any]) -> str:
    """Two rows for each pair."""
    rows = []
    for pair in result["pairs"]:
        for name in ("clean", "held"):
            window = pair[name]
            last = window["samples"][-1]
            task, feed = last["tables"]["holdfast_task"], last["tables"]["holdfast_feed"]
            rows.append(
                [
                    name,
                    f"{window['rate_at_end']:,.0f}",
                    f"{window['rate_in_all']:,.0f}",
                    f"{window['cpu_ms_at_end']:.3f}",
                    f"{last['ran']:,}",
                    f"{task['dead']:,}",
                    _mb(task),
                    _mb(feed),
                ]
            )
    head = ["snapshot", "tasks/s, last third", "tasks/s, all the time", "CPU ms a task, last third"]
    head += ["tasks run", "dead tuples of tasks", "tasks MB", "feed MB"]
    verdict = "reached" if result["reached"] else "MISSED"
    intro = (
        f"An old reader on PostgreSQL, beside a clean run at the same time: {result['rounds']} times "
        f"{result['seconds']:g} s. Held / clean at the end: {result['ratio']} "
        f"(bar {result['bar']}: {verdict}); CPU for a task, clean / held: {result['cpu_ratio']}."
    )
    return f"{intro}\n\n{markdown(head, rows)}"


def _mb(sizes: dict[str, int]) -> str:
    return f"{(sizes['bytes'] + sizes['index_bytes']) / 1e6:.0f}"


def size_text(result: dict[str, Any]) -> str:
    """One row for each store and shape."""
    parts = ("task_bytes", "task_index_bytes", "feed_bytes", "feed_index_bytes")
    rows = [
        [row["store"], row["shape"], f"{row['bytes_per_task']:,}"]
        + [" + ".join(f"{row[part]:,}" for part in parts) if parts[0] in row else ""]
        + [f"{row[key]:,}" for key in ("bytes_per_task_after_pruning", "bytes_per_task_full_again")]
        for row in result["rows"]
    ]
    head = ["store", "handed in", "bytes a finished task", "task rows + indexes + feed + index"]
    head += ["after pruning", "full again"]
    return (
        f"Database for each of {result['tasks']:,} finished tasks with a small payload, after a vacuum; then "
        "all pruned, then as many once more: PostgreSQL keeps the space and uses it again, SQLite's free "
        f"pages are not counted.\n\n{markdown(head, rows)}"
    )


def prune_text(result: dict[str, Any]) -> str:
    """One row for each store."""
    rows = []
    for row in result["rows"]:
        samples = row["pruned"]["samples"]
        peaks = [
            f"{max(s[key] for s in samples):,.0f}" for key in ("tasks", "records", "megabytes")
        ]
        level = all(row["pruned"]["level"].values())
        rows.append(
            [
                row["store"],
                f"{row['pruned']['rate']:,.0f}",
                f"{row['kept']['rate']:,.0f}",
                f"{row['ratio']:.2f}",
                f"{samples[-1]['ran']:,}",
                *peaks,
                "yes" if level else "NO",
            ]
        )
    head = ["store", "tasks/s, pruned", "tasks/s, all kept", "ratio", "tasks run"]
    head += ["most tasks kept", "most records", "most MB", "stays level"]
    return (
        f"Saturating load of {result['seconds']:g} s with a retention of {result['keep_seconds']:g} s, "
        f"beside a third of that time with everything kept.\n\n{markdown(head, rows)}"
    )
