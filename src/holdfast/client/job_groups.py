"""The part of a client for jobs and their approvals.
`scripts/client_fronts.py` writes its blocking form.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Literal, Unpack

from msgspec import UNSET, UnsetType

from holdfast.client.api import Rows, decoded, given
from holdfast.client.fleet_groups import OfProject
from holdfast.client.job_models import (
    ApprovalAnswer,
    ExecutionView,
    ExecutionWhy,
    FoldedOutput,
    JobAnswer,
    JobChanged,
    JobOptions,
    JobRow,
    JobView,
    OpenApproval,
    PlanRow,
)
from holdfast.client.models import OutputChunk
from holdfast.client.outputs import FOLLOW_SECONDS, OUTPUT_BYTES, chunk_of
from holdfast.client.watch import OnReset, Watch, WatchItem
from holdfast.errors import WaitTimeout

AbortMode = Literal["drain", "kill"]
RetryOf = Literal["failed", "timeout", "lost", "unreachable", "blocked", "cancelled"]
FINISHED: Final = "job.finished"
SNAPSHOT: Final = "snapshot"


def _is_end(item: WatchItem) -> bool:
    """Whether the job has ended with this item."""
    if item.type != SNAPSHOT:
        return item.kind == FINISHED
    return bool(item.frame.get("last", True)) and item.payload.get("finished_at") is not None


class Jobs(OfProject):
    """Commands on many hosts. A job is named by its id or its external id."""

    async def create(
        self, command_type: str, command: str = "", **options: Unpack[JobOptions]
    ) -> JobAnswer:
        """Makes a job, or finds the one that the same request with this `external_id` has made. The
        options are those of the request: hosts or selector, external_id, rollout, reason, dry_run, …"""
        body = {"command_type": command_type, "command": command, **options}
        if (project := self._of(options.get("project"))) is not None:
            body["project"] = project
        return await self._api.send(JobAnswer, "POST", "webhook", "jobs", body=body)

    async def get(self, job: str, *, drift: bool = False, project: str | None = None) -> JobView:
        """One job with its counts. `drift`: also how its hosts have changed since it was made."""
        query = {"drift": drift or None, "project": self._of(project)}
        return await self._api.get(JobView, "jobs", job, **query)

    def list(
        self,
        q: str = "",
        *,
        status: str | None = None,
        host: str | None = None,
        parent: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Rows[JobRow]:
        """The jobs, the latest first. `q`: e.g. `status:RUNNING host:web-1`."""
        query = {"q": q or None, "status": status, "host": host, "parent": parent}
        return self._api.rows(JobRow, "jobs", limit=limit, project=self._of(project), **query)

    def plan(
        self, job: str, *, project: str | None = None, limit: int | None = None
    ) -> Rows[PlanRow]:
        """What would run on each host, and why not."""
        path = ("jobs", job, "plan")
        return self._api.rows(PlanRow, *path, limit=limit, project=self._of(project))

    def executions(
        self,
        job: str,
        *,
        status: str | None = None,
        kind: str | None = None,
        host: str | None = None,
        wave: int | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Rows[ExecutionView]:
        """The executions of a job, in the order of its targets."""
        query = {"status": status, "kind": kind, "host": host, "wave": wave}
        path = ("jobs", job, "executions")
        return self._api.rows(ExecutionView, *path, limit=limit, project=self._of(project), **query)

    async def execution(
        self, job: str, execution: str, *, project: str | None = None
    ) -> ExecutionView:
        """One execution, by its id or the name of its host."""
        path = ("jobs", job, "executions", execution)
        return await self._api.get(ExecutionView, *path, project=self._of(project))

    async def why(self, job: str, execution: str, *, project: str | None = None) -> ExecutionWhy:
        """Why an execution is where it is."""
        path = ("jobs", job, "executions", execution, "why")
        return await self._api.get(ExecutionWhy, *path, project=self._of(project))

    async def logs(
        self,
        job: str,
        execution: str,
        *,
        stream: str = "stdout",
        start: int = 0,
        follow: bool = False,
        project: str | None = None,
    ) -> AsyncIterator[OutputChunk]:
        """What an execution has written, from the byte `start` on. `follow`: until it has ended."""
        path = ("jobs", job, "executions", execution, "logs")
        while True:
            query = given(
                stream=stream, start=start, limit_bytes=OUTPUT_BYTES, project=self._of(project)
            )
            chunk = chunk_of((await self._api.call("GET", *path, query=query)).body)
            if chunk.data or chunk.gaps:
                yield chunk
            is_at_end = chunk.next <= start
            start = max(start, chunk.next)
            if is_at_end and (chunk.complete or not follow):
                return
            if is_at_end:
                await self._api.http.clock.sleep(FOLLOW_SECONDS)

    async def output(
        self, job: str, *, stream: str = "stdout", limit: int = 20, project: str | None = None
    ) -> FoldedOutput:
        """The outputs of all hosts, with equal ones once: the largest group first."""
        query = {"stream": stream, "limit": limit, "project": self._of(project)}
        return await self._api.get(FoldedOutput, "jobs", job, "output", **query)

    # -- approvals ---------------------------------------------------------------------------------

    def approvals(
        self, *, project: str | None = None, limit: int | None = None
    ) -> Rows[OpenApproval]:
        """The jobs that wait for votes, the oldest first."""
        return self._api.rows(OpenApproval, "approvals", limit=limit, project=self._of(project))

    async def approve(
        self,
        job: str,
        reason: str,
        *,
        expect_digest: str | None = None,
        expected_version: int | None = None,
        project: str | None = None,
    ) -> ApprovalAnswer:
        """Votes for a job. ApprovalVoid if it is not what `expect_digest` names."""
        more = given(expect_digest=expect_digest, expected_version=expected_version)
        return await self._vote(job, "approve", reason, project, more)

    async def reject(
        self,
        job: str,
        reason: str,
        *,
        expect_digest: str | None = None,
        expected_version: int | None = None,
        project: str | None = None,
    ) -> ApprovalAnswer:
        """Votes against a job. The vote that decides ends what has not started."""
        more = given(expect_digest=expect_digest, expected_version=expected_version)
        return await self._vote(job, "reject", reason, project, more)

    async def withdraw(
        self, job: str, reason: str = "", *, project: str | None = None
    ) -> ApprovalAnswer:
        """Takes one's own vote back, before the job has started."""
        return await self._vote(job, "withdraw", reason, project, {})

    async def break_glass(
        self, job: str, reason: str, ticket: str, *, project: str | None = None
    ) -> ApprovalAnswer:
        """Starts a job without its approval. Another person has to review it."""
        return await self._vote(job, "break-glass", reason, project, {"ticket": ticket})

    async def review(
        self, job: str, reason: str = "", *, project: str | None = None
    ) -> ApprovalAnswer:
        """Says that a job that skipped its approval was looked at."""
        path = ("jobs", job, "break-glass", "review")
        body, query = {"reason": reason}, given(project=self._of(project))
        answer = await self._api.call("POST", *path, body=body, query=query)
        return decoded(answer.body, ApprovalAnswer)

    async def _vote(
        self, job: str, verb: str, reason: str, project: str | None, more: dict[str, object]
    ) -> ApprovalAnswer:
        body, query = {"reason": reason, **more}, given(project=self._of(project))
        answer = await self._api.call("POST", "jobs", job, verb, body=body, query=query)
        return decoded(answer.body, ApprovalAnswer)

    # -- orders ------------------------------------------------------------------------------------

    async def pause(
        self,
        job: str,
        reason: str = "",
        *,
        expected_version: int | None = None,
        project: str | None = None,
    ) -> JobChanged:
        """No further host starts. Hosts that run go on."""
        return await self._order(job, "pause", reason, expected_version, project=project)

    async def resume(
        self,
        job: str,
        reason: str = "",
        *,
        expected_version: int | None = None,
        project: str | None = None,
    ) -> JobChanged:
        """The job goes on."""
        return await self._order(job, "resume", reason, expected_version, project=project)

    async def promote(
        self,
        job: str,
        reason: str = "",
        *,
        expected_version: int | None = None,
        project: str | None = None,
    ) -> JobChanged:
        """Opens the wave that waits for a person."""
        return await self._order(job, "promote", reason, expected_version, project=project)

    async def abort(
        self,
        job: str,
        reason: str = "",
        *,
        mode: AbortMode = "drain",
        expected_version: int | None = None,
        project: str | None = None,
    ) -> JobChanged:
        """Ends a job: what has not started ends now. `kill`: what runs is ended too."""
        more = {"mode": mode}
        return await self._order(job, "abort", reason, expected_version, project=project, more=more)

    async def set(
        self,
        job: str,
        *,
        max_in_flight: int | str | None = None,
        rate_per_second: float | UnsetType | None = UNSET,
        budget: Mapping[str, int | str | None] | None = None,
        reason: str = "",
        expected_version: int | None = None,
        project: str | None = None,
    ) -> JobChanged:
        """Changes the rollout of a job while it runs: never beyond what was approved."""
        body = given(max_in_flight=max_in_flight, budget=budget, expected_version=expected_version)
        body["reason"] = reason
        if rate_per_second is not UNSET:
            body["rate_per_second"] = rate_per_second
        query = given(project=self._of(project))
        answer = await self._api.call("PATCH", "jobs", job, body=body, query=query)
        return decoded(answer.body, JobChanged)

    async def retry(
        self,
        job: str,
        *,
        only: Sequence[RetryOf] = ("failed", "timeout", "lost", "unreachable"),
        external_id: str | None = None,
        reason: str = "",
        project: str | None = None,
    ) -> JobAnswer:
        """A new job for the hosts that ended so: `blocked` by a block, `cancelled` e.g. by a halt."""
        body = given(external_id=external_id)
        body |= {"only": list(only), "reason": reason}
        query = given(project=self._of(project))
        answer = await self._api.call("POST", "jobs", job, "retry", body=body, query=query)
        return decoded(answer.body, JobAnswer)

    async def _order(
        self,
        job: str,
        verb: str,
        reason: str,
        version: int | None,
        *,
        project: str | None,
        more: Mapping[str, object] | None = None,
    ) -> JobChanged:
        body = given(expected_version=version)
        body |= {"reason": reason, **(more or {})}
        query = given(project=self._of(project))
        answer = await self._api.call("POST", "jobs", job, verb, body=body, query=query)
        return decoded(answer.body, JobChanged)

    # -- the feed ----------------------------------------------------------------------------------

    def watch(
        self,
        job: str,
        position: str | None = None,
        *,
        snapshot: bool = True,
        on_reset: OnReset = "snapshot",
        until_end: bool = True,
    ) -> Watch:
        """The events of a job as they happen: see `Watch`. The iteration ends with the job, after its event
        `job.finished` or the snapshot of an ended job; with `until_end=False` it goes on."""
        return Watch(
            self._api.http,
            f"job:{job}",
            position=position,
            snapshot=snapshot,
            on_reset=on_reset,
            is_last=_is_end if until_end else None,
        )

    async def wait(
        self, job: str, timeout: float | None = None, *, project: str | None = None
    ) -> JobView:
        """Waits for the end of a job, at most `timeout` seconds: WaitTimeout."""
        found = await self.get(job, project=project)
        try:
            async with asyncio.timeout(timeout):
                await self._finished(found.id)
        except TimeoutError:
            found = await self.get(found.id)
            if found.finished_at is None:
                raise WaitTimeout(
                    f"job {found.id} is still {found.status} after {timeout:g} s"
                ) from None
        return await self.get(found.id)

    async def _finished(self, job_id: str) -> None:
        async with self.watch(job_id) as events:
            async for _ in events:
                pass
