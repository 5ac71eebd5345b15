"""`holdfast job pause|resume|abort|promote|set|retry|break-glass`: orders to jobs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.commands.fleet.flags import named_by_flags
from holdfast.cli.commands.fleet.job import JobId
from holdfast.cli.commands.fleet.job_ref import of_job
from holdfast.cli.commands.fleet.job_view import command_of, done_of, made_exit
from holdfast.cli.commands.fleet.made import made_lines
from holdfast.cli.options import COMMON, Common, DryRun, ExpectVersion, Project, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.fleet.jobs.control import AbortMode

NO_LIMIT = "none"


def pause(
    job: JobId,
    /,
    *,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Start no further host of a job. Hosts that run go on."""
    _order(common, job, "pause", _body(reason, expect_version), project, dry_run=dry_run)


def resume(
    job: JobId,
    /,
    *,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Go on with a paused job."""
    _order(common, job, "resume", _body(reason, expect_version), project, dry_run=dry_run)


def promote(
    job: JobId,
    /,
    *,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Open the wave that waits for a person."""
    _order(common, job, "promote", _body(reason, expect_version), project, dry_run=dry_run)


def abort(
    job: JobId,
    /,
    *,
    mode: Annotated[
        AbortMode, Parameter(help="drain: hosts that run finish. kill: they are ended.")
    ] = AbortMode.DRAIN,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """End a job. Hosts that have not started are cancelled now."""
    body = _body(reason, expect_version) | {"mode": mode}
    _order(common, job, "abort", body, project, dry_run=dry_run)


@named_by_flags()
def set_(
    job: JobId,
    /,
    *,
    max_in_flight: Annotated[
        str | None, Parameter(help="Hosts at a time: a number, or a share such as 5%.")
    ] = None,
    rate: Annotated[
        str | None, Parameter(help="Hosts that start in a second; none removes the limit.")
    ] = None,
    max_fail: Annotated[
        str | None, Parameter(help="Hosts that may fail: a number, 2%, or none.")
    ] = None,
    max_timeout: Annotated[str | None, Parameter(help="Hosts that may time out.")] = None,
    max_lost: Annotated[str | None, Parameter(help="Hosts that may be lost.")] = None,
    max_unreachable: Annotated[str | None, Parameter(help="Hosts that may not answer.")] = None,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Change the rollout of a job while it runs. More than what was approved is refused (exit code 6)."""
    change: dict[str, Any] = {}
    if max_in_flight is not None:
        change["max_in_flight"] = amount(max_in_flight)
    if rate is not None:
        change["rate_per_second"] = None if rate == NO_LIMIT else per_second(rate)
    budget = budgets(max_fail, max_timeout, max_lost, max_unreachable)
    if budget:
        change["budget"] = budget
    if not change:
        raise Usage("nothing to set: give --max-in-flight, --rate, --max-fail, --max-lost, ...")
    body = _body(reason, expect_version) | change
    _order(common, job, "set", body, project, dry_run=dry_run, method="PATCH", path=())


def retry(
    job: JobId,
    /,
    *,
    only: Annotated[
        str,
        Parameter(
            help="Which ends, with commas: failed, timeout, lost, unreachable, blocked, cancelled."
        ),
    ] = "failed,timeout,lost,unreachable",
    external_id: Annotated[str | None, Parameter(help="Your name of the new job.")] = None,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Make a new job for the hosts of an ended one that failed, timed out, were lost or unreachable, or that
    ended as --only says. Exit code 8 if it waits for an approval."""
    body = _body(reason, expect_version) | {"only": only, "external_id": external_id}
    made = of_job(common, job, "POST", "retry", body=body, project=project, dry_run=dry_run)
    if not dry_run:
        new = of_job(common, made["job_id"], "GET")
        Printer(common).one(made, made_lines(new, created=made["created"]), name=made["job_id"])
        return made_exit(new, created=made["created"])
    lines = [
        ("a new job", made["status"]),
        ("hosts", made["hosts"]),
        ("approval", None if made["approval_state"] == "NOT_REQUIRED" else made["approval_state"]),
    ]
    Printer(common, dry_run=True).one(made, lines, name=made["job_id"])
    return 0


def break_glass(
    job: JobId,
    /,
    *,
    ticket: Annotated[str, Parameter(help="Where this emergency is recorded.")],
    reason: Annotated[str, Parameter(name=("--reason", "-m"), help="Why it cannot wait.")],
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Start a job without its approval. Everybody who may approve gets an event, and the next use is refused
    until another person has reviewed this one."""
    body = _body(reason, expect_version) | {"ticket": ticket}
    path = "break-glass"
    item = of_job(common, job, "POST", path, body=body, project=project, dry_run=dry_run)
    lines = [(item["job_id"], item["status"]), ("approval", f"skipped, ticket {ticket}")]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["job_id"])


def review(
    job: JobId,
    /,
    *,
    reason: Reason = "",
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Say that you have looked at a job that skipped its approval."""
    body = _body(reason, expect_version)
    path = ("break-glass", "review")
    item = of_job(common, job, "POST", *path, body=body, project=project, dry_run=dry_run)
    lines = [(item["job_id"], "reviewed")]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["job_id"])


# -- parts -------------------------------------------------------------------------------------------


def amount(text: str) -> int | str:
    """'5' is a number of hosts, '5%' a share."""
    return int(text) if text.isascii() and text.isdigit() else text


def per_second(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Usage(f"--rate is '{text}': give hosts per second, e.g. 2.5") from None


def budgets(
    failed: str | None, timeout: str | None, lost: str | None, unreachable: str | None
) -> dict[str, int | str | None]:
    """What a job may have how much of. None: no limit."""
    given = {"failed": failed, "timeout": timeout, "lost": lost, "unreachable": unreachable}
    return {
        name: None if text == NO_LIMIT else amount(text)
        for name, text in given.items()
        if text is not None
    }


def _body(reason: str, expect_version: int | None) -> dict[str, Any]:
    return {"reason": reason, "expected_version": expect_version}


def _order(
    common: Common,
    job: str,
    verb: str,
    body: dict[str, Any],
    project: str | None,
    *,
    dry_run: bool,
    method: str = "POST",
    path: tuple[str, ...] | None = None,
) -> None:
    parts = (verb,) if path is None else path
    item = of_job(common, job, method, *parts, body=body, project=project, dry_run=dry_run)
    after = item["job"]
    said = f"{after['status']}{', as before' if item['repeated'] else ''}"
    lines = [
        (after["id"], said),
        ("command", command_of(after)),
        ("ended", f"{done_of(after)} of {after['hosts']}"),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=after["id"])
