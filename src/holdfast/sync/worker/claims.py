"""Claims of remote workers: the next tasks in order, with the share of aged tasks and what is reserved.

Promises: a claim is one transaction, so a repeated claim id gets the same tasks. The rules are those of a
dispatcher (`core.claiming`): while more tasks are ready than a worker takes, aged tasks get their share
of its starts. Tasks that an operator reserved for the node go first. The tasks of a claim fit into one
message to the worker: a claim that took too much is rolled back, and a smaller one follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.core import capacity, claiming
from holdfast.core.check import check_id, check_name
from holdfast.core.claiming import Claimed, ClaimRequest, ClaimState
from holdfast.core.gate import of_reserved
from holdfast.core.ids import Ids
from holdfast.core.speaking import NodeAct, Voice
from holdfast.core.task import DEFAULT_PROJECT, Task
from holdfast.errors import BatchTooLarge
from holdfast.store.port import Dialect, RowHeld
from holdfast.store.script import Script, call
from holdfast.store.scripts.claim import Wait, claim_aside, claim_these, lock_briefly
from holdfast.store.scripts.claim_by_id import claim_assigned
from holdfast.store.scripts.turns import in_turn
from holdfast.store.store import Store
from holdfast.sync.speaking import heard
from holdfast.sync.worker.live_rows import own

RESERVED_SECONDS: Final = 1.0
"""How often the claims of a node look for tasks that are reserved for it."""
HELD_SECONDS: Final = 1.0
"""How long claims do not wait for limits after another transaction has held one for too long."""
NODES_MAX: Final = 10_000
"""Nodes whose share of aged tasks a gateway counts. With more, the count of the oldest starts over."""


class NamedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's request for the next tasks. A repeat of its claim id gets the same tasks."""

    voice: Voice
    claim_id: str
    types: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    lease_seconds: float
    project: str = DEFAULT_PROJECT

    @property
    def node(self) -> str:
        return self.voice.node

    def request(self, limit: int) -> ClaimRequest:
        return ClaimRequest(
            node=self.node,
            queues=self.queues,
            types=self.types,
            projects=(self.project,),
            limit=limit,
            lease_seconds=self.lease_seconds,
            claim_id=self.claim_id,
        )


class NodeClaims(msgspec.Struct, frozen=True):
    """What a gateway remembers of the claims of a node."""

    state: ClaimState = ClaimState()
    reserved_at: float = float("-inf")
    """When to look for reserved tasks again."""
    task_chars: float | None = None
    """The mean size of the tasks of its last claim. None: not known."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim looks for, in this order, until it has `limit` tasks."""

    limit: int
    has_reserved: bool
    """Looks for tasks that are reserved for the node."""
    has_aged: bool
    """Gives aged tasks their share."""
    state: ClaimState
    ageing_seconds: float
    wait: Wait = Wait.IF_NONE_IS_FREE


class Taken(msgspec.Struct, frozen=True):
    """What a claim took, and the state after it."""

    tasks: list[Task]
    state: ClaimState


