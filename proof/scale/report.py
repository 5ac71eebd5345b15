"""The tables: what was measured, where one PostgreSQL ends by the model, and how far the model is off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from proof.lab.report import markdown
from proof.scale import predict
from proof.scale.process import HINTS

Found: TypeAlias = dict[str, Any]


def text(found: Found, *, is_quick: bool = False) -> str:
    """All tables, as Markdown."""
    tables: list[Callable[[Found], str]] = [tasks, bytes_of, feed, idle, writers, validation]
    parts = [table(found) for table in tables]
    return "\n\n".join([*parts, ends(found, is_quick=is_quick)])


def tasks(found: Found) -> str:
    """One row for each step of a task."""
    postgres, sqlite = found["tasks on postgres"], found["tasks on sqlite"]
    rows = [
        [
            name,
            *(f"{row[key]:,.4g}" for key in ("client_us", "server_us", "wal_bytes", "syncs")),
            f"{sqlite[name]['client_us']:,.4g}",
        ]
        for name, row in postgres.items()
        if "client_us" in row
    ]
    head = ["step", "CPU of the process, us", "CPU of PostgreSQL, us", "log, bytes", "syncs"]
    return "For each task; for each event where the step is `watch`.\n\n" + markdown(
        [*head, "SQLite: CPU of the process, us"], rows
    )


def bytes_of(found: Found) -> str:
    """One row for each state."""
    postgres, sqlite = found["tasks on postgres"], found["tasks on sqlite"]
    parts = ("task_bytes", "task_index_bytes", "feed_bytes", "feed_index_bytes")
    rows = [
        [name, *(f"{row[part]:,}" for part in parts), f"{sqlite[name]['bytes']:,}"]
        for name, row in postgres.items()
        if parts[0] in row
    ]
    head = ["bytes of a task", "rows", "their indexes", "events", "their indexes"]
    return markdown([*head, "SQLite, all"], rows)


def feed(found: Found) -> str:
    """What is done under the lock of the feed."""
    steps = {"holdfast_number": "assign an offset", "holdfast_count": "count"}
    rows = [
        [text, f"{found['feed'][name]['us']:g}", f"{found['feed'][name]['wal_bytes']:,}"]
        for name, text in steps.items()
    ]
    return markdown(["for each record of the feed", "CPU, us", "log, bytes"], rows)


def idle(found: Found) -> str:
    """One row for each process."""
    rows = [
        [
            f"{role.replace('_', ' ')}, {store}",
            f"{row['client_percent']:.2f} %",
            f"{row['server_percent']:.2f} %" if row["connections"] else "",
            f"{row['connections'] or ''}",
            ", ".join(map(str, row["backend_mb"])),
        ]
        for store in ("postgres", "sqlite")
        for role, row in found[f"idle on {store}"].items()
    ]
    head = ["idle process", "CPU of a core", "CPU of PostgreSQL", "connections"]
    return markdown([*head, "own memory of their backends, MB"], rows)


def writers(found: Found) -> str:
    """One row for each number of processes, with hints and without."""
    points = {(p["disk_ms"], p["processes"], p["hints"]): p for p in found["writers"]}
    rows = []
    for disk, processes in sorted({key[:2] for key in points}):
        lone = predict.lone_rate(found, disk)
        these = [points[disk, processes, hints] for hints in HINTS]
        rows.append(
            [
                f"{disk:g}",
                f"{processes}",
                *(f"{p['per_second'] / lone:.2f}" for p in these),
                *(f"{p['waits'].get('Lock:object', 0):.0%}" for p in these[:2]),
                *(f"{p['syncs']:.2f}" for p in these),
            ]
        )
    head = ["sync, ms", "processes", *(f"rate, {hints}" for hints in HINTS)]
    head += [f"waits for the lock, {hints}" for hints in list(HINTS)[:2]]
    return markdown([*head, *(f"syncs a task, {hints}" for hints in HINTS)], rows)


def validation(found: Found) -> str:
    """The model beside what was measured."""
    rows = [
        [
            f"{point.disk_ms:g}",
            f"{point.processes}",
            point.hints,
            f"{point.measured:,.0f}",
            f"{point.modelled:,.0f}",
            f"{point.error:+.0%}",
            f"{point.syncs:.2f}",
            f"{point.modelled_syncs:.2f}",
        ]
        for point in predict.validated(found)
    ]
    head = ["sync, ms", "processes", "hints", "measured, tasks/s", "model, tasks/s", "error"]
    return markdown([*head, "syncs a task, measured", "model"], rows)


def ends(found: Found, *, is_quick: bool) -> str:
    """One row for each machine and way of handing in."""
    rows = []
    for end in predict.ends(found, quick=is_quick):
        use = end.outcome.use
        rows.append(
            [
                end.way,
                f"{end.machine.cores}",
                f"{end.machine.sync_seconds * 1e3:g}",
                f"{rounded(end.outcome.tasks):,}",
                end.first,
                f"{end.producers} + {end.workers}",
                *(f"{use[name]:.0%}" for name in ("cores", "hint lock", "feed lock")),
                f"{rounded(end.outcome.commits):,}",
                f"{end.outcome.wal / 1e6:,.0f}",
            ]
        )
    head = ["handed in", "cores", "sync, ms", "tasks/s", "ends first", "producers + workers"]
    head += ["cores in use", "lock of NOTIFY", "lock of the feed", "commits/s", "log, MB/s"]
    return markdown(head, rows)


def rounded(value: float) -> int:
    """Two digits: a model has no more."""
    digits = max(0, len(str(int(value))) - 2)
    return int(round(value, -digits))
