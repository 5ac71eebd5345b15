"""Redlock: a lock by token and ttl, in memory, on one Redis, or on a majority of N independent ones.

    locks = Redlock()                                     # this process, any number of threads
    locks = Redlock.connect("redis://localhost:6379/0")
    locks = Redlock.connect(["redis://a", "redis://b", "redis://c", "redis://d", "redis://e"])
    token = locks.acquire("report", ttl_ms=10_000)        # None: it is held

Promises: release and refresh need the token; a refresh never acquires an expired lock; a dead or stopped node
costs one timeout. Never: a fence. There may be two holders when a clock jumps, a process pauses or a node
loses its memory. Use it to save work; use `Locks` where two holders would do harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final, Protocol, Self, TypeVar

from holdfast.clock import SystemClock
from holdfast.core.check import check_name, check_whole
from holdfast.core.ids import Ids
from holdfast.core.lease import RESOURCE_MAX, check_resource
from holdfast.core.steps import Interrupted
from holdfast.errors import StoreUnavailable
from holdfast.primitives.locks import quorum
from holdfast.primitives.locks.nodes import (
    TIMEOUT_SECONDS,
    AsyncRedisNode,
    MemoryNode,
    RedisNode,
    checked_urls,
)
from holdfast.primitives.locks.quorum import Answers, Grant, QuorumRequest, QuorumSteps, Timing
from holdfast.store.backends import secret_ids
from holdfast.store.uncancelled import UncancelledWrites

T = TypeVar("T")
TTL_MS_MAX: Final = 86_400_000
THREADS_PER_NODE: Final = 8
"""Callers that use a quorum at once; further ones queue."""


def no_drift(_ttl_ms: int) -> float:
    """The drift of a node in this process, which has the same clock."""
    return 0.0


class LockServer(Protocol):
    def ask(self, request: QuorumRequest) -> bool | None: ...


class AsyncNode(Protocol):
    async def ask(self, request: QuorumRequest) -> bool | None: ...

    async def close(self) -> None: ...


class Redlock:
    """The lock for threads. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] | None = None, *, ids: Ids | None = None) -> None:
        monotonic = clock or SystemClock().monotonic
        self._timing = Timing(monotonic, no_drift)
        self._ids = ids or secret_ids()
        self._nodes: list[LockServer] = [MemoryNode(monotonic)]
        self._threads: ThreadPoolExecutor | None = None

    @classmethod
    def connect(
        cls,
        urls: str | Sequence[str],
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] | None = None,
        ids: Ids | None = None,
    ) -> Self:
        """On Redis. Connects on first use."""
        nodes = [RedisNode(url, timeout_seconds) for url in checked_urls(urls)]
        redlock = cls(clock, ids=ids)
        redlock._timing = Timing(redlock._timing.monotonic)
        redlock._nodes = list(nodes)
        if len(nodes) > 1:
            redlock._threads = ThreadPoolExecutor(THREADS_PER_NODE * len(nodes), "holdfast-redlock")
        return redlock

    def acquire(self, resource: str, ttl_ms: int, *, token: str | None = None) -> str | None:
        """The token, or None if the lock is held. To repeat a call whose answer was lost, choose the `token`
        and pass it again."""
        grant = self.grant(resource, ttl_ms, token=token)
        return None if grant is None else grant.token

    def grant(self, resource: str, ttl_ms: int, *, token: str | None = None) -> Grant | None:
        """Like `acquire`, with the time for which the holder may rely on the lock. An interrupted call
        releases what it acquired."""
        chosen = self._ids.secret() if token is None else token
        _check(resource, chosen, ttl_ms)
        steps = quorum.acquire(
            resource, chosen, ttl_ms, timing=self._timing, again=token is not None
        )
        try:
            return self._drive(steps)
        except Exception:
            raise
        except BaseException:
            with suppress(StoreUnavailable):
                self._drive(quorum.release(resource, chosen))
            raise

    def release(self, resource: str, token: str) -> bool:
        """False if the lock is not held under this token."""
        _check(resource, token)
        return self._drive(quorum.release(resource, token))

    def refresh(self, resource: str, token: str, ttl_ms: int) -> bool:
        """Makes the lock last `ttl_ms` from now. False if it is not held under this token."""
        _check(resource, token, ttl_ms)
        return self._drive(quorum.refresh(resource, token, ttl_ms, timing=self._timing)) is not None

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for node in self._nodes:
            if isinstance(node, RedisNode):
                node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drive(self, steps: QuorumSteps[T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(self._ask_all(request))
        except StopIteration as end:
            value: T = end.value
            return value

    def _ask_all(self, request: QuorumRequest) -> Answers:
        if self._threads is None:
            return [self._nodes[0].ask(request)]
        answers = [self._threads.submit(node.ask, request) for node in self._nodes]
        try:
            return [answer.result() for answer in answers]
        finally:
            wait(answers)  # After an interrupt, the release must not overtake this request.


class AsyncRedlock:
    """The lock for an event loop, on Redis."""

    def __init__(self, nodes: Sequence[AsyncNode], timing: Timing, ids: Ids) -> None:
        self._nodes = nodes
        self._timing = timing
        self._ids = ids
        self._writes = UncancelledWrites()

    @classmethod
    def connect(
        cls,
        urls: str | Sequence[str],
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] | None = None,
        ids: Ids | None = None,
    ) -> Self:
        nodes = [AsyncRedisNode(url, timeout_seconds) for url in checked_urls(urls)]
        return cls(nodes, Timing(clock or SystemClock().monotonic), ids or secret_ids())

    async def acquire(self, resource: str, ttl_ms: int, *, token: str | None = None) -> str | None:
        grant = await self.grant(resource, ttl_ms, token=token)
        return None if grant is None else grant.token

    async def grant(self, resource: str, ttl_ms: int, *, token: str | None = None) -> Grant | None:
        """See `Redlock.grant`. A cancelled call releases what it acquired."""
        chosen, again = self._ids.secret() if token is None else token, token is not None
        _check(resource, chosen, ttl_ms)

        async def ask() -> Grant | None:
            nonlocal again
            steps = quorum.acquire(resource, chosen, ttl_ms, timing=self._timing, again=again)
            again = True
            return await self._drive(steps)

        async def withdraw(_: object) -> None:
            with suppress(StoreUnavailable):
                await self.release(resource, chosen)

        answer = await self._writes.finish(ask, unwanted=withdraw)
        if isinstance(answer, Interrupted):
            await self._writes.finish(lambda: withdraw(answer))
            raise answer.error
        return answer

    async def release(self, resource: str, token: str) -> bool:
        _check(resource, token)
        return await self._drive(quorum.release(resource, token))

    async def refresh(self, resource: str, token: str, ttl_ms: int) -> bool:
        return await self.extend(resource, token, ttl_ms) is not None

    async def extend(self, resource: str, token: str, ttl_ms: int) -> Grant | None:
        """Like `refresh`, with the time for which the holder may rely on the lock."""
        _check(resource, token, ttl_ms)
        return await self._drive(quorum.refresh(resource, token, ttl_ms, timing=self._timing))

    async def close(self) -> None:
        while self._writes.tasks:
            await asyncio.wait(list(self._writes.tasks))
        for node in self._nodes:
            await node.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _drive(self, steps: QuorumSteps[T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._ask_all(request))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _ask_all(self, request: QuorumRequest) -> Answers:
        if len(self._nodes) == 1:
            return [await self._nodes[0].ask(request)]
        return await asyncio.gather(*(node.ask(request) for node in self._nodes))


def _check(resource: str, token: str, ttl_ms: int = 1) -> None:
    check_resource(resource)
    check_name("token", token, most=RESOURCE_MAX)
    check_whole("ttl_ms", ttl_ms, least=1, most=TTL_MS_MAX)
