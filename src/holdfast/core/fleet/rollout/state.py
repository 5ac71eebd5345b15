"""The state of a rollout and the actions of a step, as data.

Promises: the state is a few counters, whatever the number of hosts: its JSON stays below 2 kB, unless many
hosts end before the rollout comes to them. Never: I/O.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_whole
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.policy import (
    HOSTS_MAX,
    BudgetName,
    HaltMode,
    Policy,
    budget_of,
    budgets_of,
    wave_sizes,
)
from holdfast.core.fleet.status import Bucket

ROLLOUT_ACTOR: Final = "rollout"
"""The actor of a halt by a budget."""
CANARY: Final = "canary"
CONSECUTIVE: Final = "consecutive"


class HaltCause(StrEnum):
    """Why a job is halted."""

    BUDGET = "budget"
    OPERATOR = "operator"
    REJECTED = "rejected"
    EXPIRED = "expired"
    REFUSED = "refused"
    """It may not have a secret that it names."""


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """No host is admitted any more; in the mode `pause`, not until the job is resumed."""

    mode: HaltMode
    reason: str
    actor: str = ROLLOUT_ACTOR
    cause: HaltCause = HaltCause.BUDGET

    @property
    def is_final(self) -> bool:
        return self.mode is not HaltMode.PAUSE


class EndCounts(msgspec.Struct, frozen=True, array_like=True):
    """Ended hosts by bucket. The fields are the values of `Bucket`."""

    success: int = 0
    failed: int = 0
    timeout: int = 0
    lost: int = 0
    unreachable: int = 0
    blocked: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return sum(msgspec.structs.astuple(self))

    def plus(self, bucket: Bucket) -> EndCounts:
        return replace(self, **{bucket.value: getattr(self, bucket.value) + 1})


class WaveState(msgspec.Struct, frozen=True, array_like=True):
    """A wave that was opened."""

    size: int
    opened_at: float
    closed_at: float | None = None
    """When its last host had ended, or its stragglers were not waited for any more."""
    ended: EndCounts = EndCounts()
    away: int = 0
    """Admitted hosts that have left the window and have not ended."""

    @property
    def has_run(self) -> bool:
        """Whether the command ran on a host of the wave."""
        ended = self.ended
        return bool(ended.success or ended.failed or ended.timeout or ended.lost)


class RolloutState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a rollout stands."""

    hosts: int
    admitted: int = 0
    """How many places of the order were admitted, or passed over because the host had ended before."""
    in_flight: int = 0
    """Admitted hosts that had not ended and were in the window, as of the latest step."""
    waves: tuple[WaveState, ...] = ()
    """The waves that were opened. The last one is current."""
    rest: EndCounts = EndCounts()
    """Ends of hosts that no wave admitted, after a halt."""
    early: dict[int, Bucket] = {}
    """Hosts, by place, that ended before the rollout came to them."""
    consecutive: int = 0
    idle_at: float | None = None
    """Since when the current wave waits for hosts only that have left the window."""
    late: int = 0
    """The earlier wave that runs late: nothing had run in it, and its hosts came back. 0: none."""
    baked_at: float | None = None
    """When the pause after a wave that ran late ends."""
    tokens: float | None = None
    """What is left of the rate. None: the rate was not used yet."""
    tokens_at: float = 0.0
    waived: dict[str, int] = {}
    """What was used of a budget when a person resumed a job that it had paused: more of it pauses again."""
    halt: Halt | None = None
    asked: bool = False
    """Whether the next wave waits for a person."""
    promoted: bool = False
    """Whether a person has opened the next wave."""
    finished: JobStatus | None = None

    @property
    def wave(self) -> int:
        """The number of the current wave, from 1. 0: none was opened."""
        return len(self.waves)

    @property
    def ended(self) -> EndCounts:
        """All hosts that have ended."""
        tallies = [msgspec.structs.astuple(counts) for counts in self._tallies]
        counts = [sum(column) for column in zip(*tallies, strict=True)]
        early = list(self.early.values())
        return EndCounts(*(n + early.count(b) for n, b in zip(counts, Bucket, strict=True)))

    @property
    def open(self) -> int:
        """Admitted hosts that have not ended, with those that have left the window."""
        return self.admitted - sum(wave.ended.total for wave in self.waves)

    @property
    def away(self) -> int:
        """Admitted hosts that have left the window and have not ended."""
        return sum(wave.away for wave in self.waves)

    @property
    def _tallies(self) -> list[EndCounts]:
        return [self.rest, *(wave.ended for wave in self.waves)]


class HostOutcome(msgspec.Struct, frozen=True):
    """A host has ended. Each end is given to one step only."""

    nth: int
    bucket: Bucket
    wave: int | None = None
    """The wave that admitted it. None: it ended before."""
    is_away: bool = False
    """Whether it had left the window."""


class AdmitHosts(msgspec.Struct, frozen=True, tag=True):
    """These hosts may start."""

    wave: int
    nths: tuple[int, ...]


class ReturnHosts(msgspec.Struct, frozen=True, tag=True):
    """These hosts, which had left the window, are in it again: they may start."""

    nths: tuple[int, ...]


class OpenWave(msgspec.Struct, frozen=True, tag=True):
    wave: int


class AskGate(msgspec.Struct, frozen=True, tag=True):
    """A person decides whether this wave is opened."""

    wave: int


class HaltJob(msgspec.Struct, frozen=True, tag=True):
    """The job halts. Unless it pauses, the caller ends the hosts that were not admitted; in the mode `abort`,
    also those that run."""

    halt: Halt


class FinishJob(msgspec.Struct, frozen=True, tag=True):
    status: JobStatus


class WakeAt(msgspec.Struct, frozen=True, tag=True):
    """The job is to be looked at by then, also if no host ends."""

    at: float


RolloutAction: TypeAlias = (
    AdmitHosts | ReturnHosts | OpenWave | AskGate | HaltJob | FinishJob | WakeAt
)


def begin(hosts: int) -> RolloutState:
    """The state of a new job."""
    return RolloutState(hosts=check_whole("hosts", hosts, least=1, most=HOSTS_MAX))


class BudgetUse(msgspec.Struct, frozen=True):
    """How much of a budget is used."""

    used: int
    limit: int


def usage(policy: Policy, state: RolloutState, unknown: int = 0) -> dict[str, BudgetUse]:
    """Every limit of the policy, and what is used of it."""
    counts = state.ended
    used = {
        BudgetName.FAILED: counts.failed,
        BudgetName.TIMEOUT: counts.timeout,
        BudgetName.LOST: counts.lost + unknown,
        BudgetName.UNREACHABLE: counts.unreachable,
    }
    found = {
        name.value: BudgetUse(used[name], limit)
        for name, limit in budgets_of(policy, state.hosts).items()
    }
    if policy.canary_budget is not None and len(wave_sizes(policy, state.hosts)) > 1:
        first = state.waves[0].ended if state.waves else EndCounts()
        bad = first.failed + first.timeout + first.lost
        found[CANARY] = BudgetUse(bad, budget_of(policy.canary_budget, state.hosts))
    if policy.consecutive is not None:
        # The limit is the first number that halts, so one less is still within it.
        found[CONSECUTIVE] = BudgetUse(state.consecutive, policy.consecutive - 1)
    return found


def with_halt(state: RolloutState, halt: Halt) -> RolloutState:
    """After a final halt the early ends are those of hosts that no wave will have."""
    if not halt.is_final:
        return replace(state, halt=halt)
    rest = state.rest
    for bucket in state.early.values():
        rest = rest.plus(bucket)
    return replace(state, halt=halt, rest=rest, early={}, asked=False, idle_at=None)
