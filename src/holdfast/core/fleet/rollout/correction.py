"""Ends of hosts that the rollout has counted, and that have changed since.

Promises: as many hosts have ended as before. A correction undoes nothing: hosts that were admitted, a halt,
and the status of a job that has ended stay. The budgets of a job that goes on have what was corrected.
Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.fleet.rollout.policy import Policy, place_of
from holdfast.core.fleet.rollout.returns import wave_at
from holdfast.core.fleet.rollout.state import EndCounts, RolloutState
from holdfast.core.fleet.status import Bucket


class Correction(msgspec.Struct, frozen=True):
    """A host was counted in one bucket and belongs into another one."""

    nth: int
    before: Bucket
    after: Bucket


def corrected(
    policy: Policy, state: RolloutState, corrections: Sequence[Correction]
) -> RolloutState:
    """The state with these ends in their buckets."""
    waves, rest, early = list(state.waves), state.rest, dict(state.early)
    for one in corrections:
        place = place_of(policy, state.hosts, one.nth)
        if place in early:
            early[place] = one.after
        elif place < state.admitted:
            at = wave_at(waves, place)
            waves[at] = replace(waves[at], ended=_moved(waves[at].ended, one))
        else:
            rest = _moved(rest, one)
    return replace(state, waves=tuple(waves), rest=rest, early=early)


def _moved(counts: EndCounts, one: Correction) -> EndCounts:
    counts = counts.plus(one.after)
    return replace(counts, **{one.before.value: getattr(counts, one.before.value) - 1})
