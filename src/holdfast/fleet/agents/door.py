"""Syncs of agents, held until there is something to say.

An agent asks, and the answer waits here up to `wait_seconds`: until an execution is due for its host, a
command or a withdrawal concerns what it runs, or its blocks changed.
Promises: one look at the store serves all agents that wait, and idle agents cost no transaction. A change
between a look and the wait ends the wait. An agent has one poll at a time: a newer one ends the older. What
was said already, e.g. to stop a run, is said again after `REPEAT_SECONDS`, not at once.
Never: a timer for each agent; counts on a hint, which costs one poll if it is lost.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from typing import Final

from holdfast.clock import Clock
from holdfast.core.fleet.agents.check import check_sync
from holdfast.core.fleet.agents.wire import WAIT_SECONDS_MAX, AgentSync, AgentSyncAnswer
from holdfast.core.fleet.model import HostState
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.fleet.agents.agents import SERVE_SECONDS, Agents, HostNews
from holdfast.fleet.agents.group_commit import GATHER_SECONDS, AgentCommit
from holdfast.fleet.agents.looks import Looks
from holdfast.fleet.agents.parts import AgentMessage, SyncAnswer

REPEAT_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.1
"""Ends of waits within this time share one step of the loop."""
PACE: Final = 10.0
"""Looks for all agents take at most one part in this many of the time."""
log: Final = logging.getLogger("holdfast.fleet")


class _Poll:
    """A poll that is held."""

    __slots__ = ("future", "news", "until")

    def __init__(self, news: HostNews, until: float) -> None:
        self.news = news
        """What the host had to do when its answer said nothing new."""
        self.until = until
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class AgentDoor:
    """The polls of one process."""

    def __init__(
        self,
        agents: Agents,
        clock: Clock,
        *,
        gather_seconds: float = GATHER_SECONDS,
        on_heard: Callable[[str, float], None] = lambda host_id, expected_seconds: None,
    ) -> None:
        """`on_heard` is called with each sync, and how often an idle agent speaks."""
        self._on_heard = on_heard
        self.agents = agents
        self._clock = clock
        self._commit = AgentCommit(agents.sync, clock, gather_seconds=gather_seconds)
        self._looks = Looks(agents.news, clock, gather_seconds=gather_seconds)
        self._polls: dict[str, _Poll] = {}
        self._ends: list[tuple[float, int, _Poll]] = []
        """(time, number, poll) of times at which a poll has to be looked at, the first one first."""
        self._numbers = count()
        self._said: dict[str, tuple[int, frozenset[str], float]] = {}
        """What was said to an agent: (incarnation, items, when)."""
        self._stir = asyncio.Event()
        self._hints = 0
        self._is_looking = False
        self._forced = False
        self._next_look = 0.0
        self._is_closed = False

    @property
    def held(self) -> int:
        """Polls that wait."""
        return len(self._polls)

    async def sync(
        self,
        host_id: str,
        sync: AgentSync,
        *,
        wait_max: float = WAIT_SECONDS_MAX,
        is_ended: Callable[[], bool] = lambda: False,
    ) -> AgentSyncAnswer:
        """Answers a sync. NodeFenced if the agent may not speak, InvalidInput for a bad message. `is_ended`:
        whether its credential has ended meanwhile; nothing is committed or held for it then."""
        sync = check_sync(sync)
        self._on_heard(host_id, self.agents.heartbeat_seconds)
        message = AgentMessage(host_id, sync)
        wait_seconds = min(sync.wait_seconds, wait_max)
        until = self._clock.monotonic() + wait_seconds
        self.end_poll(host_id)
        await self.agents.epoch()
        answer: AgentSyncAnswer | None = None
        if _has_content(sync) and not wait_seconds and not is_ended():
            # Its transaction finds out what there is to do, and it is not held: there is nothing to look for.
            answer = _checked(await self._commit.put(message))
            self._is_new(host_id, answer, sync.incarnation)
            return answer
        news: HostNews | None = None
        while not is_ended():
            hints = self._hints
            news = await self._looks.look(host_id)
            if answer is None and not self._may_say(news, sync):
                self.agents.saw([host_id])
            else:
                answer = _checked(await self._commit.put(message))
                if self._is_new(host_id, answer, sync.incarnation):
                    return answer
            if hints != self._hints:
                self.wake()  # the look may have been too early
            if not await self._hold(host_id, news, self._hold_until(host_id, until)):
                break
            answer = answer or self._idle(host_id, sync, news)
        return answer or self._idle(host_id, sync, news)

    def _idle(self, host_id: str, sync: AgentSync, news: HostNews | None) -> AgentSyncAnswer:
        epoch = sync.block_epoch if news is None else news.block_epoch
        return self.agents.idle_answer(host_id, sync.seq, epoch)

    def _may_say(self, news: HostNews | None, sync: AgentSync) -> bool:
        """Whether a transaction may have something for the agent, or the agent has something for it."""
        if news is None or _has_content(sync):
            return True
        is_due = news.due_at is not None and news.due_at <= self.agents.now()
        return (
            is_due
            or news.slot[1] is not None
            or news.incarnation != sync.incarnation
            or news.node_state != "live"
            or news.host_state == HostState.GONE
            or news.block_epoch != sync.block_epoch
        )

    # -- what is said once -----------------------------------------------------------------------------

    def _is_new(self, host_id: str, answer: AgentSyncAnswer, incarnation: int) -> bool:
        """Whether the agent has to get the answer now."""
        now = self._clock.monotonic()
        items = frozenset(_items(answer))
        said = self._said.get(host_id)
        is_known = said is not None and said[0] == incarnation and items <= said[1]
        is_repeat = is_known and said is not None and now < said[2] + REPEAT_SECONDS
        if items and not is_repeat:
            self._said[host_id] = (incarnation, items, now)
        elif not items:
            self._said.pop(host_id, None)
        return _is_urgent(answer) or (bool(items) and not is_repeat)

    def _hold_until(self, host_id: str, until: float) -> float:
        said = self._said.get(host_id)
        return until if said is None else min(until, said[2] + REPEAT_SECONDS)

    # -- waiting ---------------------------------------------------------------------------------------

    async def _hold(self, host_id: str, news: HostNews | None, until: float) -> bool:
        """Waits until the poll is woken. False: its time is over, or a newer one has its place."""
        if news is None or self._is_closed or self._clock.monotonic() >= until:
            return False
        poll = _Poll(news, until)
        self._polls[host_id] = poll
        self._expect(poll)
        self.agents.count_polls(len(self._polls))
        try:
            await poll.future
        finally:
            is_mine = self._polls.get(host_id) is poll
            if is_mine:
                del self._polls[host_id]
            self.agents.count_polls(len(self._polls))
        return is_mine and not self._is_closed and self._clock.monotonic() < until

    def _expect(self, poll: _Poll) -> None:
        first = self._ends[0][0] if self._ends else None
        heapq.heappush(self._ends, (poll.until, next(self._numbers), poll))
        due_at, now = poll.news.due_at, self.agents.now()
        if due_at is not None and due_at > now:
            due = self._clock.monotonic() + due_at - now
            heapq.heappush(self._ends, (due, next(self._numbers), poll))
        if first is None or self._ends[0][0] < first:
            self._stir.set()

    def end_poll(self, host_id: str) -> None:
        """Answers the poll of a host now, if one is held."""
        if (older := self._polls.pop(host_id, None)) is not None:
            older.wake()

    def wake(self, hosts: Collection[str] | None = None, *, force: bool = False) -> None:
        """Looks at the store for agents that wait. `hosts`: these are woken at once. `force`: a reason for
        which executions waited may have ended, though nothing changed for the host itself."""
        for host_id in hosts or ():
            if (poll := self._polls.get(host_id)) is not None:
                poll.wake()
        if hosts is None:
            self._hints += 1
            self._is_looking = True
            self._forced = self._forced or force
            self._stir.set()

    async def run(self) -> None:
        """Ends polls whose time is over, and looks on behalf of all. Runs until it is cancelled."""
        serve_at = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            self._end_due(now)
            if self._is_looking and now >= self._next_look:
                await self._guard(self._look_at_all())
            if now >= serve_at:
                serve_at = now + SERVE_SECONDS
                await self._guard(self.agents.serve())
            pause = min(self._pause(), max(0.0, serve_at - self._clock.monotonic()))
            await self._clock.wait(self._stir, pause)
            self._stir.clear()

    def _pause(self) -> float:
        now = self._clock.monotonic()
        times = [now + SERVE_SECONDS]
        if self._ends:
            times.append(max(self._ends[0][0], now + STEP_SECONDS))
        if self._is_looking:
            times.append(self._next_look)
        return max(0.0, min(times) - now)

    def _end_due(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            heapq.heappop(self._ends)[2].wake()

    async def _look_at_all(self) -> None:
        """Wakes the polls of hosts that have something else to do than before."""
        self._is_looking, forced, self._forced = False, self._forced, False
        began = self._clock.monotonic()
        polls = dict(self._polls)
        for news in await self._looks.look_at(list(polls)):
            poll = polls[news.host_id]
            if news != poll.news or (forced and news.waiting):
                poll.wake()
        took = self._clock.monotonic() - began
        self._next_look = began + took * PACE

    async def _guard(self, work: Awaitable[object]) -> None:
        try:
            await work
        except StoreUnavailable:
            log.debug("the store is away: agents are looked at again later")
        except Exception:
            log.exception("agents are looked at again later")

    async def close(self) -> None:
        """Answers all that wait."""
        self._is_closed = True
        for poll in list(self._polls.values()):
            poll.wake()
        await self._commit.close()


def _checked(answer: SyncAnswer) -> AgentSyncAnswer:
    if isinstance(answer, HoldfastError):
        raise answer
    return answer


def _has_content(sync: AgentSync) -> bool:
    """Whether the agent reports something."""
    parts = (sync.accepts, sync.refuses, sync.running, sync.chunks, sync.results, sync.command_acks)
    return any(parts)


def _is_urgent(answer: AgentSyncAnswer) -> bool:
    """Whether the answer has something that is said once."""
    return bool(answer.go or answer.acks or answer.log_next or answer.blocks is not None)


def _items(answer: AgentSyncAnswer) -> list[str]:
    """What the server says until the agent has followed."""
    return [
        *(f"offer {one.execution} {one.token}" for one in answer.offers),
        *(f"withdraw {one.execution} {one.token}" for one in answer.withdraw),
        *(f"command {one.id}" for one in answer.commands),
        *(f"probe {one.execution} {one.token}" for one in answer.probe),
    ]
