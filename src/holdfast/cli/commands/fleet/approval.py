"""`holdfast approval list`: the jobs that wait for votes."""

from __future__ import annotations

from holdfast.cli.api import v1
from holdfast.cli.commands.fleet.job_view import voters
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, After, Common, Limit, Project, Query
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import relative


def list_(
    *,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List the jobs that wait for votes, the oldest first."""
    page = page_of(common, v1("approvals"), q=query, project=project, limit=limit, after=after)
    print_list(common, page, _columns, "no job waits for votes")


def _columns(now: float) -> list[Column]:
    return [
        Column("JOB", lambda item: item["job"]["external_id"] or item["job_id"]),
        Column("COMMAND", _command, flex=True),
        Column("HOSTS", lambda item: item["job"]["hosts"]),
        Column("NEEDS", _need, flex=True),
        Column("EXPIRES", lambda item: relative(item["expires_at"], now)),
        Column("BY", lambda item: item["requested_by"], flex=True, rank=1),
        Column("REASON", lambda item: item["job"]["reason"], flex=True, rank=2),
    ]


def _command(item: Item) -> str:
    job = item["job"]
    return f"{job['command_type']}: {job['command']}"


def _need(item: Item) -> str:
    """The votes of each group of the rule."""
    return ", ".join(f"{count} from {voters(group)}" for group, count in item["need"].items())
