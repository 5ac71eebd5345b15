"""Claims of remote workers: the next tasks in order, with the share of aged tasks and what is reserved.

Promises: a repeated claim id gets the same tasks. The rules are those of a dispatcher (`core.claiming`):
while more tasks are ready than a worker takes, aged tasks get their share of its starts. Tasks that an
operator reserved for the node go first.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.core import claiming
from holdfast.core.capacity import CLAIM_MAX
from holdfast.core.check import check_id, check_name
from holdfast.core.claiming import Claimed, ClaimRequest, ClaimState
from holdfast.core.gate import of_node
from holdfast.core.ids import Ids
from holdfast.core.speaking import NodeAct, Voice
from holdfast.core.task import DEFAULT_PROJECT, Priority, Task
from holdfast.store.port import Dialect, RowHeld
from holdfast.store.script import Script, call
from holdfast.store.scripts.claim import Wait, claim_limited, claim_these, lock_briefly
from holdfast.store.scripts.claim_by_id import claim_assigned
from holdfast.store.store import Store
from holdfast.sync.speaking import heard
from holdfast.sync.worker.live_rows import own

RESERVED_SECONDS: Final = 1.0
"""How often the claims of a node look for tasks that are reserved for it."""
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


class Earlier(msgspec.Struct, frozen=True):
    """The tasks that a claim id took before."""

    tasks: list[Task]


Take: TypeAlias = Callable[[Dialect, Ids, float], Script[Claimed]]


class WorkerClaims:
    """The claims of the workers of one gateway process."""

    def __init__(self, store: Store, clock: Clock, *, ageing_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._ageing_seconds = ageing_seconds
        self._nodes: dict[str, NodeClaims] = {}

    async def claim(self, named: NamedClaim) -> list[Task]:
        """The tasks of this claim: those that it took before, or the next in order. Each kind of claim is a
        transaction: a repeat after an interruption gets what was taken until then."""
        check_name("claimId", named.claim_id)
        for kind in named.types:
            check_id("types", kind)
        known = self._nodes.pop(named.node, NodeClaims())
        limit, tasks = min(max(named.slots, 1), CLAIM_MAX), []
        monotonic = self._clock.monotonic()
        if monotonic >= known.reserved_at:
            known = replace(known, reserved_at=monotonic + RESERVED_SECONDS)
            if await self._has_reserved(named.node):
                reserved = await self._run(named, partial(_reserved, named.request(limit)))
                if isinstance(reserved, Earlier):
                    return reserved.tasks
                tasks = reserved.tasks
        if room := limit - len(tasks):
            taken = await self._next(named, known, room, is_first=not tasks)
            if isinstance(taken, Earlier):
                return taken.tasks
            tasks = tasks + taken
        else:
            self._remember(named.node, known)
        return sorted(tasks, key=lambda task: (task.priority, task.due_at, task.id))

    async def _next(
        self, named: NamedClaim, known: NodeClaims, room: int, *, is_first: bool
    ) -> list[Task] | Earlier:
        """Aged tasks, as many as their share is, then the next in order."""
        step = claiming.claim_many(known.state, room, self._store.now())
        state, aged = known.state, Claimed([])
        if step.aged:
            take = partial(
                _aged,
                named.request(step.aged),
                ageing_seconds=self._ageing_seconds,
                below=state.served,
            )
            answer: Claimed | Earlier = aged
            # A limit that another transaction holds: the aged tasks are not taken now.
            with suppress(RowHeld):
                answer = await self._run(named, take, is_first=is_first)
            if isinstance(answer, Earlier):
                return answer
            aged = answer
            state = claiming.after_aged(state, len(aged.tasks), self._store.now(), 0.0)
        line = Claimed([])
        if rest := room - len(aged.tasks):
            take = partial(_in_line, named.request(rest))
            answer = await self._run(named, take, is_first=is_first and not aged.tasks)
            if isinstance(answer, Earlier):
                return answer
            line = answer
            state = claiming.after_line(state, line)
        tasks = aged.tasks + line.tasks
        both = replace(line, tasks=tasks, parked=aged.parked + line.parked)
        self._remember(named.node, replace(known, state=claiming.after_claim(state, both, room)))
        return tasks

    async def _has_reserved(self, node: str) -> bool:
        gate, now = of_node(node), self._store.now()
        return await self._store.read(lambda: _is_reserved(gate, now))

    async def _run(
        self, named: NamedClaim, take: Take, *, is_first: bool = True
    ) -> Claimed | Earlier:
        return await self._store.run(partial(_named, named=named, take=take, is_first=is_first))

    def _remember(self, node: str, known: NodeClaims) -> None:
        self._nodes[node] = known
        if len(self._nodes) > NODES_MAX:
            del self._nodes[next(iter(self._nodes))]


def _named(
    dialect: Dialect, ids: Ids, now: float, *, named: NamedClaim, take: Take, is_first: bool
) -> Script[Claimed | Earlier]:
    """Takes tasks under the name of the claim. `is_first`: the claim has taken none yet. The row of the node
    is locked: the same claim at two gateways is one after the other."""
    yield from heard(named.voice, NodeAct.CLAIM)
    if is_first:
        earlier = yield call(own("claimed_under"), node=named.node, claim_id=named.claim_id)
        if earlier:
            return Earlier(list(earlier))
    return (yield from take(dialect, ids, now))


def _is_reserved(gate: str, now: float) -> Script[bool]:
    return bool((yield call("reserved_tasks", gate=gate, now=now)))


def _reserved(request: ClaimRequest, dialect: Dialect, ids: Ids, now: float) -> Script[Claimed]:
    return (
        yield from claim_assigned(request, now=now, record_id=ids.record(now), recorder=dialect)
    )


def _aged(
    request: ClaimRequest,
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    ageing_seconds: float,
    below: Priority,
) -> Script[Claimed]:
    aged = yield from dialect.pick_aged(
        request, now=now, ageing_seconds=ageing_seconds, below=below
    )
    limits = yield from lock_briefly(aged)
    return (
        yield from claim_these(
            aged, request, limits, now=now, record_id=ids.record(now), recorder=dialect
        )
    )


def _in_line(request: ClaimRequest, dialect: Dialect, ids: Ids, now: float) -> Script[Claimed]:
    claimed, limited = yield from dialect.fast.claim(request, now=now, record_id=ids.record(now))
    if not limited:
        return claimed
    counted = yield from claim_limited(
        limited,
        request,
        now=now,
        record_id=ids.record(now),
        recorder=dialect,
        wait=Wait.IF_NONE_IS_FREE,
    )
    return replace(
        claimed, tasks=claimed.tasks + counted.tasks, parked=claimed.parked + counted.parked
    )
