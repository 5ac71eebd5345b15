"""`MemoryKV`: runs the commands of Redis in this process.

Promises: a command, and a transaction, is atomic for every thread. Time comes from the given clock, in
seconds; only the wait of a blocking read is real time.
Never: uses a network, a thread or a file. The data ends with the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from holdfast.clock import SystemClock
from holdfast.errors import HoldfastError
from holdfast.primitives.kv._backend import Outcome
from holdfast.primitives.kv._blocking import wait_seconds
from holdfast.primitives.kv._memory.keyspace import Keyspace, Watch
from holdfast.primitives.kv._memory.table import COMMANDS, Run, has_its_words
from holdfast.primitives.kv._memory.waiting import Reader, Readers
from holdfast.primitives.kv._op import Op, Reply, T, Words, checked
from holdfast.primitives.kv._problems import Refused, problem, wrong_arity


class MemoryKV:
    """The backend without a network. Thread-safe."""

    __slots__ = ("_db", "_lock", "_readers")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._db = Keyspace(clock or steady_clock())
        self._lock = threading.Lock()
        self._readers = Readers(self._db)

    def execute(self, op: Op[T]) -> T:
        words = checked(op.words)
        if seconds := wait_seconds(words):
            return op.read(self._read_within(seconds, words))
        run = _find(words)
        with self._lock:
            reply = self._step(run, words)
        return op.read(reply)

    def _read_within(self, seconds: float, words: Words) -> Reply:
        served = threading.Event()
        reader = self.read(words, served.set)
        if not isinstance(reader, Reader):
            return reader
        try:
            served.wait(seconds)
        finally:
            self.leave(reader)
        return reader.reply

    def read(self, words: Words, wake: Callable[[], object]) -> Reply | Reader:
        """The reply, or a reader that is woken when there is one; `leave` ends its wait."""
        run = _find(words)
        with self._lock:
            reply = self._step(run, words)
            return self._readers.add(words, wake) if reply is None else reply

    def leave(self, reader: Reader) -> None:
        with self._lock:
            self._db.begin()
            self._readers.leave(reader)

    def _step(self, run: Run, words: Words) -> Reply:
        self._db.begin()
        try:
            reply = run(self._db, words)
        except Refused as refused:
            raise problem(str(refused), words) from None
        if self._readers.waiting:
            self._readers.serve()
        return reply

    def begin(self, watch: Iterable[str]) -> MemorySession:
        keys = checked(("WATCH", *watch))[1:]
        with self._lock:
            self._db.begin()
            return MemorySession(self, self._db.watch(keys))

    def close(self) -> None:
        """Does nothing; the data remains."""

    def _commit(self, watch: Watch, commands: Sequence[Words]) -> list[Outcome] | None:
        with self._lock:
            self._db.begin()
            is_as_seen = self._db.unwatch(watch)
            runs = [_find(words) for words in commands]
            if not is_as_seen:
                return None
            found = [self._outcome(run, words) for run, words in zip(runs, commands, strict=True)]
            if self._readers.waiting:
                self._readers.serve()
            return found

    def _outcome(self, run: Run, words: Words) -> Reply | HoldfastError:
        try:
            return run(self._db, words)
        except Refused as refused:
            return problem(str(refused), words)

    def _cancel(self, watch: Watch) -> None:
        with self._lock:
            self._db.begin()
            self._db.unwatch(watch)


class MemorySession:
    """A transaction between its watch and its end."""

    __slots__ = ("_kv", "_watch")

    def __init__(self, kv: MemoryKV, watch: Watch) -> None:
        self._kv = kv
        self._watch = watch

    def commit(self, commands: Sequence[Words]) -> list[Outcome] | None:
        return self._kv._commit(self._watch, commands)

    def cancel(self) -> None:
        self._kv._cancel(self._watch)


class AsyncMemoryKV:
    """The same with `await`: only a read with `BLOCK` waits."""

    __slots__ = ("_kv",)

    def __init__(self, kv: MemoryKV) -> None:
        self._kv = kv

    async def execute(self, op: Op[T]) -> T:
        words = checked(op.words)
        if not (seconds := wait_seconds(words)):
            return self._kv.execute(op)
        served = asyncio.Event()
        reader = self._kv.read(words, partial(_tell, asyncio.get_running_loop(), served))
        if not isinstance(reader, Reader):
            return op.read(reader)
        try:
            await SystemClock().wait(served, seconds)
        finally:
            self._kv.leave(reader)
        return op.read(reader.reply)

    async def begin(self, watch: Iterable[str]) -> AsyncMemorySession:
        return AsyncMemorySession(self._kv.begin(watch))

    async def close(self) -> None:
        self._kv.close()


class AsyncMemorySession:
    """A transaction with `await`."""

    __slots__ = ("_session",)

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def commit(self, commands: Sequence[Words]) -> list[Outcome] | None:
        return self._session.commit(commands)

    async def cancel(self) -> None:
        self._session.cancel()


def _tell(loop: asyncio.AbstractEventLoop, served: asyncio.Event) -> None:
    """Wakes a reader from any thread. An event loop that has ended has no readers."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(served.set)


def steady_clock() -> Callable[[], float]:
    """Wall-clock time at the start, advanced by the monotonic clock: it never goes back."""
    clock = SystemClock()
    offset = clock.now() - clock.monotonic()
    return lambda: offset + clock.monotonic()


def _find(words: Words) -> Run:
    """The function of a command with the right number of words."""
    known = COMMANDS.get(words[0])
    if known is None:
        raise problem(f"unknown command '{words[0]}'", words)
    run, arity = known
    if not has_its_words(arity, len(words)):
        raise problem(wrong_arity(words[0]), words)
    return run
