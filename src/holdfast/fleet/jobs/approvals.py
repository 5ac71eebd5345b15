"""Use cases of approvals: approve, reject, withdraw, break the glass, review, and what ends by itself.

Promises: a vote, the state of the request, the job, what is due next, the event and the audit are one
transaction. The rules are those of `core.fleet.approvals.approval`: of an approval and a rejection at once,
one counts. A rejection ends what has not got its go in the same transaction. If the job is not what people
were asked about, its request is void and people are asked again, whatever the vote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from holdfast.bus.port import Bus
from holdfast.core.errors import ApprovalVoid
from holdfast.core.fleet.approvals.approval import (
    Ballot,
    Person,
    VoteVerdict,
)
from holdfast.core.fleet.model import (
    ApprovalRequest,
    Job,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.fleet.attempts import Attempts
from holdfast.fleet.hints import wake_jobs
from holdfast.fleet.jobs import figures, glass, votes
from holdfast.fleet.jobs.approval_rows import ApprovalView, view
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import APPROVALS
from holdfast.metrics import Meter, NullMeter
from holdfast.queue.by import By
from holdfast.store.script import Script, call
from holdfast.store.store import Store

PAGE_MAX: Final = 1_000


class Approvals:
    """The use cases of approvals."""

    def __init__(
        self, store: Store, rules: FleetRules, bus: Bus, *, meter: Meter | None = None
    ) -> None:
        self._meter: Meter = NullMeter() if meter is None else meter
        self._store = store
        self._rules = rules
        self._bus = bus
        self.expiries = Attempts("the end of the request of job", store.now)

    async def approve(
        self, job_id: str, person: Person, by: By, *, expect_digest: str | None = None
    ) -> ApprovalView:
        """Votes for the job. SelfApproval, Forbidden, AlreadyDecided, or ApprovalVoid if it has changed."""
        return await self._vote(job_id, person, VoteVerdict.APPROVE, by, expect_digest)

    async def reject(
        self, job_id: str, person: Person, by: By, *, expect_digest: str | None = None
    ) -> ApprovalView:
        """Votes against the job. The vote that decides ends what has not started."""
        return await self._vote(job_id, person, VoteVerdict.REJECT, by, expect_digest)

    async def _vote(
        self, job_id: str, person: Person, verdict: VoteVerdict, by: By, digest: str | None
    ) -> ApprovalView:
        ballot = Ballot(person=person, verdict=verdict, reason=by.reason, expect_digest=digest)
        try:
            return await self._run(partial(votes.vote, job_id=job_id, ballot=ballot, by=by))
        except votes.Drifted:
            if not by.is_dry_run:
                await self._store.run(partial(votes.void, job_id=job_id, rules=self._rules))
                wake_jobs(self._bus)
        raise ApprovalVoid(
            f"job {job_id} is not what was asked: a block, its hosts, its command type, a secret or its "
            f"rollout has changed, or --expect-digest is of an earlier state; read it again "
            f"(`holdfast job show {job_id} --drift`, `holdfast block list`), then vote on what it does now"
        )

    async def withdraw(self, job_id: str, person: Person, by: By) -> ApprovalView:
        """Takes the vote of this person back, before the job has started."""
        return await self._run(partial(votes.withdraw, job_id=job_id, name=person.name, by=by))

    async def break_glass(self, job_id: str, ticket: str, by: By) -> ApprovalView:
        """Starts a job without its approval. ApprovalNeeded until the last use was reviewed."""
        return await self._run(partial(glass.break_glass, job_id=job_id, ticket=ticket, by=by))

    async def review(self, job_id: str, by: By) -> ApprovalView:
        """Another person has looked at what was done without an approval."""
        return await self._run(partial(glass.review, job_id=job_id, by=by))

    async def _run(self, script: Callable[..., Script[ApprovalView]]) -> ApprovalView:
        view = await self._store.run(partial(script, rules=self._rules))
        if not view.is_repeat:
            figures.count_approval(self._meter, view.request)
        wake_jobs(self._bus)
        return view

    async def get(self, job_id: str) -> ApprovalView:
        """Where the approval of a job stands now."""
        now = self._store.now()
        return await self._store.read(lambda: view(job_id, now))

    async def open(
        self, *, projects: Sequence[str] | None = None, after: str = "", limit: int = 100
    ) -> list[ApprovalRequest]:
        """One page of the requests that wait for votes, the oldest first."""

        def script() -> Script[list[ApprovalRequest]]:
            rows = yield call(
                own("open_approvals"),
                projects=None if projects is None else list(projects),
                after=after,
                limit=min(limit, PAGE_MAX),
            )
            return APPROVALS.read_all(rows)

        return await self._store.read(script)

    async def unreviewed(self, project: str) -> list[Job]:
        """Jobs that skipped their approval and were not reviewed, the latest first."""
        return await self._store.read(lambda: glass.unreviewed_jobs(project))

    async def expire_due(self, limit: int = 100) -> int:
        """Ends requests whose time is over, with their jobs. Returns how many. One that fails is left alone
        for a while, and stops no other."""
        now = self._store.now()

        def due() -> Script[list[str]]:
            rows = yield call(own("approvals_due"), now=now, limit=limit + len(self.expiries))
            return [row[0] for row in rows]

        jobs = await self._store.read(due)
        ended = 0
        for job_id in jobs:
            script = partial(votes.expire, job_id=job_id, rules=self._rules)
            expired = await self.expiries.run(job_id, partial(self._store.run, script))
            figures.count_approval(self._meter, expired)
            ended += expired is not None
        if ended:
            wake_jobs(self._bus)
        return ended
