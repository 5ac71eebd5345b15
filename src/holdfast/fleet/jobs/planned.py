"""What a step of a job did, for the callers of its transaction."""

from __future__ import annotations

import msgspec

from holdfast.core.fleet.model import Job


class Planned(msgspec.Struct, frozen=True):
    """What a step did."""

    job: Job | None = None
    """None: there is no such job."""
    wake: list[str] = []
    """Hosts that have something to do."""
    again: bool = False
    """Whether another step is due at once."""
    after: int = -1
    """The `nth` up to which executions were ended, for the next step."""
    ended: dict[str, int] = {}
    """Ends that the step has counted, by kind."""
    has_finished: bool = False
    """Whether the step has ended the job."""
    seconds: list[tuple[str, float]] = []
    """Of these ends, by kind: the time since the go, where there was one."""
