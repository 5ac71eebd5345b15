"""`RedisKV` and `AsyncRedisKV`: the public classes.

Promises: the same methods, answers and errors in memory and live. Memory is the default and needs no
network; `connect` is live.
Never: a hidden retry. When Redis is down, the call raises `StoreUnavailable` at once and the next call
connects again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from holdfast.errors import BadConfig
from holdfast.primitives.kv._backend import AsyncBackend, KvBackend
from holdfast.primitives.kv._generated.async_commands import AsyncCommands
from holdfast.primitives.kv._generated.sync_commands import SyncCommands
from holdfast.primitives.kv._live import wire
from holdfast.primitives.kv._memory.twin import AsyncMemoryKV, MemoryKV
from holdfast.primitives.kv._op import Op, T
from holdfast.primitives.kv._transaction import AsyncTransaction, Transaction

TIMEOUT_SECONDS: Final = 2.0
CONNECTIONS_MAX: Final = 50


class RedisKV(SyncCommands):
    """A key-value store with the commands of Redis. Thread-safe.

    `RedisKV()` is in memory; `clock` returns the time in seconds. `RedisKV.connect(url)` is live."""

    __slots__ = ()

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        no_network: bool = True,
        backend: KvBackend | None = None,
    ) -> None:
        _refuse_networks(no_network)
        super().__init__(MemoryKV(clock) if backend is None else backend)

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        connections_max: int = CONNECTIONS_MAX,
    ) -> Self:
        """Uses a live Redis (or Valkey): `redis://`, `rediss://` or `unix://`. Connects on first use. One
        answer, one connect and one wait for a free connection take at most `timeout_seconds` each."""
        wire.refuse_bad(url, timeout_seconds, connections_max)
        from holdfast.primitives.kv._live.sync import LiveKV

        return cls(backend=LiveKV(url, timeout_seconds, connections_max))

    def execute(self, op: Op[T]) -> T:
        """Runs a command given as data."""
        return self._backend.execute(op)

    def transaction(self, watch: Iterable[str] = ()) -> Transaction:
        """Runs the commands of the `with` block as one transaction. Raises `WatchFailed` when a watched
        key has changed since the block began. Read through the store; write through the object that the
        block gets."""
        return Transaction(self._backend, watch)

    def close(self) -> None:
        """Closes the connections."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class AsyncRedisKV(AsyncCommands):
    """The same with `await`. A live store belongs to the event loop that first used it."""

    __slots__ = ()

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        no_network: bool = True,
        backend: AsyncBackend | None = None,
    ) -> None:
        _refuse_networks(no_network)
        super().__init__(AsyncMemoryKV(MemoryKV(clock)) if backend is None else backend)

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        connections_max: int = CONNECTIONS_MAX,
    ) -> Self:
        """Uses a live Redis (or Valkey): see `RedisKV.connect`."""
        wire.refuse_bad(url, timeout_seconds, connections_max)
        from holdfast.primitives.kv._generated.live import AsyncLiveKV

        return cls(backend=AsyncLiveKV(url, timeout_seconds, connections_max))

    async def execute(self, op: Op[T]) -> T:
        """Runs a command given as data."""
        return await self._backend.execute(op)

    def transaction(self, watch: Iterable[str] = ()) -> AsyncTransaction:
        """Runs the commands of the `async with` block as one transaction: see `RedisKV.transaction`."""
        return AsyncTransaction(self._backend, watch)

    async def close(self) -> None:
        """Closes the connections."""
        await self._backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()


def _refuse_networks(no_network: bool) -> None:
    if not no_network:
        raise BadConfig(
            "a live store needs an address: RedisKV.connect('redis://localhost:6379/0')"
        )
