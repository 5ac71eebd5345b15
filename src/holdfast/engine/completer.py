"""Commits the outcomes of handlers in batches, while the next tasks run.

Promises: the lease of an outcome is renewed until the store has answered. During an outage the completer
tries again, in smaller batches, until the store is back. A stale outcome changes nothing and is counted.
An outcome that the store cannot write does not block others: after `TRIES_MAX` tries the task becomes a
dead letter; if that cannot be written either, its lease expires. An outcome whose rows another
transaction holds does not block others: it is tried again separately until the rows are free.
Never: more than `WAITING_MAX` outcomes in memory; above that, workers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.clock import Clock
from holdfast.core import failure as failures
from holdfast.core.command import Fail, Instruction
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.task import FailureKind, Task
from holdfast.engine import outcome_log
from holdfast.engine.loop import Loop, log
from holdfast.engine.ports import Outcomes
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.store.store import is_held

BATCH_MAX: Final = 400
WAITING_MAX: Final = 1_000
IDLE_SECONDS: Final = 60.0
OUTCOME_RETRY_SECONDS: Final = 0.1
"""The pause before the next try of an outcome whose rows are held."""
HELD_TRIES: Final = 8
"""Held outcomes that are tried one by one before new outcomes are written."""
HELD_LOGGED: Final = 10
"""Tries of a held outcome after which it is logged."""
TRIES_MAX: Final = 5
"""Tries of an outcome that fails although the store answers."""
AGAIN_SECONDS: Final = 0.05


@dataclass(slots=True, eq=False)
class FailedWrite:
    """An outcome that the store did not write, for a reason that is not an outage."""

    task: Task
    instruction: Instruction
    tries: int = 1


@dataclass(slots=True, eq=False)
class HeldOutcome:
    """An outcome whose rows another transaction holds."""

    task: Task
    instruction: Instruction
    tries: int = 0


class Completer(Loop):
    """Writes one batch at a time. The next batch collects meanwhile."""

    name = "completer"

    def __init__(
        self,
        clock: Clock,
        store: Outcomes,
        on_done: Callable[[Sequence[tuple[Task, Ruling]]], None],
        on_written: Callable[[float, int], None] = lambda seconds, size: None,
        *,
        batch_max: int = BATCH_MAX,
    ) -> None:
        """`on_written` gets the duration of each batch in seconds, and its size."""
        super().__init__(clock)
        self._store = store
        self._on_done = on_done
        self._on_written = on_written
        self._waiting: list[tuple[Task, Instruction]] = []
        self._held: list[HeldOutcome] = []
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._failed_writes: list[FailedWrite] = []
        self._batch_max = batch_max
        self._size = batch_max
        self.fenced = 0
        self.given_up = 0
        """Outcomes that could not be written in any form."""

    def deliver(self, task: Task, instruction: Instruction) -> bool:
        """Takes an outcome. False: the worker must wait for `room` before it takes another task."""
        self._waiting.append((task, instruction))
        if len(self._waiting) == 1:
            self._empty.clear()
            self.wake()
        if self._failed_writes or self._held:
            return self._is_roomy
        return len(self._waiting) < WAITING_MAX

    @property
    def _is_roomy(self) -> bool:
        return len(self._waiting) + len(self._failed_writes) + len(self._held) < WAITING_MAX

    async def room(self) -> None:
        """Waits until fewer than `WAITING_MAX` outcomes are in memory."""
        while not self._is_roomy:
            self._room.clear()
            await self._room.wait()

    async def tick(self) -> float:
        while self._waiting:
            batch = self._waiting[: self._size]
            started_at = self.clock.monotonic()
            try:
                # While outcomes are held, wait only briefly: these may need the same rows.
                rulings = await self._store.finish(batch, brief=bool(self._held))
            except RowHeld:
                self._held += [HeldOutcome(*outcome) for outcome in batch]
                del self._waiting[: len(batch)]
                continue
            except StoreUnavailable:
                # Either an outage, or the batch takes longer than the time limit.
                self._size = max(1, len(batch) // 2)
                raise
            except Exception as error:
                self.troubles += 1
                log.warning("%d outcomes cannot be written together: %r", len(batch), error)
                if len(batch) == 1:
                    self._failed_writes.append(FailedWrite(*self._waiting.pop(0)))
                self._size = max(1, len(batch) // 2)
                continue
            self._on_written(self.clock.monotonic() - started_at, len(batch))
            self._size = min(self._batch_max, self._size * 2)
            del self._waiting[: len(batch)]
            self._written(batch, rulings)
        if self._held:
            await self._try_held()
        if self._failed_writes:
            return await self._try_again()
        if self._held or self._waiting:
            return 0.0 if self._waiting else OUTCOME_RETRY_SECONDS
        self._empty.set()
        return IDLE_SECONDS

    async def _try_held(self) -> None:
        """Tries the held outcomes as one batch. If that fails, some are tried one by one."""
        batch = self._held[:BATCH_MAX]
        if not await self._finish_held(batch) and len(batch) > 1:
            for outcome in batch[:HELD_TRIES]:
                await self._finish_held([outcome])

    async def _finish_held(self, batch: Sequence[HeldOutcome]) -> bool:
        """Writes the outcomes whose rows are free now. False when the batch as a whole failed."""
        still = batch
        try:
            rulings = await self._store.finish_held(
                [(outcome.task, outcome.instruction) for outcome in batch]
            )
        except RowHeld:
            rulings = []
        except StoreUnavailable:
            raise
        except Exception as error:
            self.troubles += 1
            log.warning("%d outcomes cannot be written together: %r", len(batch), error)
            rulings = []
            if len(batch) == 1:
                still = []
                self._failed_writes.append(FailedWrite(batch[0].task, batch[0].instruction))
        answers = list(zip(batch, rulings, strict=bool(rulings)))
        if answers:
            still = [outcome for outcome, ruling in answers if is_held(ruling)]
        self._leave_held(batch, still)
        done = [(outcome, ruling) for outcome, ruling in answers if not is_held(ruling)]
        if done:
            self._written(
                [(outcome.task, outcome.instruction) for outcome, _ in done], [d for _, d in done]
            )
        return bool(rulings)

    def _leave_held(self, batch: Sequence[HeldOutcome], still: Sequence[HeldOutcome]) -> None:
        """Moves the outcomes that are still held to the end of the line."""
        for outcome in batch:
            self._held.remove(outcome)
        for outcome in still:
            outcome.tries += 1
            self._held.append(outcome)
            if outcome.tries == HELD_LOGGED:
                outcome_log.held(outcome.task)

    async def _try_again(self) -> float:
        """Tries each failed write alone. Returns the seconds until the next try."""
        for failed_write in list(self._failed_writes):
            outcome = (failed_write.task, failed_write.instruction)
            try:
                rulings = await self._store.finish([outcome], brief=True)
            except RowHeld:
                self._failed_writes.remove(failed_write)
                self._held.append(HeldOutcome(*outcome))
                continue
            except StoreUnavailable:
                raise  # An outage uses up no try.
            except Exception as error:
                self.troubles += 1
                failed_write.tries += 1
                if failed_write.tries >= TRIES_MAX:
                    await self._to_dead_letter(failed_write, error)
                continue
            self._failed_writes.remove(failed_write)
            self._written([outcome], rulings)
        if not self._failed_writes:
            return 0.0
        tries = min(failed.tries for failed in self._failed_writes)
        return AGAIN_SECONDS * float(2**tries)

    def _written(
        self, batch: Sequence[tuple[Task, Instruction]], rulings: Sequence[Ruling]
    ) -> None:
        self._room.set()
        done = []
        for (task, instruction), ruling in zip(batch, rulings, strict=True):
            if type(ruling) is Refusal or type(instruction.command) is Fail:
                if is_held(ruling):
                    self._held.append(HeldOutcome(task, instruction))
                    continue
                self.fenced += is_stale(ruling)
                outcome_log.ended(task, instruction, ruling)
            done.append((task, ruling))
        self._on_done(done)

    async def _to_dead_letter(self, failed_write: FailedWrite, error: Exception) -> None:
        """Makes the task a dead letter with the error. If that cannot be written either, the lease
        expires."""
        task = failed_write.task
        log.error(
            "the outcome of task %s (%s) attempt %d cannot be written: %r",
            *(task.id, task.type, task.attempts, error),
        )
        message = f"its outcome could not be written: {type(error).__qualname__}: {error}"
        dead = Fail(failures.plain(task.type, FailureKind.ERROR, message), final=True)
        replacement = (task, Instruction(task.id, dead, fence=failed_write.instruction.fence))
        try:
            rulings = await self._store.finish([replacement], brief=True)
        except RowHeld:
            return  # The next round tries it again.
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("task %s (%s) is left to its lease", task.id, task.type)
            self.given_up += 1
            rulings = [Refusal(task.id, "given-up", "its outcome could not be written")]
        self._failed_writes.remove(failed_write)
        self._written([replacement], rulings)

    def count_fenced(self) -> None:
        """Counts a write of a handler's context that came under an old fence."""
        self.fenced += 1

    async def flush(self, seconds: float) -> bool:
        """Waits until all outcomes are committed, at most this long. Returns whether they are."""
        return await self.clock.wait(self._empty, seconds)


def is_stale(ruling: Ruling) -> bool:
    """Whether the outcome came under an old fence."""
    return isinstance(ruling, Refusal) and ruling.code == "lease-lost"
