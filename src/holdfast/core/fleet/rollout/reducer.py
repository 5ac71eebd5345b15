"""The rollout of a job: which hosts start next, and when the job halts or ends.

`step` is a reducer: (policy, state, what has ended, now) -> (state, actions). Promises: no admission and no
return makes more than `max_in_flight` hosts run; every host is admitted at most once, in the order of the
policy; a host that has left the window starts only after it was let in again; after a halt no host is
admitted or let in, and after a pause none until the job is resumed, with the counters as they were;
every end is counted in one bucket; the job ends when all its hosts have ended. The same inputs give the same
outputs. A step costs what it counts and admits, whatever the number of hosts.
Never: I/O, clocks, random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

from msgspec.structs import replace

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.control import halt, pause, promote, resume
from holdfast.core.fleet.rollout.policy import (
    GateMode,
    HaltMode,
    Policy,
    nth_at,
    place_of,
    wave_sizes,
)
from holdfast.core.fleet.rollout.returns import (
    TRIFLE,
    allowed_now,
    left,
    refilled,
    returned,
    room_of,
    wave_at,
    with_late,
)
from holdfast.core.fleet.rollout.state import (
    AdmitHosts,
    AskGate,
    EndCounts,
    FinishJob,
    Halt,
    HaltCause,
    HaltJob,
    HostOutcome,
    OpenWave,
    ReturnHosts,
    RolloutAction,
    RolloutState,
    WakeAt,
    WaveState,
    begin,
    usage,
    with_halt,
)
from holdfast.core.fleet.status import Bucket

__all__ = [
    "AdmitHosts",
    "AskGate",
    "Bucket",
    "EndCounts",
    "FinishJob",
    "Halt",
    "HaltCause",
    "HaltJob",
    "HaltMode",
    "HostOutcome",
    "OpenWave",
    "Policy",
    "ReturnHosts",
    "RolloutAction",
    "RolloutState",
    "WakeAt",
    "begin",
    "end_status",
    "halt",
    "left",
    "pause",
    "promote",
    "resume",
    "returned",
    "step",
    "usage",
]

ADMIT_MAX: Final = 500
"""Hosts that one step admits."""


def step(
    policy: Policy,
    state: RolloutState,
    seen: Sequence[HostOutcome],
    unknown: int,
    now: float,
    *,
    leaving: Sequence[int] = (),
    back: Sequence[int] = (),
    most: int = ADMIT_MAX,
    may_admit: bool = True,
) -> tuple[RolloutState, list[RolloutAction]]:
    """The next state and what to do. `seen` has the hosts that have ended since the step before. `unknown` is
    the number of hosts whose outcome is unknown: they count as lost while that lasts. `leaving` has admitted
    hosts that cannot run now, e.g. because their agent is not reachable, and have no go: they leave the
    window to others, and a wave waits for them for `straggler_seconds` only. `back` has hosts that have left
    the window and could run now: they come before hosts that were not admitted yet. `may_admit`: False while
    people have to approve; ends are counted and budgets judged then too."""
    if state.finished is not None:
        return state, []
    actions: list[RolloutAction] = []
    state = _tallied(policy, state, seen)
    state = _judged(policy, state, unknown, actions)
    state = left(policy, state, leaving)
    if state.halt is None and may_admit:
        state = _moved_on(policy, state, now, actions, back=back, most=most)
    return _finished(state, actions), actions


# -- counting ----------------------------------------------------------------------------------------

_BAD: Final = frozenset({Bucket.FAILED, Bucket.TIMEOUT, Bucket.LOST})


def _tallied(policy: Policy, state: RolloutState, seen: Sequence[HostOutcome]) -> RolloutState:
    if not seen:
        return state
    waves, rest, early = list(state.waves), state.rest, dict(state.early)
    consecutive = most = state.consecutive
    is_halted = state.halt is not None and state.halt.is_final
    for outcome in seen:
        bucket = outcome.bucket
        place = place_of(policy, state.hosts, outcome.nth)
        if place < state.admitted:
            at = wave_at(waves, place)
            waves[at] = replace(
                waves[at],
                ended=waves[at].ended.plus(bucket),
                away=waves[at].away - outcome.is_away,
            )
        elif is_halted:
            rest = rest.plus(bucket)
        else:
            early[place] = bucket
        if bucket is Bucket.SUCCESS:
            consecutive = 0
        consecutive += bucket in _BAD
        most = max(most, consecutive)
    if policy.consecutive is not None and state.consecutive < policy.consecutive <= most:
        consecutive = most  # A success in the same step came too late.
    return replace(state, waves=tuple(waves), rest=rest, early=early, consecutive=consecutive)


# -- budgets -----------------------------------------------------------------------------------------


def _judged(
    policy: Policy, state: RolloutState, unknown: int, actions: list[RolloutAction]
) -> RolloutState:
    """The state after the budgets were judged. A breach halts a paused job for good, if it is to."""
    if state.halt is not None and (state.halt.is_final or policy.on_breach is HaltMode.PAUSE):
        return state
    breaches = [
        f"{name}: {use.used} of {use.limit} allowed"
        for name, use in usage(policy, state, unknown).items()
        if use.used > max(use.limit, state.waived.get(name, 0))
    ]
    if not breaches:
        return state
    breach = Halt(mode=policy.on_breach, reason=f"budget exceeded: {', '.join(breaches)}")
    actions.append(HaltJob(breach))
    return with_halt(state, breach)


# -- hosts that come back ----------------------------------------------------------------------------


def _moved_on(
    policy: Policy,
    state: RolloutState,
    now: float,
    actions: list[RolloutAction],
    *,
    back: Sequence[int],
    most: int,
) -> RolloutState:
    """Lets hosts return, then admits others. A wave in which nothing has run says nothing about the command:
    if its hosts come back after it was closed, it runs late, and later waves wait for it and for the pause
    after it."""
    places = sorted(place_of(policy, state.hosts, nth) for nth in back)
    state = with_late(policy, state, places, now)
    if state.baked_at is not None and now < state.baked_at - TRIFLE:
        actions.append(WakeAt(state.baked_at))
        return state
    state = replace(state, baked_at=None)
    if state.late:
        places = [place for place in places if wave_at(state.waves, place) < state.late]
    state, nths, wakes = returned(policy, state, places, now, most)
    if nths:
        actions.append(ReturnHosts(tuple(nths)))
    if not state.late:
        return _advanced(policy, state, now, actions, most=most - len(nths), wakes=wakes)
    if wakes:
        actions.append(WakeAt(min(wakes)))
    return state


# -- waves -------------------------------------------------------------------------------------------


def _advanced(
    policy: Policy,
    state: RolloutState,
    now: float,
    actions: list[RolloutAction],
    *,
    most: int,
    wakes: list[float],
) -> RolloutState:
    """Admits what the window, the rate and the waves allow, and opens waves."""
    sizes = wave_sizes(policy, state.hosts)
    nths: list[int] = []
    while True:
        if state.wave:
            state, wake = _admitted(policy, state, now, most - len(nths), nths)
            if nths:
                actions.append(AdmitHosts(state.wave, tuple(nths)))
                most -= len(nths)
                nths = []
            wakes += wake
            state, wake = _closed(policy, state, now)
            wakes += wake
            if state.waves[-1].closed_at is None or state.wave == len(sizes):
                break
            state, wake, is_open = _gated(policy, state, now, actions)
            wakes += wake
            if not is_open:
                break
        opened = WaveState(sizes[state.wave], now)
        state = replace(
            state, waves=(*state.waves, opened), asked=False, promoted=False, idle_at=None
        )
        actions.append(OpenWave(state.wave))
    if wakes:
        actions.append(WakeAt(min(wakes)))
    return state


def _admitted(
    policy: Policy, state: RolloutState, now: float, most: int, nths: list[int]
) -> tuple[RolloutState, list[float]]:
    """Fills the window with hosts of the current wave. Those that have ended before are passed over."""
    end = sum(wave.size for wave in state.waves)
    if state.admitted >= end:
        return state, []
    state = refilled(policy, state, now)
    rate = policy.rate_per_second
    room, allowed = room_of(policy, state), allowed_now(policy, state)
    place, early, current = state.admitted, dict(state.early), state.waves[-1]
    free = min(room, allowed, most)
    while place < end and (place in early or len(nths) < free):
        if place in early:
            current = replace(current, ended=current.ended.plus(early.pop(place)))
        else:
            nths.append(nth_at(policy, state.hosts, place))
        place += 1
    tokens = None if state.tokens is None else max(0.0, state.tokens - len(nths))
    waves = (*state.waves[:-1], current)
    in_flight = state.in_flight + len(nths)
    state = replace(
        state, waves=waves, admitted=place, early=early, in_flight=in_flight, tokens=tokens
    )
    if place == end or len(nths) >= room:
        return state, []
    if rate is not None and len(nths) >= allowed:
        return state, [now + max(TRIFLE, (1.0 - (tokens or 0.0)) / rate)]
    return state, [now]


def _closed(policy: Policy, state: RolloutState, now: float) -> tuple[RolloutState, list[float]]:
    """Closes the current wave if all its hosts were admitted and have ended, or only stragglers are left."""
    current = state.waves[-1]
    if current.closed_at is not None or state.admitted < sum(wave.size for wave in state.waves):
        return state, []
    if current.ended.total < current.size:
        if state.in_flight > 0:
            return replace(state, idle_at=None), []
        since = now if state.idle_at is None else state.idle_at
        until = since + policy.straggler_seconds
        if now < until - TRIFLE:
            is_last = sum(wave.size for wave in state.waves) == state.hosts
            return replace(state, idle_at=since), [] if is_last else [until]
    waves = (*state.waves[:-1], replace(current, closed_at=now))
    return replace(state, waves=waves, idle_at=None), []


def _gated(
    policy: Policy, state: RolloutState, now: float, actions: list[RolloutAction]
) -> tuple[RolloutState, list[float], bool]:
    """Whether the next wave opens: after the pause of the policy, and by a person where it asks for one."""
    closed_at = state.waves[-1].closed_at
    until = (now if closed_at is None else closed_at) + policy.bake_seconds
    if state.promoted:
        return state, [], True
    if now < until - TRIFLE:
        return state, [until], False
    if policy.gate is GateMode.AUTO:
        return state, [], True
    if not state.asked:
        actions.append(AskGate(state.wave + 1))
    return replace(state, asked=True), [], False


# -- the end -----------------------------------------------------------------------------------------

_BY_CAUSE: Final = {
    HaltCause.BUDGET: JobStatus.FAILED,
    HaltCause.OPERATOR: JobStatus.CANCELLED,
    HaltCause.REJECTED: JobStatus.REJECTED,
    HaltCause.EXPIRED: JobStatus.EXPIRED,
    HaltCause.REFUSED: JobStatus.FAILED,
}


def _finished(state: RolloutState, actions: list[RolloutAction]) -> RolloutState:
    counts = state.ended
    if counts.total < state.hosts:
        return state
    status = end_status(counts, state.halt)
    actions[:] = [action for action in actions if not isinstance(action, WakeAt)]
    actions.append(FinishJob(status))
    return replace(state, finished=status)


def _decides(halted: Halt | None, counts: EndCounts) -> TypeGuard[Halt]:
    """Whether the halt is the end of the job. A rejection always is."""
    if halted is None or not (halted.is_final or halted.cause is HaltCause.BUDGET):
        return False
    if halted.cause is HaltCause.REJECTED:
        return True
    if counts.success == counts.total:
        return False
    return halted.cause is not HaltCause.OPERATOR or counts.cancelled > 0


def end_status(counts: EndCounts, halted: Halt | None) -> JobStatus:
    """The status of a job whose hosts have all ended. An abort that came too late to end any host decides
    nothing; a job that people rejected is never a success."""
    if _decides(halted, counts):
        return _BY_CAUSE[halted.cause]
    if counts.success == counts.total:
        return JobStatus.SUCCESS
    if counts.cancelled == counts.total:
        return JobStatus.CANCELLED
    return JobStatus.PARTIAL if counts.success else JobStatus.FAILED
