"""The table of jobs, approvals and webhooks. Part of the table of the fleet (`rest/fleet.py`)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from holdfast.client import job_models as models, webhook_models
from holdfast.core.fleet.jobs.folded import GROUPS_SHOWN
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.output import StreamName
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations.fleet import approvals, job_control, jobs, webhooks
from holdfast.gateway.rest.fleet_queries import OfProject, PagedOfProject, SearchOfProject
from holdfast.gateway.rest.route import PagedSearch, Route
from holdfast.sync.worker.reads import PAGE_BYTES


class JobsQuery(PagedOfProject, frozen=True, forbid_unknown_fields=True):
    """`q`: the fields of a job, and `host:` and `parent:` as the parameters of these names."""

    q: str = ""
    status: str | None = None
    host: str | None = None
    parent: str | None = None


class JobQuery(OfProject, frozen=True, forbid_unknown_fields=True):
    """`drift`: also how the hosts have changed since the job was made."""

    drift: bool = False


class ExecutionsQuery(SearchOfProject, frozen=True, forbid_unknown_fields=True):
    status: str | None = None
    kind: str | None = None
    host: str | None = None
    wave: int | None = None


class LogsQuery(OfProject, frozen=True, forbid_unknown_fields=True):
    stream: str = StreamName.STDOUT.value
    start: int = 0
    limit_bytes: int = PAGE_BYTES


class JobOutputQuery(OfProject, frozen=True, forbid_unknown_fields=True):
    """`limit`: groups of equal outputs."""

    stream: str = StreamName.STDOUT.value
    limit: int = GROUPS_SHOWN


class MatrixQuery(OfProject, frozen=True, forbid_unknown_fields=True):
    """`names`: also the names, waves and labels of the hosts."""

    names: bool = False


class ApprovalsQuery(SearchOfProject, frozen=True, forbid_unknown_fields=True):
    state: Literal["pending"] = "pending"


class WebhooksQuery(SearchOfProject, frozen=True, forbid_unknown_fields=True):
    direction: Literal["in", "out"] | None = None


class WebhookRemoval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str = ""


_CREATION: Final = tuple(
    Route(
        "POST",
        path,
        handler,
        "Run a command on hosts",
        body=JobRequest,
        operation=O.JOBS_CREATE,
        status=202,
        is_signed=is_signed,
    )
    for path, handler, is_signed in (
        ("/webhook/jobs", jobs.create, True),
        ("/webhook/jobs/{source}", jobs.create_signed, True),
        ("/jobs", jobs.create, False),
    )
)
_READS: Final = (
    Route(
        "GET",
        "/jobs",
        jobs.find,
        "List jobs",
        JobsQuery,
        operation=O.JOBS_READ,
        is_list=True,
        items=models.JobRow,
        own_keys=("status", "host", "parent", "project"),
    ),
    Route("GET", "/jobs/{job_id}", jobs.get, "One job", JobQuery, operation=O.JOBS_READ),
    Route(
        "GET",
        "/jobs/{job_id}/plan",
        jobs.plan,
        "What would run on each host",
        SearchOfProject,
        operation=O.JOBS_READ,
        is_list=True,
        items=models.PlanRow,
    ),
    Route(
        "GET",
        "/jobs/{job_id}/executions",
        jobs.executions,
        "The executions of a job",
        ExecutionsQuery,
        operation=O.JOBS_READ,
        is_list=True,
        items=models.ExecutionView,
    ),
    Route(
        "GET",
        "/jobs/{job_id}/matrix",
        jobs.matrix,
        "Where each host of a job stands, one letter each",
        MatrixQuery,
        operation=O.JOBS_READ,
    ),
    Route(
        "GET",
        "/jobs/{job_id}/output",
        jobs.output,
        "The outputs of all hosts, equal ones once",
        JobOutputQuery,
        operation=O.JOBS_READ,
    ),
    Route(
        "GET",
        "/jobs/{job_id}/executions/{execution_id}",
        jobs.execution,
        "One execution, by its id or its host",
        OfProject,
        operation=O.JOBS_READ,
    ),
    Route(
        "GET",
        "/jobs/{job_id}/executions/{execution_id}/logs",
        jobs.logs,
        "The output of an execution",
        LogsQuery,
        operation=O.JOBS_READ,
    ),
    Route(
        "GET",
        "/jobs/{job_id}/executions/{execution_id}/why",
        jobs.why,
        "Why an execution is where it is",
        OfProject,
        operation=O.JOBS_READ,
    ),
    Route(
        "GET",
        "/approvals",
        approvals.find,
        "Jobs that wait for votes",
        ApprovalsQuery,
        operation=O.JOBS_READ,
        is_list=True,
        items=models.ApprovalRow,
    ),
)
_ORDERS: Final = (
    *(
        Route(
            "POST",
            f"/jobs/{{job_id}}/{verb}",
            handler,
            summary,
            OfProject,
            body=body,
            operation=operation,
        )
        for verb, handler, summary, body, operation in (
            ("pause", job_control.pause, "Pause a job", job_control.OrderBody, O.JOBS_CONTROL),
            ("resume", job_control.resume, "Resume a job", job_control.OrderBody, O.JOBS_CONTROL),
            ("abort", job_control.abort, "Abort a job", job_control.AbortBody, O.JOBS_CONTROL),
            (
                "promote",
                job_control.promote,
                "Open the next wave",
                job_control.OrderBody,
                O.JOBS_CONTROL,
            ),
            ("approve", approvals.approve, "Vote for a job", approvals.VoteBody, O.JOBS_APPROVE),
            ("reject", approvals.reject, "Vote against a job", approvals.VoteBody, O.JOBS_APPROVE),
            (
                "withdraw",
                approvals.withdraw,
                "Withdraw a vote",
                job_control.OrderBody,
                O.JOBS_APPROVE,
            ),
            (
                "break-glass",
                approvals.break_glass,
                "Start a job without its approval",
                approvals.GlassBody,
                O.JOBS_BREAK_GLASS,
            ),
        )
    ),
    Route(
        "POST",
        "/jobs/{job_id}/break-glass/review",
        approvals.review,
        "Review a job that skipped its approval",
        OfProject,
        body=job_control.OrderBody,
        operation=O.JOBS_APPROVE,
    ),
    Route(
        "PATCH",
        "/jobs/{job_id}",
        job_control.change,
        "Change the rollout of a job",
        OfProject,
        body=job_control.JobChange,
        operation=O.JOBS_CONTROL,
    ),
    Route(
        "POST",
        "/jobs/{job_id}/retry",
        job_control.retry,
        "Run a job again where it did not succeed",
        OfProject,
        body=job_control.RetryBody,
        operation=O.JOBS_CREATE,
        status=202,
    ),
)
_WEBHOOKS: Final = (
    Route(
        "GET",
        "/webhooks",
        webhooks.find,
        "List webhooks",
        WebhooksQuery,
        operation=O.WEBHOOKS_MANAGE,
        is_list=True,
        items=webhook_models.WebhookView,
    ),
    Route(
        "GET", "/webhooks/{webhook_id}", webhooks.get, "One webhook", operation=O.WEBHOOKS_MANAGE
    ),
    Route(
        "POST",
        "/webhooks",
        webhooks.add,
        "Add a source or an endpoint of webhooks",
        body=webhooks.WebhookBody,
        operation=O.WEBHOOKS_MANAGE,
        status=201,
    ),
    Route(
        "PATCH",
        "/webhooks/{webhook_id}",
        webhooks.change,
        "Change a webhook",
        body=webhooks.WebhookChange,
        operation=O.WEBHOOKS_MANAGE,
    ),
    Route(
        "DELETE",
        "/webhooks/{webhook_id}",
        webhooks.remove,
        "Remove a webhook",
        WebhookRemoval,
        operation=O.WEBHOOKS_MANAGE,
    ),
    Route(
        "GET",
        "/webhooks/{webhook_id}/deliveries",
        webhooks.deliveries,
        "The messages for an endpoint",
        PagedSearch,
        operation=O.WEBHOOKS_MANAGE,
        is_list=True,
        items=webhook_models.DeliveryView,
    ),
    *(
        Route(
            "POST",
            f"/webhooks/{{webhook_id}}/{path}",
            handler,
            summary,
            body=webhooks.RotateBody if path == "rotate" else job_control.OrderBody,
            operation=O.WEBHOOKS_MANAGE,
            status=status,
        )
        for path, handler, summary, status in (
            ("rotate", webhooks.rotate, "Make another secret or key", 200),
            ("retire", webhooks.retire, "Let only the newest secret count", 200),
            ("test", webhooks.test, "Send a test to an endpoint", 202),
            ("deliveries/{delivery_id}/resend", webhooks.resend, "Send a message again", 202),
        )
    ),
)
JOB_ROUTES: Final = (*_CREATION, *_READS, *_ORDERS, *_WEBHOOKS)
