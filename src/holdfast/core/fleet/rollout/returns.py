"""The window of a rollout: what room it has, which hosts leave it, and which return to it.

Promises: a host that has left the window counts nowhere as running, and returns only where the window and the
rate have room, in the order of the policy. A closed wave in which nothing has run and whose hosts come back
runs late, before the waves after it. Never: I/O, clocks, random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core.fleet.rollout.policy import Policy, nth_at, place_of, size_of
from holdfast.core.fleet.rollout.state import RolloutState, WaveState

TRIFLE: Final = 1e-6
"""Seconds that a sum of times may be off."""


def left(policy: Policy, state: RolloutState, nths: Sequence[int]) -> RolloutState:
    """The state after these hosts, which were in the window, have left it."""
    waves = list(state.waves)
    for nth in nths:
        at = wave_at(waves, place_of(policy, state.hosts, nth))
        waves[at] = replace(waves[at], away=waves[at].away + 1)
    state = replace(state, waves=tuple(waves))
    return replace(state, in_flight=state.open - state.away)


def with_late(
    policy: Policy, state: RolloutState, places: Sequence[int], now: float
) -> RolloutState:
    """The state with the wave that runs late now. The pause of the policy follows on its end."""
    can_run = {wave_at(state.waves, place) for place in places}
    active = {
        at + 1
        for at, wave in enumerate(state.waves[:-1])
        if at in can_run or wave.ended.total + wave.away < wave.size
    }
    if state.late in active:
        return state
    late = min((n for n in active if not state.waves[n - 1].has_run), default=0)
    has_ended = state.late > 0 and state.waves[state.late - 1].has_run
    baked_at = now + policy.bake_seconds if has_ended else state.baked_at
    return replace(state, late=late, baked_at=baked_at)


def returned(
    policy: Policy, state: RolloutState, places: Sequence[int], now: float, most: int
) -> tuple[RolloutState, list[int], list[float]]:
    """Lets as many of these places into the window as it and the rate have room for."""
    if not places:
        return state, [], []
    state = refilled(policy, state, now)
    rate, room = policy.rate_per_second, room_of(policy, state)
    allowed = allowed_now(policy, state)
    chosen = places[: max(0, min(room, allowed, most))]
    waves = list(state.waves)
    for place in chosen:
        at = wave_at(waves, place)
        waves[at] = replace(waves[at], away=waves[at].away - 1)
    tokens = None if state.tokens is None else max(0.0, state.tokens - len(chosen))
    state = replace(
        state, waves=tuple(waves), in_flight=state.in_flight + len(chosen), tokens=tokens
    )
    nths = [nth_at(policy, state.hosts, place) for place in chosen]
    if len(chosen) == len(places) or len(chosen) >= room:
        return state, nths, []
    if rate is not None and len(chosen) >= allowed:
        return state, nths, [now + max(TRIFLE, (1.0 - (tokens or 0.0)) / rate)]
    return state, nths, [now]


def room_of(policy: Policy, state: RolloutState) -> int:
    return size_of(policy.max_in_flight, state.hosts) - state.in_flight


def allowed_now(policy: Policy, state: RolloutState) -> int:
    """How many hosts the rate lets start now."""
    if policy.rate_per_second is None:
        return state.hosts
    return math.floor((state.tokens or 0.0) + TRIFLE)


def refilled(policy: Policy, state: RolloutState, now: float) -> RolloutState:
    """The state with the tokens of the rate at this time. At most one second of the rate is saved."""
    rate = policy.rate_per_second
    if rate is None:
        return state if state.tokens is None else replace(state, tokens=None)
    full = max(1.0, rate)
    if state.tokens is None:
        return replace(state, tokens=full, tokens_at=now)
    added = max(0.0, now - state.tokens_at) * rate
    return replace(
        state, tokens=min(full, state.tokens + added), tokens_at=max(now, state.tokens_at)
    )


def wave_at(waves: Sequence[WaveState], place: int) -> int:
    """The index of the wave that has this place."""
    for at, wave in enumerate(waves):
        if place < wave.size:
            return at
        place -= wave.size
    raise AssertionError(f"place {place} was admitted by no wave")
