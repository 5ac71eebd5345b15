"""The JSON form of all hosts of a job at once (`client.job_models.JobMatrix`)."""

from __future__ import annotations

from holdfast.client import job_models as models
from holdfast.core.fleet.model import Job
from holdfast.fleet.jobs.matrix import LETTER_OF, JobCells
from holdfast.queue.views import View, shown


def matrix(of: JobCells, job: Job) -> View:
    return shown(
        models.JobMatrix(
            job_id=job.id,
            version=job.version,
            kinds={letter: kind.value for kind, letter in LETTER_OF.items()},
            cells=of.cells,
            hosts=of.hosts,
            waves=of.waves,
            labels=of.labels,
        )
    )
