"""Commits what handlers have returned, in batches, while the next tasks already run.

Promises: an outcome stays held, its lease renewed, until the store has answered; when the store is away
it is tried again until it is back, in smaller batches. A stale outcome changes nothing and is counted. An
outcome that the store cannot write keeps no other from being written: after `TRIES_MAX` tries it becomes a
dead letter, and if that cannot be written either it is given up, so that its lease runs out. Nor does one
that another transaction holds up: it is tried again, apart from the others and behind them, until it is free.
Never: more than `WAITING_MAX` outcomes in memory; then workers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.clock import Clock
from holdfast.core import failure as failures
from holdfast.core.command import Fail, Order
from holdfast.core.decide import Decision, Refusal
from holdfast.core.task import FailureKind, Task
from holdfast.engine import outcome_log
from holdfast.engine.loop import Loop, log
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.store import Store, is_held

BATCH_MAX: Final = 100
WAITING_MAX: Final = 1_000
IDLE_SECONDS: Final = 60.0
HELD_SECONDS: Final = 0.1
"""When to come back to an outcome that another transaction holds up."""
HELD_TRIES: Final = 8
"""Outcomes that are held up and tried alone, before new ones are looked at."""
HELD_TOLD: Final = 10
"""Tries after which the log says what is held up."""
TRIES_MAX: Final = 5
"""Of an outcome that cannot be written though the store answers."""
AGAIN_SECONDS: Final = 0.05


@dataclass(slots=True, eq=False)
class Suspect:
    """An outcome that the store did not write, for a reason that is not an outage."""

    task: Task
    order: Order
    tries: int = 1


@dataclass(slots=True, eq=False)
class HeldOutcome:
    """An outcome that another transaction holds up."""

    task: Task
    order: Order
    tries: int = 0


class Completer(Loop):
    """One batch on its way at a time; the next one gathers meanwhile."""

    name = "completer"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        on_done: Callable[[Sequence[tuple[Task, Decision]]], None],
        on_written: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`on_written` hears how long a batch took."""
        super().__init__(clock)
        self._store = store
        self._on_done = on_done
        self._on_written = on_written
        self._waiting: list[tuple[Task, Order]] = []
        self._held: list[HeldOutcome] = []
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._suspects: list[Suspect] = []
        self._size = BATCH_MAX
        self.fenced = 0
        self.given_up = 0
        """Outcomes that could not be written in any form."""

    def deliver(self, task: Task, order: Order) -> bool:
        """Takes an outcome; False asks the worker to wait for `room` before it takes another task."""
        self._waiting.append((task, order))
        if len(self._waiting) == 1:
            self._empty.clear()
            self.wake()
        if self._suspects or self._held:
            return self._is_roomy
        return len(self._waiting) < WAITING_MAX

    @property
    def _is_roomy(self) -> bool:
        return len(self._waiting) + len(self._suspects) + len(self._held) < WAITING_MAX

    async def room(self) -> None:
        """Until there are fewer outcomes waiting."""
        while not self._is_roomy:
            self._room.clear()
            await self._room.wait()

    async def tick(self) -> float:
        while self._waiting:
            batch = self._waiting[: self._size]
            begun = self.clock.monotonic()
            try:
                # While something is held up, what shares it with these is not waited for again and again.
                decisions = await self._store.finish(batch, brief=bool(self._held))
            except RowHeld:
                self._held += [HeldOutcome(*each) for each in batch]
                del self._waiting[: len(batch)]
                continue
            except StoreUnavailable:
                # It may be away, or the batch is more than it can do within its time.
                self._size = max(1, len(batch) // 2)
                raise
            except Exception as error:
                self.troubles += 1
                log.warning("%d outcomes cannot be written together: %r", len(batch), error)
                if len(batch) == 1:
                    self._suspects.append(Suspect(*self._waiting.pop(0)))
                self._size = max(1, len(batch) // 2)
                continue
            self._on_written(self.clock.monotonic() - begun)
            self._size = min(BATCH_MAX, self._size * 2)
            del self._waiting[: len(batch)]
            self._written(batch, decisions)
        if self._held:
            await self._try_held()
        if self._suspects:
            return await self._try_again()
        if self._held or self._waiting:
            return 0.0 if self._waiting else HELD_SECONDS
        self._empty.set()
        return IDLE_SECONDS

    async def _try_held(self) -> None:
        """What was held up, together; some of it alone when that fails because of what it shares."""
        batch = self._held[:BATCH_MAX]
        if not await self._finish_held(batch):
            for each in batch[:HELD_TRIES]:
                await self._finish_held([each])

    async def _finish_held(self, batch: Sequence[HeldOutcome]) -> bool:
        """Writes those of these that are free now. False: not even one that is could be."""
        still = batch
        try:
            decisions = await self._store.finish_held([(each.task, each.order) for each in batch])
        except RowHeld:
            decisions = []
        except StoreUnavailable:
            raise
        except Exception as error:
            self.troubles += 1
            log.warning("%d outcomes cannot be written together: %r", len(batch), error)
            decisions = []
            if len(batch) == 1:
                still = []
                self._suspects.append(Suspect(batch[0].task, batch[0].order))
        answers = list(zip(batch, decisions, strict=bool(decisions)))
        if answers:
            still = [each for each, decision in answers if is_held(decision)]
        self._leave_held(batch, still)
        done = [(each, decision) for each, decision in answers if not is_held(decision)]
        if done:
            self._written([(each.task, each.order) for each, _ in done], [d for _, d in done])
        return bool(decisions)

    def _leave_held(self, batch: Sequence[HeldOutcome], still: Sequence[HeldOutcome]) -> None:
        """What is still held goes behind the others that are."""
        for each in batch:
            self._held.remove(each)
        for each in still:
            each.tries += 1
            self._held.append(each)
            if each.tries == HELD_TOLD:
                outcome_log.held(each.task)

    async def _try_again(self) -> float:
        """Those that could not be written, each alone; how long to wait for the next try."""
        for suspect in list(self._suspects):
            suspect.tries += 1
            try:
                decisions = await self._store.finish([(suspect.task, suspect.order)])
            except StoreUnavailable:
                raise
            except Exception as error:
                self.troubles += 1
                if suspect.tries >= TRIES_MAX:
                    await self._set_right(suspect, error)
                continue
            self._suspects.remove(suspect)
            self._written([(suspect.task, suspect.order)], decisions)
        if not self._suspects:
            return 0.0
        tries = min(each.tries for each in self._suspects)
        return AGAIN_SECONDS * float(2**tries)

    def _written(self, batch: Sequence[tuple[Task, Order]], decisions: Sequence[Decision]) -> None:
        self._room.set()
        done = []
        for (task, order), decision in zip(batch, decisions, strict=True):
            if type(decision) is Refusal or type(order.command) is Fail:
                if is_held(decision):
                    self._held.append(HeldOutcome(task, order))
                    continue
                self.fenced += is_stale(decision)
                outcome_log.ended(task, order, decision)
            done.append((task, decision))
        self._on_done(done)

    async def _set_right(self, suspect: Suspect, error: Exception) -> None:
        """A dead letter says what happened; if that cannot be written either, the lease runs out."""
        task = suspect.task
        log.error(
            "the outcome of task %s (%s) attempt %d cannot be written: %r",
            *(task.id, task.type, task.attempts, error),
        )
        message = f"its outcome could not be written: {type(error).__qualname__}: {error}"
        dead = Fail(failures.plain(task.type, FailureKind.ERROR, message), final=True)
        instead = (task, Order(task.id, dead, fence=suspect.order.fence))
        try:
            decisions = await self._store.finish([instead])
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("task %s (%s) is left to its lease", task.id, task.type)
            self.given_up += 1
            decisions = [Refusal(task.id, "given-up", "its outcome could not be written")]
        self._suspects.remove(suspect)
        self._written([instead], decisions)

    async def flush(self, seconds: float) -> bool:
        """Until everything handed in is committed, at most this long."""
        return await self.clock.wait(self._empty, seconds)


def is_stale(decision: Decision) -> bool:
    """An outcome under an old fence."""
    return isinstance(decision, Refusal) and decision.code == "lease-lost"
