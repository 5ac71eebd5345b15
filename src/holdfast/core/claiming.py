"""Claims: the request of a node, its result, and what the dispatcher does next.

The dispatcher keeps a `ClaimState`. It asks for the next step, performs it, and updates the state with the
result (`after_…`). Promises: every event that may make a task ready is followed by a claim; after a claim
that drained the queue, the dispatcher waits for a hint, the next due time or the next limit to open; aged
tasks get their share (`core.priority`). Never: I/O.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.priority import aged_share
from holdfast.core.task import Priority, Task

PUSHED_POLL_SECONDS: Final = 5.0
"""Poll interval of an idle dispatcher while hints arrive."""
POLL_SECONDS: Final = 0.25
"""Poll interval while hints do not arrive."""
NO_AGED_SECONDS: Final = 1.0
"""The least pause after a search that found no aged task."""
EMPTY_TIMES: Final = 10
"""After a search that found no aged task, or a check of limits that unparked none, the next one waits this
many times its duration. On a slow network, searches must not delay claims."""
GATES_SECONDS: Final = 1.0
"""While claims are saturated, limits are checked at this interval."""
HELD_RETRY_SECONDS: Final = 0.05
"""Pause before another try while another transaction holds the rows."""
SHORT_SECONDS: Final = 0.01
"""While tasks take less than this on average, a claim waits until more workers are free."""
SMALL: Final = 8
"""A claim of at most this many tasks takes no longer than a commit."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a node for tasks."""

    node: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    limit: int
    lease_seconds: float
    projects: tuple[str, ...] | None = None
    """The projects whose tasks the node may run. None: all."""
    expected: int | None = None
    """How many tasks the node believes to be ready: the store takes the way that suits. None: not known."""
    claim_id: str | None = None
    """The name of the claim. Tasks that are claimed under one keep its lease duration."""

    @property
    def own_lease_seconds(self) -> float | None:
        """The lease duration that the tasks keep. None: that of the node's heartbeat."""
        return None if self.claim_id is None else self.lease_seconds


class Claimed(msgspec.Struct, frozen=True):
    """The result of a claim."""

    tasks: list[Task]
    opens_at: float | None = None
    """When a limit that refused tasks opens."""
    parked: int = 0
    """Tasks that a limit refused. Other tasks may be ready behind them."""
    look_again: bool = False
    """The claim did not read all ready tasks, or other nodes took those that it read."""
    blind_seconds: float = 0.0
    """Seconds until a scan from the beginning is due. Until then a claim starts at its floor, the place in
    line where the last scan found the first ready task, and misses tasks that returned before it."""
    held_types: tuple[str, ...] = ()
    """Types whose tasks were skipped because another transaction holds one of their limits."""


class Upcoming(msgspec.Struct, frozen=True):
    """What an idle worker waits for: a due task, or a limit that opens."""

    due_at: float | None
    opens_at: float | None


class Hint(Enum):
    """What the messages since the last tick say about new work. A hint carries no truth: a lost one costs one
    poll."""

    NONE = 0
    """None came: the dispatcher's pause is over."""
    ONE = 1
    """Probably a single task became ready."""
    MANY = 2
    """Anything may have changed."""


class Load(msgspec.Struct, frozen=True, gc=False):
    """The worker pool, as a dispatcher sees it."""

    free: int
    """Tasks that the pool can take."""
    waiting: int
    """Tasks that were claimed and have not started."""
    maximum: int
    largest: int
    """Tasks that one claim may take."""
    is_flowing: bool
    """Tasks are ending at this moment."""
    mean_seconds: float


class ClaimState(msgspec.Struct, frozen=True):
    """The state of a dispatcher between two steps."""

    is_saturated: bool = True
    """More tasks may be ready: the last claim returned or parked as many as requested, or none was made
    yet."""
    is_blind: bool = False
    """The last claim may have missed ready tasks."""
    blind_seconds: float = 0.0
    """As in `Claimed`, until the next pause."""
    is_small: bool = False
    """The last claim returned few tasks."""
    served: Priority = Priority.CRITICAL
    """The least urgent priority that claims reach in the usual order. Only less urgent tasks can starve."""
    starts: int = 0
    """Starts since the last one of an aged task."""
    aged_at: float = 0.0
    """When to search for aged tasks again."""
    gates_at: float = 0.0
    """When to check limits while claims are saturated."""
    gates_not_before: float = 0.0
    """No check before this time: another transaction held the limit that was due."""


class Sleep(msgspec.Struct, frozen=True):
    """Wait this long, or until a hint arrives."""

    seconds: float


class ReadUpcoming(msgspec.Struct, frozen=True):
    """Read the next due time. This is cheaper than a claim that returns no task."""


class ClaimFirst(msgspec.Struct, frozen=True):
    """Claim the first task in line."""


