"""The Redlock protocol as generators: which request goes to all nodes, and what their answers mean.

A generator yields a `QuorumRequest` for all nodes and receives their answers (None: no answer). It does no
I/O, so the same code serves memory, one Redis, several of them, threads and event loops.
Promises: a denied acquire releases the nodes that granted it; a refresh never acquires.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import NamedTuple, TypeAlias, TypeVar

from holdfast.core import quorum as rules
from holdfast.errors import StoreUnavailable

T = TypeVar("T")


class Verb(Enum):
    TAKE = "take"
    REFRESH = "refresh"
    RELEASE = "release"


class QuorumRequest(NamedTuple):
    """One request, sent to every node."""

    verb: Verb
    resource: str
    token: str
    ttl_ms: int = 0


Answers: TypeAlias = list[bool | None]
QuorumSteps: TypeAlias = Generator[QuorumRequest, Answers, T]


class Timing(NamedTuple):
    """The clock of the caller, and the drift allowed to the clocks of the nodes."""

    monotonic: Callable[[], float]
    drift_ms: Callable[[int], float] = rules.drift_ms


class Grant(NamedTuple):
    """An acquired lock, and how long the holder may rely on it from now."""

    token: str
    validity_ms: float


def acquire(
    resource: str, token: str, ttl_ms: int, *, timing: Timing, again: bool
) -> QuorumSteps[Grant | None]:
    """`again`: an earlier request with this token may have been granted, and its answer lost."""
    monotonic = timing.monotonic
    started_at = monotonic()
    answers = yield QuorumRequest(Verb.TAKE, resource, token, ttl_ms)
    if again and rules.agreed(answers) is False:
        refreshed = yield QuorumRequest(Verb.REFRESH, resource, token, ttl_ms)
        answers = [_either(*pair) for pair in zip(answers, refreshed, strict=True)]
    agreed = rules.agreed(answers)
    validity = rules.validity_ms(ttl_ms, monotonic() - started_at, timing.drift_ms(ttl_ms))
    if agreed and validity > 0:
        return Grant(token, validity)
    if any(answer is not False for answer in answers):
        # A node that did not answer may have granted the lock too.
        yield QuorumRequest(Verb.RELEASE, resource, token)
    if agreed is None:
        raise _unreachable(answers)
    return None


def refresh(resource: str, token: str, ttl_ms: int, *, timing: Timing) -> QuorumSteps[Grant | None]:
    started_at = timing.monotonic()
    answers = yield QuorumRequest(Verb.REFRESH, resource, token, ttl_ms)
    agreed = rules.agreed(answers)
    if agreed is None:
        raise _unreachable(answers)
    elapsed = timing.monotonic() - started_at
    validity = rules.validity_ms(ttl_ms, elapsed, timing.drift_ms(ttl_ms))
    return Grant(token, validity) if agreed and validity > 0 else None


def release(resource: str, token: str) -> QuorumSteps[bool]:
    answers = yield QuorumRequest(Verb.RELEASE, resource, token)
    agreed = rules.agreed(answers)
    if agreed is None:
        raise _unreachable(answers)
    return agreed


def _either(first: bool | None, second: bool | None) -> bool | None:
    if first or second:
        return True
    return None if first is None or second is None else False


def _unreachable(answers: Answers) -> StoreUnavailable:
    missing = sum(answer is None for answer in answers)
    return StoreUnavailable(
        f"{missing} of {len(answers)} lock servers did not answer in time: "
        "without a majority the holder of the lock is unknown"
    )
