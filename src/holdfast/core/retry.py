"""Retries: exponential backoff with a cap, and reproducible jitter.

A task names the policy of its pauses (`TaskOptions.retry_policy`). Promises: the same (key, attempt) gives
the same delay in every process. Never: random numbers.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.check import SECONDS_MAX, check_flag, check_number, check_whole

JITTER_SHARE = 0.2
SPREAD: Final = "spread"
"""The policy whose jitter is half of the pause, also at the cap: many tasks that fail together do not come
back together. The policy of the fleet."""
HINT_SECONDS_MAX: Final = 3_600.0
"""A retry hint of the server above this is not waited for."""
ATTEMPTS_MAX: Final = 1_000
MS_MAX: Final = SECONDS_MAX * 1_000
TOKENS_MAX: Final = 1e9


def unit_jitter(key: str, attempt: int) -> float:
    """A number in [0, 1): a stable hash of the key and the attempt."""
    seed = hashlib.blake2b(f"{key}:{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(seed, "big") / 2**64


def delay_seconds(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """The pause after failed attempt number `attempt` (the first is 1): base * 2^(n-1) plus up to 20 % of
    jitter, at most the cap. `jitter` is in [0, 1)."""
    exponential = base * 2.0 ** min(attempt - 1, 62)
    return min(exponential * (1.0 + JITTER_SHARE * jitter), cap)


def spread_seconds(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """The pause after failed attempt number `attempt` (the first is 1): from half of min(cap, base * 2^(n-1))
    up to all of it. `jitter` is in [0, 1)."""
    return min(cap, base * 2.0 ** min(attempt - 1, 62)) * (0.5 + 0.5 * jitter)


def pause_seconds(key: str, attempt: int, *, base: float, cap: float, policy: str = "") -> float:
    """The pause of a task after its failed attempt, by the policy that it names."""
    rule = spread_seconds if policy == SPREAD else delay_seconds
    return rule(attempt, base=base, cap=cap, jitter=unit_jitter(key, attempt))


# -- calls -------------------------------------------------------------------------------------------


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a call is tried. The pauses are base * 2^n, at most `max_delay_ms`. Jitter
    shortens each by up to half."""

    attempts: int = 3
    base_ms: float = 100.0
    max_delay_ms: float = 30_000.0
    deadline_ms: float | None = None
    jitter_off: bool = False

    def __post_init__(self) -> None:
        check_whole("attempts", self.attempts, least=1, most=ATTEMPTS_MAX)
        check_number("base_ms", self.base_ms, most=MS_MAX)
        check_number("max_delay_ms", self.max_delay_ms, most=MS_MAX)
        if self.deadline_ms is not None:
            check_number("deadline_ms", self.deadline_ms, most=MS_MAX)
        check_flag("jitter_off", self.jitter_off)


class StopReason(StrEnum):
    """Why a call is not tried again."""

    REFUSED = "refused"
    """The error is permanent."""
    EXHAUSTED = "exhausted"
    """All attempts are used up."""
    DEADLINE = "deadline"
    """The next attempt would start after the deadline."""
    HINT = "hint"
    """The server asked for a pause above `HINT_SECONDS_MAX`."""
    BUDGET = "budget"
    """The retry budget is used up."""


class Again(msgspec.Struct, frozen=True):
    delay_seconds: float


class Stop(msgspec.Struct, frozen=True):
    reason: StopReason


def half_jitter(key: str, attempt: int) -> float:
    """A number in [0.5, 1): a stable hash of the key and the attempt."""
    return 0.5 + 0.5 * unit_jitter(key, attempt)


def backoff_seconds(policy: RetryPolicy, failures: int, key: str) -> float:
    """The pause after this number of failures (the first is 1)."""
    full = min(policy.base_ms * 2.0 ** min(failures - 1, 62), policy.max_delay_ms)
    share = 1.0 if policy.jitter_off else half_jitter(key, failures)
    return full * share / 1_000.0


def after_failure(
    policy: RetryPolicy,
    failures: int,
    *,
    key: str,
    is_retryable: bool,
    elapsed_seconds: float,
    hint_seconds: float | None = None,
) -> Again | Stop:
    """Whether to try again after this number of failures. `hint_seconds` is the pause that the server asked
    for."""
    if not is_retryable:
        return Stop(StopReason.REFUSED)
    if failures >= policy.attempts:
        return Stop(StopReason.EXHAUSTED)
    if hint_seconds is not None and hint_seconds > HINT_SECONDS_MAX:
        return Stop(StopReason.HINT)
    delay = max(backoff_seconds(policy, failures, key), hint_seconds or 0.0)
    budget = float("inf") if policy.deadline_ms is None else policy.deadline_ms / 1_000.0
    if elapsed_seconds + delay > budget:
        return Stop(StopReason.DEADLINE)
    return Again(delay)


def is_late(policy: RetryPolicy, elapsed_seconds: float) -> bool:
    """Whether the deadline has passed. A pause may have taken longer than planned."""
    return policy.deadline_ms is not None and elapsed_seconds * 1_000.0 > policy.deadline_ms


class Tokens(msgspec.Struct, frozen=True):
    """The rest of a retry budget at a point in time."""

    amount: float
    at: float


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """A retry budget. Each call adds `per_call` retries, each second `per_second`, up to `capacity`."""

    capacity: float = 10.0
    per_call: float = 0.1
    per_second: float = 0.5

    def __post_init__(self) -> None:
        check_number("capacity", self.capacity, least=1.0, most=TOKENS_MAX)
        check_number("per_call", self.per_call, most=TOKENS_MAX)
        check_number("per_second", self.per_second, most=TOKENS_MAX)


def refilled(allowance: Allowance, tokens: Tokens, now: float, *, calls: int = 0) -> Tokens:
    """The tokens with what was added since. A clock that goes back adds nothing."""
    added = max(0.0, now - tokens.at) * allowance.per_second + calls * allowance.per_call
    return Tokens(min(allowance.capacity, tokens.amount + added), max(now, tokens.at))


def spent(tokens: Tokens) -> Tokens | None:
    """The tokens after one retry; None when no retry is left."""
    return Tokens(tokens.amount - 1.0, tokens.at) if tokens.amount >= 1.0 else None