class ClaimMany(msgspec.Struct, frozen=True):
    """Claim up to `limit` tasks, `aged` of them from the tasks that have waited long."""

    limit: int
    aged: int = 0


Step: TypeAlias = Sleep | ReadUpcoming | ClaimFirst | ClaimMany


def room(load: Load) -> int:
    """How many tasks to claim now. While short tasks run and some wait for a worker, little room does not
    justify a claim: there will be more in a moment."""
    free = min(load.free, load.largest)
    enough = min(load.largest, load.maximum) // 4
    is_short = load.is_flowing and load.mean_seconds < SHORT_SECONDS
    is_too_little = load.waiting > 0 and free < enough and is_short
    return 0 if free < 1 or is_too_little else free


def begin(state: ClaimState, hint: Hint, free: int, now: float) -> Step:
    """The first step of a tick with room for `free` tasks, at least one."""
    if hint is Hint.NONE:
        return ReadUpcoming()
    if hint is Hint.ONE and not (state.is_saturated or state.is_blind):
        return ClaimFirst()
    return claim_many(state, free, now)


def claim_many(state: ClaimState, free: int, now: float) -> ClaimMany:
    """A claim of up to `free` tasks. It reserves a share for aged tasks only while claims are saturated:
    a claim that drains the queue takes the aged tasks too."""
    if not state.is_saturated or now < state.aged_at:
        return ClaimMany(free)
    return ClaimMany(free, aged_share(state.starts, free).aged)


def without_room(state: ClaimState) -> ClaimState:
    """After a tick without room for a task: the next free worker triggers a claim."""
    return state if state.is_saturated else replace(state, is_saturated=True)


def after_aged(state: ClaimState, taken: int, now: float, took_seconds: float) -> ClaimState:
    """After the search for aged tasks, the first part of a claim."""
    if taken:
        return state
    return replace(state, aged_at=now + max(NO_AGED_SECONDS, EMPTY_TIMES * took_seconds))


def after_claim(state: ClaimState, claimed: Claimed, limit: int) -> ClaimState:
    """After a claim of up to `limit` tasks."""
    gates_at = state.gates_at
    if claimed.opens_at is not None:
        gates_at = min(gates_at, claimed.opens_at)
    return replace(
        state,
        gates_at=gates_at,
        starts=aged_share(state.starts, len(claimed.tasks)).counted,
        is_saturated=len(claimed.tasks) + claimed.parked >= limit,
        blind_seconds=claimed.blind_seconds,
        is_blind=claimed.blind_seconds > 0.0,
    )


def after_line(state: ClaimState, claimed: Claimed) -> ClaimState:
    """After the part of a claim that takes tasks in the usual order, without aged tasks."""
    served = max((task.priority for task in claimed.tasks), default=Priority.CRITICAL)
    return replace(state, is_small=len(claimed.tasks) <= SMALL, served=served)


def after_first(state: ClaimState, taken: int) -> ClaimState:
    return replace(state, starts=aged_share(state.starts, taken).counted)


def are_gates_due(state: ClaimState, opens_at: float | None, now: float) -> bool:
    """Whether to unpark tasks. `opens_at` is when the first limit opens."""
    return opens_at is not None and now >= max(opens_at, state.gates_not_before)


def after_gates(state: ClaimState, opened: int, now: float, took_seconds: float) -> ClaimState:
    """After `opened` tasks were unparked. With none, another transaction holds the limit that was due."""
    if opened:
        return replace(state, gates_at=now + GATES_SECONDS, gates_not_before=0.0)
    pause = max(GATES_SECONDS, EMPTY_TIMES * took_seconds)
    return replace(state, gates_at=now + pause, gates_not_before=now + HELD_RETRY_SECONDS)


def is_due(upcoming: Upcoming, now: float) -> bool:
    return upcoming.due_at is not None and upcoming.due_at <= now


def pause_seconds(state: ClaimState, upcoming: Upcoming, now: float, *, is_pushing: bool) -> float:
    """How long to sleep with nothing to claim: until the next due time or open limit, or the next poll."""
    poll = PUSHED_POLL_SECONDS if is_pushing else POLL_SECONDS
    if state.blind_seconds > 0.0:
        # A scan from the beginning is due then, and sees the tasks that the last claim missed.
        poll = min(poll, state.blind_seconds)
    moments = [] if upcoming.due_at is None else [upcoming.due_at]
    if upcoming.opens_at is not None:
        moments.append(max(upcoming.opens_at, state.gates_not_before))
    return max(0.0, min([poll, *(at - now for at in moments)]))


def after_pause(state: ClaimState) -> ClaimState:
    """After a pause was chosen: `blind_seconds` has had its effect."""
    return replace(state, blind_seconds=0.0) if state.blind_seconds else state
