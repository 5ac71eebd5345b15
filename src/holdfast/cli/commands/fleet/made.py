"""Prints a job that was made: by `holdfast run`, or as the retry of another."""

from __future__ import annotations

from holdfast.cli.commands.fleet.job_view import (
    approval_of,
    command_of,
    cut,
    excluded_of,
    has_ended,
    hosts_of,
    limits_of,
    rule_of,
    sizes_of,
    window_of,
)
from holdfast.cli.output.table import Item
from holdfast.core.fleet.model import JobStatus


def made_lines(job: Item, *, created: bool) -> list[tuple[str, object]]:
    """A new job: what will happen, and what to do next."""
    is_waiting = job["status"] == JobStatus.WAIT_APPROVAL
    return [
        (job["id"], job["status"] + ("" if created else ", made before")),
        ("external id", job["external_id"]),
        ("command", command_of(job)),
        ("retry of", job["parent_job_id"]),
        ("hosts", hosts_of(job)),
        ("waves", cut(sizes_of(job))),
        ("window", window_of(job)),
        ("halts above", limits_of(job)),
        *excluded_of(job["excluded"]),
        ("approval", approval_of(job)),
        ("rule", rule_of(job)),
        ("approve", f"holdfast approve {job['id']} -m TEXT" if is_waiting else None),
        ("follow", f"holdfast watch {job['id']}"),
        ("again", None if created or not has_ended(job) else "use another --external-id"),
    ]
