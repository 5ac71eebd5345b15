"""Claims: what a node asks for, what it got, and what its dispatcher does next.

The dispatcher keeps a `ClaimState`, asks for the next step, does it, tells what came of it (`after_…`), and
asks again. Promises: a claim follows whatever may have made a task ready; after a claim that took all there
was, the dispatcher waits for a hint, the next due time or the next limit to open; the share of the aged is
kept (`core.priority`). Never: I/O.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.capacity import CLAIM_MAX
from holdfast.core.priority import aged_share
from holdfast.core.task import Priority, Task

PUSHED_POLL_SECONDS: Final = 5.0
"""How often an idle dispatcher looks although no hint came."""
POLL_SECONDS: Final = 0.25
"""The same while hints do not arrive."""
NO_AGED_SECONDS: Final = 1.0
NO_AGED_TIMES: Final = 10
"""After a search for aged tasks that found none, the next one waits this many times its duration: over a slow
network, searching must not take the time of claiming."""
GATES_SECONDS: Final = 1.0
"""While claims get all that they ask for, limits are looked at this often."""
HELD_SECONDS: Final = 0.05
"""Another transaction holds the limits; they are tried again after this time."""
SHORT_SECONDS: Final = 0.01
SMALL: Final = 8
"""A claim of at most this many tasks takes no longer than a commit."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a node asks for."""

    node: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    limit: int
    lease_seconds: float


class Claimed(msgspec.Struct, frozen=True):
    """What a claim brought."""

    tasks: list[Task]
    opens_at: float | None = None
    """When a limit that refused tasks opens."""
    parked: int = 0
    """Tasks that a limit refused. Others may be ready behind them."""
    look_again: bool = False
    """Part of the line was not read, or other nodes took what was read."""
    blind_seconds: float = 0.0
    """Seconds until a scan from the beginning is due. Until then a claim may miss tasks below a floor."""
    held_types: tuple[str, ...] = ()
    """Types of which tasks were left, because another transaction holds one of their limits."""


class Upcoming(msgspec.Struct, frozen=True):
    """What an idle worker waits for: a due task, or a limit that opens."""

    due_at: float | None
    opens_at: float | None


class Hint(Enum):
    """Why a dispatcher ticks."""

    NONE = 0
    """Its pause is over."""
    ONE = 1
    """A single task became ready, as far as is known."""
    MANY = 2
    """Anything may have changed."""


class Load(NamedTuple):
    """The worker pool, as a dispatcher sees it."""

    free: int
    """Tasks that it can take."""
    busy: int
    maximum: int
    is_flowing: bool
    """Tasks are ending at this moment."""
    mean_seconds: float


class ClaimState(msgspec.Struct, frozen=True):
    """What a dispatcher remembers between two steps."""

    is_saturated: bool = True
    """The last claim got all that it asked for, so there may be more."""
    is_blind: bool = False
    """The last claim may have missed something."""
    blind_seconds: float = 0.0
    """As in `Claimed`, until the next pause."""
    is_small: bool = False
    """The last claim brought few tasks."""
    served: Priority = Priority.CRITICAL
    """The least urgent priority that claims reach by themselves. Only tasks below it can starve."""
    starts: int = 0
    """Starts that count towards the next one of an aged task."""
    aged_at: float = 0.0
    """When the search for aged tasks is worth while again."""
    gates_at: float = 0.0
    """When to look at limits although claims are saturated."""
    gates_not_before: float = 0.0


class Sleep(msgspec.Struct, frozen=True):
    """Nothing to do for this time, unless a hint comes."""

    seconds: float


class Look(msgspec.Struct, frozen=True):
    """Read what is upcoming: cheaper than a claim that gets nothing."""


class ClaimFirst(msgspec.Struct, frozen=True):
    """Claim the first task in line."""


class ClaimMany(msgspec.Struct, frozen=True):
    """Claim up to `limit` tasks, of which `aged` from those that have waited long."""

    limit: int
    aged: int = 0


Step: TypeAlias = Sleep | Look | ClaimFirst | ClaimMany


def room(load: Load) -> int:
    """How many tasks to claim now. While short tasks run, a few free workers are not worth a claim: more will
    be free at once."""
    free = min(load.free, CLAIM_MAX)
    enough = min(CLAIM_MAX, load.maximum) // 4
    is_short = load.is_flowing and load.mean_seconds < SHORT_SECONDS
    is_too_little = load.busy > 0 and free < enough and is_short
    return 0 if free < 1 or is_too_little else free


def begin(state: ClaimState, hint: Hint, free: int, now: float) -> Step:
    """The first step of a tick with room for `free` tasks, at least one."""
    if hint is Hint.NONE:
        return Look()
    if hint is Hint.ONE and not (state.is_saturated or state.is_blind):
        return ClaimFirst()
    return claim_many(state, free, now)


def claim_many(state: ClaimState, free: int, now: float) -> ClaimMany:
    """As long as a claim gets all that is ready, the aged are among it."""
    if not state.is_saturated or now < state.aged_at:
        return ClaimMany(free)
    return ClaimMany(free, aged_share(state.starts, free).aged)


def unlooked(state: ClaimState) -> ClaimState:
    """There was no room to claim: the next worker that comes free has reason to look."""
    return state if state.is_saturated else replace(state, is_saturated=True)


def after_aged(state: ClaimState, taken: int, now: float, took_seconds: float) -> ClaimState:
    """After the search for aged tasks that a claim begins with."""
    if taken:
        return state
    return replace(state, aged_at=now + max(NO_AGED_SECONDS, NO_AGED_TIMES * took_seconds))


def after_claim(state: ClaimState, claimed: Claimed, limit: int) -> ClaimState:
    """After a claim that asked for `limit` tasks."""
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
    """After the part of a claim that takes tasks in the order of the line, without the aged."""
    served = max((task.priority for task in claimed.tasks), default=Priority.CRITICAL)
    return replace(state, is_small=len(claimed.tasks) <= SMALL, served=served)


def after_first(state: ClaimState, taken: int) -> ClaimState:
    return replace(state, starts=aged_share(state.starts, taken).counted)


def are_gates_due(state: ClaimState, opens_at: float | None, now: float) -> bool:
    """Whether to let in tasks that wait at limits, of which one opens at `opens_at`."""
    return opens_at is not None and now >= max(opens_at, state.gates_not_before)


def after_gates(state: ClaimState, opened: int, now: float) -> ClaimState:
    """After `opened` tasks were let in. Another transaction holds what was due and could not be let in."""
    not_before = 0.0 if opened else now + HELD_SECONDS
    return replace(state, gates_at=now + GATES_SECONDS, gates_not_before=not_before)


def is_due(upcoming: Upcoming, now: float) -> bool:
    return upcoming.due_at is not None and upcoming.due_at <= now


def pause_seconds(state: ClaimState, upcoming: Upcoming, now: float, *, is_pushing: bool) -> float:
    """How long to sleep with nothing to claim: until something upcoming, or until the next poll."""
    poll = PUSHED_POLL_SECONDS if is_pushing else POLL_SECONDS
    if state.blind_seconds > 0.0:
        # What the last claim may have missed can be seen then.
        poll = min(poll, state.blind_seconds)
    moments = [] if upcoming.due_at is None else [upcoming.due_at]
    if upcoming.opens_at is not None:
        moments.append(max(upcoming.opens_at, state.gates_not_before))
    return max(0.0, min([poll, *(at - now for at in moments)]))


def after_pause(state: ClaimState) -> ClaimState:
    """A pause that was chosen has used up what blindness says about it."""
    return replace(state, blind_seconds=0.0) if state.blind_seconds else state
