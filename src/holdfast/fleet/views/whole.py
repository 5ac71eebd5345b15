"""One host and one job with all that is shown of them: for the API, the feed and the command line."""

from __future__ import annotations

from holdfast.core.fleet.model import Host, Job
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.views import jobs as job_views, objects as views
from holdfast.queue.views import View


async def whole_host(fleet: Fleet, row: Host, now: float) -> View:
    """A host with its agent, its slot, its groups and the blocks that count for it."""
    [details] = await fleet.host_reads.details([row])
    groups = await fleet.groups.memberships(row.project, [row])
    blocks = await fleet.blocks.of_hosts(row.project, [row])
    return views.host(
        details,
        now,
        groups=groups[row.id],
        blocks=[block.id for block in blocks[row.id]],
    )


async def whole_job(
    fleet: Fleet, job: Job, now: float, *, with_drift: bool = False
) -> tuple[View, int]:
    """A job with its counts and its approval, and its version. `with_drift` reads all hosts."""
    detail = await fleet.job_reads.detail(job.id)
    approval = await fleet.approvals.get(job.id) if detail.job.approval_id is not None else None
    found = await fleet.job_reads.drift(detail.job) if with_drift else None
    view = job_views.job(detail, now, approval=approval, drift=found)
    return view, detail.job.version
