"""Group commit: concurrent callers share one write and one sync.

Promises: a batch is durable before any of its callers gets an answer. A failed batch takes back the
changes decided after it, and no others. The first thread that waits writes for the others. Callers on an
event loop are served at the end of the loop's turn: in the loop while the disk is fast, else in a thread.
An interrupted writer fails the store, ends its batch and frees the next one.
Never: two batches on their way to the disk at once; a slow disk that blocks an event loop; a gap or a
repeat in the record numbers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias

from holdfast.errors import HoldfastError
from holdfast.orders.errors import StoreFailed
from holdfast.orders.model.book import Undo

Waiter: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]"


class Batch:
    """Changes that are decided and not durable yet, in order."""

    __slots__ = (
        *("changed", "error", "first", "is_done", "is_planned", "lines", "threads", "undos"),
        *("waiters", "writer"),
    )

    def __init__(self, lock: threading.Lock, first: int) -> None:
        self.first = first
        """The number of its first record."""
        self.lines: list[bytes] = []
        self.undos: list[Undo] = []
        self.waiters: list[Waiter] = []
        self.threads = 0
        """How many threads wait, not counting callers on event loops."""
        self.changed = threading.Condition(lock)
        self.is_planned = False
        """Whether an event loop was asked to write it."""
        self.writer: int | None = None
        """The thread that writes it."""
        self.is_done = False
        self.error: HoldfastError | None = None

    def answer(self) -> None:
        """Raises if the batch failed."""
        if self.error is not None:
            # Many callers share the error: each gets a copy, with its own traceback.
            raise type(self.error)(*self.error.args) from self.error


class GroupCommit:
    """`lock` guards the book and this object. `write` makes a batch durable. `failed` is called under the
    lock with all changes to undo, in order. `broken` is called when an interrupt left a write unfinished:
    afterwards the store must neither accept nor show anything. `after` runs after each written batch.
    `is_quick` says whether a write is short enough for an event loop."""

    def __init__(
        self,
        lock: threading.Lock,
        *,
        write: Callable[[Batch], None],
        failed: Callable[[list[Undo], HoldfastError], None],
        broken: Callable[[StoreFailed], None],
        after: Callable[[], None],
        is_quick: Callable[[], bool],
    ) -> None:
        self._lock = lock
        self._write = write
        self._failed = failed
        self._broken = broken
        self._after = after
        self._is_quick = is_quick
        self._pending: Batch | None = None
        self._flushing: Batch | None = None
        self._free = threading.Condition(lock)
        self._wanted = threading.Condition(lock)
        self._thread: threading.Thread | None = None
        self._closing = False

    # -- under the lock ------------------------------------------------------------------------------

    def first(self, number: int) -> int:
        """The first record number of the write that record `number` will be part of."""
        return number if self._pending is None else self._pending.first

    def add(self, number: int, line: bytes, undo: Undo) -> Batch:
        batch = self._pending
        if batch is None:
            batch = self._pending = Batch(self._lock, number)
        batch.lines.append(line)
        batch.undos.append(undo)
        return batch

    def newest(self) -> Batch | None:
        """The batch that must be durable before the current state may be shown; None when all is durable."""
        return self._pending or self._flushing

    def unsynced(self, *, and_flushing: bool = True) -> list[Undo]:
        """Changes that are decided and not durable, in order."""
        found: list[Undo] = []
        if and_flushing and self._flushing is not None:
            found += self._flushing.undos
        if self._pending is not None:
            found += self._pending.undos
        return found

    # -- waiting -------------------------------------------------------------------------------------

    def wait(self, batch: Batch | None) -> None:
        """Waits until the batch is durable. The calling thread may have to write it."""
        try:
            while batch is not None and not batch.is_done:
                self._write_or_wait(batch)
        finally:
            self._put_down()
        if batch is not None:
            batch.answer()

    def future(self, batch: Batch) -> asyncio.Future[None] | None:
        """The same for a caller on an event loop, which is never blocked: the future to await before
        `batch.answer()`; None when there is nothing to wait for."""
        with self._lock:
            if batch.is_done:
                batch.answer()
                return None
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            batch.waiters.append((loop, future))
            if not batch.is_planned and self._flushing is None:
                # At the end of the loop's turn, when every ready caller has joined the batch.
                loop.call_soon(self._flush_soon)
                batch.is_planned = True
            return future

    def alone(self, do: Callable[[], None]) -> None:
        """Runs `do` while no batch is on its way to the disk."""
        try:
            with self._lock:
                while self._flushing is not None:
                    self._free.wait()
                self._take(Batch(self._lock, 0))
            do()
            self._put_down()
        finally:
            self._put_down()  # For any interrupt. If the batch was finished, there is nothing left to do.

    def close(self) -> None:
        with self._lock:
            self._closing = True
            self._wanted.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    # -- working -------------------------------------------------------------------------------------

    def _write_or_wait(self, batch: Batch) -> None:
        with self._lock:
            if batch.is_done:
                return
            if self._flushing is not None:
                self._wait_for_turn(batch)
                return
            work = self._begin()
        self._flush(work)

    def _wait_for_turn(self, batch: Batch) -> None:
        batch.threads += 1
        try:
            batch.changed.wait()
        except BaseException:
            batch.changed.notify()  # This thread may have been the one to write.
            raise
        finally:
            batch.threads -= 1

    def _begin(self) -> Batch:
        """`_put_down` must be called afterwards, in every case."""
        work = self._pending
        assert work is not None
        self._take(work)
        self._pending = None
        return work

    def _take(self, work: Batch) -> None:
        work.writer = threading.get_ident()
        self._flushing = work

    def _flush(self, work: Batch) -> None:
        try:
            self._write(work)
        except HoldfastError as error:
            self._end(work, error)
            return
        self._end(work, None)
        self._after()

    def _end(self, work: Batch, error: HoldfastError | None) -> None:
        with self._lock:
            ended = [work]
            if error is not None:
                ended += [self._pending] if self._pending is not None else []
                self._failed(self.unsynced(), error)
                self._pending = None
            self._tell(ended, error)
            following = self._hand_over()
        _wake([waiter for batch in ended for waiter in batch.waiters])
        if following is not None:
            self._flush_after_turn(following)

    def _tell(self, batches: list[Batch], error: HoldfastError | None) -> None:
        for batch in batches:
            if not batch.is_done:
                batch.error = error
                batch.is_done = True
            batch.changed.notify_all()

    def _put_down(self) -> None:
        """Runs last in every thread that may have taken a batch. A batch that this thread still has was
        interrupted, and how much of it was written is not known. Its callers get that error."""
        work = self._flushing
        if work is None or work.writer != threading.get_ident():
            return
        ended: list[Batch] = []
        error = StoreFailed("an interrupt stopped a write: open the store again")
        if work.lines:
            self._broken(error)
        with self._lock:
            if work.lines:
                ended = [work, *([self._pending] if self._pending is not None else [])]
                self._pending = None
            self._tell(ended, error)
            following = self._hand_over()
        _wake([waiter for batch in ended for waiter in batch.waiters])
        if following is not None:
            self._flush_after_turn(following)

    def _flush_soon(self) -> None:
        try:
            with self._lock:
                if self._flushing is not None or self._pending is None:
                    return
                if not self._is_quick():
                    self._wake_thread()
                    return
                work = self._begin()
            self._flush(work)
        finally:
            self._put_down()

    def _hand_over(self) -> asyncio.AbstractEventLoop | None:
        """Starts the next batch: in a thread that waits for it, or in the event loop that is returned."""
        self._flushing = None
        self._free.notify()
        following = self._pending
        if following is None:
            return None
        loops = {loop for loop, _ in following.waiters}
        if following.threads:
            following.changed.notify()
        elif len(loops) == 1:
            return loops.pop()
        elif loops:
            self._wake_thread()
        # Otherwise its callers have not started to wait yet; the first one will write it.
        return None

    def _flush_after_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lets callers that were just answered, and often send the next request at once, join the batch."""
        try:
            loop.call_soon_threadsafe(loop.call_soon, self._flush_soon)
        except RuntimeError:  # the loop was closed, but its requests must be written
            with self._lock:
                self._wake_thread()

    def _wake_thread(self) -> None:
        self._wanted.notify()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="holdfast-orders-commit", daemon=True
            )
            self._thread.start()

    def _work(self) -> None:
        try:
            while True:
                with self._lock:
                    while self._flushing is not None or self._pending is None:
                        if self._closing and self._pending is None:
                            return
                        self._wanted.wait()
                    work = self._begin()
                self._flush(work)
        finally:
            self._put_down()


def _wake(waiters: list[Waiter]) -> None:
    """Wakes each event loop once for all of its callers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for loop, future in waiters:
        by_loop.setdefault(loop, []).append(future)
    for loop, futures in by_loop.items():
        if loop is asyncio._get_running_loop():
            _resolve(futures)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
