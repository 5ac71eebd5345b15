"""Fires schedules, each due time once, with any number of nodes.

Promises: a due schedule gets one task, in the transaction that sets its next time. Missed fires are
coalesced into one task. A schedule that this node cannot evaluate stays due for other nodes; it is logged
once and shown by `doctor`, and the other schedules fire. A schedule of the code is fired only by nodes
whose code has a schedule of that name. It is removed a week after the last of these nodes, or after
`SILENT_SECONDS` if a node runs whose code has the type without the schedule. One of a remote worker's code is
fired by any node while the worker announces it. Where nodes define it differently, the definition of the node
that started last applies while a node with that definition runs, and `SILENT_SECONDS` longer. Then another
node writes its own definition.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.clock import Clock
from holdfast.core.schedule import (
    CODE,
    REMOTE,
    SILENT_SECONDS,
    Schedule,
    is_changed,
    is_silent,
)
from holdfast.core.submit import Submission
from holdfast.engine.loop import Loop
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.store import Store

LOOK_SECONDS: Final = 10.0
ANNOUNCE_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 7 * 86_400.0
log = logging.getLogger("holdfast.engine")


class Scheduler(Loop):
    name = "scheduler"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        make: Callable[[Schedule, float], Awaitable[Submission]],
        on_fired: Callable[[], None],
        code: Callable[[], Sequence[Schedule]],
        *,
        has_type: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`code`: the schedules of this node's code. `has_type`: whether that code has a type."""
        super().__init__(clock)
        self._has_type = has_type
        self._store = store
        self._make = make
        self._on_fired = on_fired
        self._code = code
        self._announced: dict[str, Schedule] = {}
        self._announced_at = float("-inf")
        self._silent: set[str] = set()
        self.fired = 0
        self.skipped: dict[str, str] = {}
        """Schedules that this node cannot fire, with the reason."""

    async def tick(self) -> float:
        await self._put_code()
        schedules = await self._store.reads.schedules()
        now = self._store.now()
        await self._announce(schedules, now)
        active = []
        for schedule in schedules:
            if not self._is_announced(schedule, now):
                await self._leave(schedule, now)
            elif not schedule.paused:
                active.append(schedule)
        for schedule in active:
            if schedule.next_at <= now:
                await self._try(schedule, now)
        due = {schedule.name for schedule in active if schedule.next_at <= now}
        self.skipped = {name: why for name, why in self.skipped.items() if name in due}
        waits = [schedule.next_at - now for schedule in active if schedule.next_at > now]
        return max(0.0, min([LOOK_SECONDS, *waits]))

    def _is_announced(self, schedule: Schedule, now: float) -> bool:
        """Whether a schedule fires here: the code of this node has it, a worker without a database announces
        it, or it belongs to no code."""
        if schedule.owner == REMOTE:
            return not is_silent(schedule, now)
        return schedule.owner != CODE or schedule.name in self._announced

    async def _put_code(self) -> None:
        """Writes the schedules of the code to the store, including those that were defined while running."""
        code = {schedule.name: schedule for schedule in self._code()}
        if code == self._announced:
            return
        announced = {}
        for schedule in code.values():
            if await self._put(schedule):
                announced[schedule.name] = schedule
        self._announced, self._announced_at = announced, self.clock.monotonic()

    async def _announce(self, schedules: Sequence[Schedule], now: float) -> None:
        """Announces the stored schedules that are equal to this node's code. A schedule that differs from the
        code of all running nodes is written again: it was defined by a node that has ended."""
        monotonic = self.clock.monotonic()
        if monotonic - self._announced_at < ANNOUNCE_SECONDS:
            return
        same = []
        for schedule in schedules:
            own = self._announced.get(schedule.name)
            if own is None or schedule.owner != CODE:
                continue
            if not is_changed(schedule, own):
                same.append(schedule.name)
            elif _silent_seconds(schedule, now) > SILENT_SECONDS:
                await self._put(own)
                self.wake()
        if same:
            announced = self._store.upkeep.announce_schedules(same, now=now)
            await self.guard("announcing schedules", announced)
        self._announced_at = monotonic

    async def _put(self, schedule: Schedule) -> bool:
        """Writes a schedule. False if another transaction holds its row; other schedules go on."""
        try:
            await self._store.schedules.put(schedule, actor=CODE)
        except RowHeld as error:
            log.warning("schedule %r is held up and put later: %s", schedule.name, error)
            return False
        return True

    async def _leave(self, schedule: Schedule, now: float) -> None:
        """Handles a schedule of code that this node does not have."""
        silent_seconds = _silent_seconds(schedule, now)
        # Code that has the type without its schedule is a later version. Code that has neither may be another
        # service, whose deployment takes a while. A pause is an operator's word, and stays longer.
        is_dropped = (
            schedule.owner == CODE and not schedule.paused and self._has_type(schedule.type)
        )
        if silent_seconds > (SILENT_SECONDS if is_dropped else FORGET_SECONDS):
            if await self._store.schedules.forget(schedule):
                log.warning("schedule %r is removed: it has left the code", schedule.name)
        elif silent_seconds <= SILENT_SECONDS:
            self._silent.discard(schedule.name)
        elif schedule.name not in self._silent:
            self._silent.add(schedule.name)
            log.warning(
                "schedule %r does not fire: it belongs to code that no running node has; it is removed "
                "after %g days, or by unschedule",
                schedule.name,
                FORGET_SECONDS / 86_400,
            )

    async def _try(self, schedule: Schedule, now: float) -> None:
        """Fires a schedule. A failure does not affect other schedules; this one stays due for other nodes."""
        try:
            await self._fire(schedule, now)
        except StoreUnavailable as error:
            if not isinstance(error, RowHeld):
                raise
            log.warning("schedule %r is held up and fired later: %s", schedule.name, error)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if self.skipped.get(schedule.name) != why:
                log.warning("schedule %r cannot be fired by this node: %s", schedule.name, why)
            self.skipped[schedule.name] = why
        else:
            self.skipped.pop(schedule.name, None)

    async def _fire(self, schedule: Schedule, now: float) -> None:
        submission = await self._make(schedule, now)
        inserted = await self._store.schedules.fire(schedule, submission)
        if inserted is not None:
            self.fired += 1
            self._on_fired()
        self.wake()


def _silent_seconds(schedule: Schedule, now: float) -> float:
    """The seconds since a node last announced the schedule."""
    return now - (schedule.announced_at or 0.0)
