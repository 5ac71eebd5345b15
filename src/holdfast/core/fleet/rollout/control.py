"""What people do to the rollout of a job: halt, pause, resume, promote.

Promises: a halt is final, a pause keeps the counters; the same wish again changes nothing. Never: I/O.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.fleet.rollout.policy import HaltMode, Policy
from holdfast.core.fleet.rollout.state import (
    ROLLOUT_ACTOR,
    Halt,
    HaltCause,
    RolloutState,
    usage,
    with_halt,
)
from holdfast.errors import IllegalTransition


def halt(
    state: RolloutState,
    mode: HaltMode,
    *,
    reason: str,
    actor: str,
    cause: HaltCause = HaltCause.OPERATOR,
) -> RolloutState:
    """The halted or paused job. The same object if it is already so. A job that drains can still be aborted;
    its cause stays the first one."""
    if state.finished is not None:
        raise IllegalTransition(f"the job has ended ({state.finished}) and will not change")
    before = state.halt
    if before is not None and before.is_final:
        if mode is not HaltMode.ABORT or before.mode is HaltMode.ABORT:
            if mode is HaltMode.PAUSE:
                raise IllegalTransition(f"the job is halted ({before.reason}): it cannot be paused")
            return state
        return replace(state, halt=replace(before, mode=mode))
    if before is not None and mode is HaltMode.PAUSE:
        return state
    return with_halt(state, Halt(mode=mode, reason=reason, actor=actor, cause=cause))


def stopped(state: RolloutState, *, is_expired: bool, refusal: str | None) -> RolloutState:
    """The job that may admit no more hosts, because its time is over or it is refused: it is halted. The same
    object if it goes on, is halted or has admitted all."""
    is_final = state.halt is not None and state.halt.is_final
    if is_final or state.admitted == state.hosts or not (is_expired or refusal):
        return state
    expired = "its time was over before all hosts had started"
    cause = HaltCause.REFUSED if refusal else HaltCause.EXPIRED
    reason = refusal or expired
    return halt(state, HaltMode.DRAIN, reason=reason, actor=ROLLOUT_ACTOR, cause=cause)


def pause(state: RolloutState, *, reason: str, actor: str) -> RolloutState:
    """No host is admitted until the job is resumed. Hosts that run go on."""
    return halt(state, HaltMode.PAUSE, reason=reason, actor=actor)


def resume(policy: Policy, state: RolloutState, unknown: int = 0) -> RolloutState:
    """The job goes on with its counters. What a budget had used when it paused the job is accepted; one more
    pauses it again."""
    if state.finished is not None or (state.halt is not None and state.halt.is_final):
        raise IllegalTransition("the job was halted or has ended: it cannot be resumed; retry it")
    if state.halt is None:
        return state
    waived = state.waived
    if state.halt.cause is HaltCause.BUDGET:
        used = {name: use.used for name, use in usage(policy, state, unknown).items()}
        waived = waived | {name: max(n, waived.get(name, 0)) for name, n in used.items() if n}
    return replace(state, halt=None, waived=waived)


def promote(state: RolloutState) -> RolloutState:
    """A person opens the wave that waits at its gate."""
    if not state.asked or state.halt is not None:
        raise IllegalTransition("no wave of the job waits to be opened")
    return replace(state, promoted=True)
