"""`holdfast approve|reject|withdraw`: votes on jobs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.commands.fleet.job import JobId
from holdfast.cli.commands.fleet.job_ref import of_job
from holdfast.cli.commands.fleet.job_view import PENDING, approval_of, votes_of
from holdfast.cli.options import COMMON, Common, DryRun, ExpectVersion, Project, Reason
from holdfast.cli.output.printer import Printer

Why = Annotated[str, Parameter(name=("--reason", "-m"), help="Why; kept with the vote.")]
Digest = Annotated[
    str | None,
    Parameter(help="What you have seen; a job with another digest is not voted on."),
]


def approve(
    job: JobId,
    /,
    *,
    reason: Why,
    expect_digest: Digest = None,
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Vote for a job, never for your own. Exit code 8 while further votes are needed."""
    body = {"reason": reason, "expect_digest": expect_digest, "expected_version": expect_version}
    return _vote(common, job, "approve", body, project, dry_run=dry_run)


def reject(
    job: JobId,
    /,
    *,
    reason: Why,
    expect_digest: Digest = None,
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Vote against a job. The vote that decides cancels what has not started; running hosts go on."""
    body = {"reason": reason, "expect_digest": expect_digest, "expected_version": expect_version}
    return _vote(common, job, "reject", body, project, dry_run=dry_run)


def withdraw(
    job: JobId,
    /,
    *,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Take your vote back, before the job has started. Exit code 8 while votes are needed."""
    body = {"reason": reason, "expected_version": expect_version}
    return _vote(common, job, "withdraw", body, project, dry_run=dry_run)


def _vote(
    common: Common,
    job: str,
    verb: str,
    body: dict[str, Any],
    project: str | None,
    *,
    dry_run: bool,
) -> int:
    item = of_job(common, job, "POST", verb, body=body, project=project, dry_run=dry_run)
    lines = [
        (item["job_id"], f"{item['approval_state']}{', as before' if item['repeated'] else ''}"),
        ("status", item["status"]),
        ("approval", approval_of(item)),
        *votes_of(item),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["job_id"])
    return PENDING if not dry_run and item["approval_state"] in ("WAIT_APPROVAL", "VOID") else 0
