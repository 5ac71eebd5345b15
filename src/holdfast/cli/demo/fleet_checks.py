"""The claims of the second part of the demo, over what the API of the server said.

Promises: pure; a false claim fails the demo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from holdfast.cli.demo.checks import Claim
from holdfast.core.fleet.status import ExecutionStatus

EXTERNAL_ID: Final = "nginx-certificates"
"""The name of the job."""
NEW: Final = ExecutionStatus.NEW.value
SUCCESS: Final = ExecutionStatus.SUCCESS.value
BLOCKED: Final = ExecutionStatus.BLOCKED.value
ENDED: Final = frozenset(
    status.value
    for status in ExecutionStatus
    if status not in (ExecutionStatus.NEW, ExecutionStatus.QUEUED, ExecutionStatus.RUNNING)
)


class SeenExecution(msgspec.Struct, frozen=True):
    """An execution at the end of the job."""

    host: str
    status: str
    kind: str
    has_started: bool
    reason: str = ""


class FleetRun(msgspec.Struct):
    """What was seen of the job."""

    job_id: str
    hosts: int
    blocked: list[str] = []
    """Hosts of the block."""
    before: dict[str, int] = {}
    """Executions by status, before the first vote."""
    waited: bool = False
    refused_requester: bool = False
    status: str = ""
    counts: dict[str, int] = {}
    executions: list[SeenExecution] = []
    seconds: float = 0.0
    exit_code: int | None = None

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Why hosts did not succeed, the most frequent first."""
        failed = [each for each in self.executions if each.status != SUCCESS]
        return Counter(each.kind for each in failed).most_common()

    def is_of(self, status: str, kind: str) -> bool:
        """Whether executions of the kind have the status."""
        return any(each.status == status and each.kind == kind for each in self.executions)


def fleet_claims(run: FleetRun) -> list[Claim]:
    return [*_about_the_approval(run), *_about_the_hosts(run), *_about_the_end(run)]


def _about_the_approval(run: FleetRun) -> Iterator[Claim]:
    is_waiting = run.waited and run.before == {NEW: run.hosts}
    yield Claim("nothing started before the approval", is_waiting, _shown(run.before))
    yield Claim(
        "the requester could not approve the job",
        run.refused_requester,
        "refused" if run.refused_requester else "accepted",
    )


def _about_the_hosts(run: FleetRun) -> Iterator[Claim]:
    open_or_twice = _not_once(run.executions) + (run.hosts - len(run.executions))
    yield Claim(
        "each host has one outcome", open_or_twice == 0, f"{len(run.executions)} executions"
    )
    started = [
        each.host
        for each in run.executions
        if each.host in run.blocked and (each.has_started or each.status != BLOCKED)
    ]
    yield Claim(
        "nothing started on a blocked host",
        bool(run.blocked) and not started,
        f"{len(run.blocked)} blocked",
    )
    silent = [each.host for each in run.executions if each.status != SUCCESS and not each.reason]
    yield Claim("each host that did not succeed says why", not silent, _shown(dict(run.reasons)))


def _not_once(executions: Sequence[SeenExecution]) -> int:
    """Hosts that have not ended, or have several executions."""
    times = Counter(each.host for each in executions)
    return sum(each.status not in ENDED or times[each.host] > 1 for each in executions)


def _about_the_end(run: FleetRun) -> Iterator[Claim]:
    code = run.exit_code
    yield Claim("the server stopped cleanly", code == 0, f"exit code {code}")


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items()) or "0"
