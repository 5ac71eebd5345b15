"""What really happened in a simulated fleet, and what its store says at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.fleet.model import ApprovalRequest, Block, Execution, Host, Job
from holdfast.core.fleet.status import ExecutionKind
from holdfast.fleet.simulated.machine import RealRun


class Sighting(NamedTuple):
    """What was shown of an execution from some time on."""

    at: float
    kind: ExecutionKind
    attempts: int
    fence: int


class FleetHistory:
    """Filled by the simulated hosts, by operators and by the observer of the fleet; read by checkers."""

    def __init__(self) -> None:
        self.runs: dict[str, Sequence[RealRun]] = {}
        """What ran on each host, by its id. Hosts add to it while they run."""
        self.hosts: dict[str, Host] = {}
        self.jobs: dict[str, Job] = {}
        self.executions: dict[str, Execution] = {}
        self.approvals: dict[str, list[ApprovalRequest]] = {}
        """By job."""
        self.blocks: list[Block] = []
        self.slots: list[tuple[str, int, str | None]] = []
        """(resource, fence, claim id) of the slots of hosts."""
        self.shown: dict[str, list[Sighting]] = {}
        """What was shown of each execution, whenever it changed."""
        self.heard: dict[str, list[float]] = {}
        """When a message of each host arrived at a server."""
        self.made: dict[str, set[str]] = {}
        """Jobs that were returned for each external id."""
        self.windows: dict[str, list[int]] = {}
        """Windows that operators asked for, by job."""
        self.approved: dict[str, float] = {}
        """When an operator first asked to approve each job."""
        self.aborted: dict[str, float] = {}
        """When the abort of the job was first answered."""
        self.blocked: dict[str, tuple[float, float]] = {}
        """From when to when each block counted for sure, by its id: from the answer to its making to the
        request to lift it."""
        self.unended: list[str] = []
        """Jobs that had not ended when the recovery phase was over."""
