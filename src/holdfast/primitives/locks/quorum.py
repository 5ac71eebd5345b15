"""The talk with the nodes of a Redlock, as data: what to ask them all, and what their answers mean.

A generator yields an `Order` for all nodes at once and gets their answers back (None: no answer). It knows
no socket, no await and no thread; so one text serves memory, one Redis, five of them, sync and async.
Promises: whatever was taken on the way to a refusal is given back; a refresh never acquires.
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
    """For every node."""

    verb: Verb
    resource: str
    token: str
    ttl_ms: int = 0


Answers: TypeAlias = list[bool | None]
Talk: TypeAlias = Generator[QuorumRequest, Answers, T]


class Timing(NamedTuple):
    """The asker's clock, and how far those of the nodes may run away from it."""

    monotonic: Callable[[], float]
    drift_ms: Callable[[int], float] = rules.drift_ms


class Grant(NamedTuple):
    """A lock that was taken, and how long it may be counted on from now."""

    token: str
    validity_ms: float


def acquire(
    resource: str, token: str, ttl_ms: int, *, timing: Timing, again: bool
) -> Talk[Grant | None]:
    """`again`: the token may have been granted before, in an answer that was lost."""
    monotonic = timing.monotonic
    began = monotonic()
    answers = yield QuorumRequest(Verb.TAKE, resource, token, ttl_ms)
    if again and rules.agreed(answers) is False:
        kept = yield QuorumRequest(Verb.REFRESH, resource, token, ttl_ms)
        answers = [_either(*pair) for pair in zip(answers, kept, strict=True)]
    agreed = rules.agreed(answers)
    validity = rules.validity_ms(ttl_ms, monotonic() - began, timing.drift_ms(ttl_ms))
    if agreed and validity > 0:
        return Grant(token, validity)
    if any(answer is not False for answer in answers):
        # Also where no answer came: the node may have it all the same.
        yield QuorumRequest(Verb.RELEASE, resource, token)
    if agreed is None:
        raise _unreachable(answers)
    return None


def refresh(resource: str, token: str, ttl_ms: int, *, timing: Timing) -> Talk[Grant | None]:
    began = timing.monotonic()
    answers = yield QuorumRequest(Verb.REFRESH, resource, token, ttl_ms)
    agreed = rules.agreed(answers)
    if agreed is None:
        raise _unreachable(answers)
    elapsed = timing.monotonic() - began
    validity = rules.validity_ms(ttl_ms, elapsed, timing.drift_ms(ttl_ms))
    return Grant(token, validity) if agreed and validity > 0 else None


def release(resource: str, token: str) -> Talk[bool]:
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
    silent = sum(answer is None for answer in answers)
    return StoreUnavailable(
        f"{silent} of {len(answers)} lock servers did not answer in time: "
        "without a majority nobody can tell who holds the lock"
    )
