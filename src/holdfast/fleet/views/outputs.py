"""The JSON form of the outputs of a job."""

from __future__ import annotations

from holdfast.client import job_models as models
from holdfast.core.fleet.jobs.folded import FoldedOutput
from holdfast.queue.views import View, shown


def folded(of: FoldedOutput, stream: str) -> View:
    return shown(
        models.FoldedOutput(
            stream=stream,
            groups=_groups(of),
            more_groups=of.more_groups,
            missing=of.missing,
            missing_count=of.missing_count,
            differing=of.differing,
        )
    )


def _groups(of: FoldedOutput) -> list[models.OutputGroupView]:
    return [
        models.OutputGroupView(
            sha256=group.sha256,
            count=group.count,
            hosts=group.hosts,
            first=group.first,
            bytes=group.bytes,
            sample=group.sample,
        )
        for group in of.groups
    ]