class WorkerClaims:
    """The claims of the workers of one gateway process."""

    def __init__(self, store: Store, clock: Clock, *, ageing_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._ageing_seconds = ageing_seconds
        self._nodes: dict[str, NodeClaims] = {}
        self._held_until = float("-inf")
        """Until then claims do not wait for limits: a wait holds the row of the node, and so its renewals."""

    async def claim(self, named: NamedClaim) -> list[Task]:
        """The tasks of this claim: those that it took before, or the next in order, in one transaction."""
        check_name("claimId", named.claim_id)
        for kind in named.types:
            check_id("types", kind)
        node = self._nodes.get(named.node, NodeClaims())
        monotonic = self._clock.monotonic()
        plan = Plan(
            limit=min(max(named.slots, 1), capacity.offer_max(node.task_chars)),
            has_reserved=monotonic >= node.reserved_at,
            has_aged=True,
            state=node.state,
            ageing_seconds=self._ageing_seconds,
        )
        taken = await self._take(named, plan)
        if plan.has_reserved:
            node = replace(node, reserved_at=monotonic + RESERVED_SECONDS)
        if taken.tasks:
            node = replace(node, task_chars=_chars(taken.tasks) / len(taken.tasks))
        self._remember(named.node, replace(node, state=taken.state))
        return sorted(taken.tasks, key=lambda task: (task.priority, task.due_at, task.id))

    async def _take(self, named: NamedClaim, plan: Plan) -> Taken:
        try:
            return await self._take_all(named, plan)
        except BatchTooLarge:
            # Nothing was claimed: larger tasks have followed those of the last claim.
            return await self._take_all(named, replace(plan, limit=capacity.LARGE_CLAIM_MAX))

    async def _take_all(self, named: NamedClaim, plan: Plan) -> Taken:
        if self._clock.monotonic() >= self._held_until:
            with suppress(RowHeld):
                return await self._store.run(partial(_claim_bounded, named, plan))
            self._held_until = self._clock.monotonic() + HELD_SECONDS
        # Another transaction holds a limit: only tasks whose limits are free.
        free = replace(plan, has_reserved=False, has_aged=False, wait=Wait.NEVER)
        return await self._store.run(partial(_claim_bounded, named, free))

    def _remember(self, node: str, claims: NodeClaims) -> None:
        self._nodes.pop(node, None)
        self._nodes[node] = claims
        if len(self._nodes) > NODES_MAX:
            del self._nodes[next(iter(self._nodes))]


def _chars(tasks: Sequence[Task]) -> int:
    """The size of what the tasks carry for the code of users."""
    return sum([len(task.payload_json) + len(task.checkpoint_json or "") for task in tasks])


def _claim_bounded(
    named: NamedClaim, plan: Plan, dialect: Dialect, ids: Ids, now: float
) -> Script[Taken]:
    """BatchTooLarge, which undoes the claim, if one message cannot carry its tasks."""
    taken = yield from _claim(named, plan, dialect, ids, now)
    if plan.limit > capacity.LARGE_CLAIM_MAX and capacity.is_oversized(
        len(taken.tasks), _chars(taken.tasks)
    ):
        raise BatchTooLarge("the tasks of this claim are too large for one message")
    return taken


def _claim(named: NamedClaim, plan: Plan, dialect: Dialect, ids: Ids, now: float) -> Script[Taken]:
    """Takes tasks under the name of the claim. The row of the node is locked: the same claim at two gateways
    is one after the other, and the second gets all that the first took."""
    yield from heard(named.voice, NodeAct.CLAIM)
    earlier = yield call(own("claimed_under"), node=named.node, claim_id=named.claim_id)
    if earlier:
        return Taken(list(earlier), plan.state)
    tasks: list[Task] = []
    if plan.has_reserved:
        tasks = yield from _reserved(named.request(plan.limit), dialect, ids, now)
    room = plan.limit - len(tasks)
    if not room:
        return Taken(tasks, plan.state)
    state, aged = plan.state, Claimed([])
    share = claiming.claim_many(state, room, now).aged if plan.has_aged else 0
    if share:
        aged = yield from _aged(named.request(share), plan, dialect, ids, now)
        state = claiming.after_aged(state, len(aged.tasks), now, 0.0)
    line = Claimed([])
    if rest := room - len(aged.tasks):
        line = yield from _in_line(named.request(rest), plan.wait, dialect, ids, now)
        state = claiming.after_line(state, line)
    both = replace(line, tasks=aged.tasks + line.tasks, parked=aged.parked + line.parked)
    if not (both.tasks or plan.has_reserved) and plan.wait is not Wait.NEVER:
        # An idle worker: the hint that woke it may be about a task that is reserved for it.
        tasks = yield from _reserved(named.request(plan.limit), dialect, ids, now)
    return Taken(tasks + both.tasks, claiming.after_claim(state, both, room))


def _reserved(request: ClaimRequest, dialect: Dialect, ids: Ids, now: float) -> Script[list[Task]]:
    if not (yield call("reserved_tasks", gates=of_reserved(request.node), now=now)):
        return []
    claimed = yield from claim_assigned(
        request, now=now, record_id=ids.record(now), recorder=dialect
    )
    return claimed.tasks


def _aged(
    request: ClaimRequest, plan: Plan, dialect: Dialect, ids: Ids, now: float
) -> Script[Claimed]:
    aged = yield from dialect.pick_aged(
        request, now=now, ageing_seconds=plan.ageing_seconds, below=plan.state.served
    )
    aged = yield from in_turn(aged, now)
    limits = yield from lock_briefly(aged)
    return (
        yield from claim_these(
            aged, request, limits, now=now, record_id=ids.record(now), recorder=dialect
        )
    )


def _in_line(
    request: ClaimRequest, wait: Wait, dialect: Dialect, ids: Ids, now: float
) -> Script[Claimed]:
    """The next in line. While another transaction holds a limit, the types behind it are looked at too: the
    tasks of the held limit would fill the line."""
    claimed, aside = yield from dialect.fast.claim(request, now=now, record_id=ids.record(now))
    if not (aside.limited or aside.fair):
        return claimed
    counted = yield from claim_aside(
        aside, request, now=now, record_id=ids.record(now), recorder=dialect, wait=wait
    )
    found = _joined(claimed, counted)
    types = tuple(name for name in request.types if name not in counted.held_types)
    room = request.limit - len(found.tasks)
    if not counted.held_types or not types or not room:
        return found
    behind = replace(request, types=types, limit=room, expected=None)
    return _joined(found, (yield from _in_line(behind, Wait.NEVER, dialect, ids, now)))


def _joined(first: Claimed, second: Claimed) -> Claimed:
    return replace(first, tasks=first.tasks + second.tasks, parked=first.parked + second.parked)
