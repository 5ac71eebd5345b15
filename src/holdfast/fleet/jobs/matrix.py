"""Where each host of a job stands, as one letter: what a picture of all its hosts is drawn from.

Promises: the kinds are those of the list of executions. A read looks at each execution once and reads no
output, no payload and no result.
Never: checks the project; the caller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.fleet.hosts.service import HostService
from holdfast.core.fleet.model import SLOT, Job
from holdfast.core.fleet.rollout.policy import wave_of
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import ExecutionFacts, ExecutionKind, kind_of
from holdfast.core.gate import BLOCK_ACTOR
from holdfast.core.start_once import RunPhase
from holdfast.core.task import ENDED, LEASED, FailureKind, Status
from holdfast.fleet.jobs.job_rows import GRANTED, rollout_of
from holdfast.fleet.jobs.rows import own
from holdfast.store.script import Script, call
from holdfast.store.store import Store

PAGE: Final = 5_000
"""Executions that one statement reads."""
LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
KINDS: Final = tuple(ExecutionKind)
LETTER_OF: Final = dict(zip(KINDS, LETTERS, strict=False))
LABEL_VALUES_MAX: Final = 64
"""Labels with more values than this group nothing."""
PHASES: Final = {phase.value: phase for phase in RunPhase}


class JobCells(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts of a job, in the order of its targets."""

    cells: str
    """The letter of each host's kind."""
    hosts: list[str]
    """Their names, if they were asked for."""
    waves: list[int]
    labels: dict[str, list[str]]
    """Labels that tell hosts apart, with the value of each host; an empty text where it has none."""


class JobMatrix:
    """The read of all hosts of a job at once."""

    def __init__(self, store: Store, rules: FleetRules) -> None:
        self._store = store
        self._rules = rules

    async def cells(self, job: Job, *, names: bool = False) -> JobCells:
        """`names`: also the names, waves and labels of the hosts, which stay while the job runs."""
        look = self._rules.look(self._store.now())
        return await self._store.read(lambda: _cells(job, look, names=names))


def _cells(job: Job, look: Mapping[str, float | str], *, names: bool) -> Script[JobCells]:
    is_approved, is_started = job.approval_state in GRANTED, job.started_at is not None
    letters: list[str] = []
    after = -1
    while True:
        rows = yield call(
            own("cells_page"), job_id=job.id, after=after, slot=SLOT, limit=PAGE, **look
        )
        for nth, outcome, has_go, status_name, phase, failure, *rest in rows:
            by_block, held, service, busy, away = rest
            after = nth
            status = Status(status_name)
            holder = None
            if held and status not in ENDED:
                holder = BLOCK_ACTOR if by_block else "operator"
            facts = ExecutionFacts(
                task_status=status,
                phase=PHASES.get(phase, RunPhase.OFFERED) if status in LEASED else RunPhase.OFFERED,
                failure_kind=FailureKind(failure)
                if failure is not None and status is Status.FAILED
                else None,
                outcome=outcome,
                has_go=bool(has_go),
                is_approved=is_approved,
                is_started=is_started,
                held_by=holder,
                service=HostService(service),
                host_busy=bool(busy),
                is_away=bool(away),
            )
            letters.append(LETTER_OF[kind_of(facts)])
        if len(rows) < PAGE:
            break
    hosts, labels = (yield from _targets(job)) if names else ([], {})
    policy = rollout_of(job).policy
    waves = [wave_of(policy, job.hosts, nth) for nth in range(len(hosts))]
    return JobCells(cells="".join(letters), hosts=hosts, waves=waves, labels=labels)


def _targets(job: Job) -> Script[tuple[list[str], dict[str, list[str]]]]:
    rows = yield call(own("target_labels"), job_id=job.id)
    found = [codec.loads(text) if text else {} for _, text in rows]
    keys = sorted({key for labels in found for key in labels})
    columns = {key: [str(labels.get(key, "")) for labels in found] for key in keys}
    telling = {
        key: values for key, values in columns.items() if 1 < len(set(values)) <= LABEL_VALUES_MAX
    }
    return [name for name, _ in rows], telling
