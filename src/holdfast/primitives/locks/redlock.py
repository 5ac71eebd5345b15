"""Redlock: a lock by token and ttl, in memory, on one Redis, or on a majority of N independent ones.

    locks = Redlock()                                     # this process, any number of threads
    locks = Redlock.connect("redis://localhost:6379/0")
    locks = Redlock.connect(["redis://a", "redis://b", "redis://c", "redis://d", "redis://e"])
    token = locks.acquire("report", ttl_ms=10_000)        # None: somebody else has it

Promises: only who knows the token may release or refresh; a refresh never takes what has ended; one dead or
stopped node of five costs its timeout, once, not seconds. Never: a fence. Two may hold when clocks jump,
processes pause or nodes forget; use it to save work, and `Locks` to be right.
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
from holdfast.primitives.locks.quorum import Answers, Grant, QuorumRequest, Talk, Timing
from holdfast.store.backends import secret_ids
from holdfast.store.whole import Whole

T = TypeVar("T")
TTL_MS_MAX: Final = 86_400_000
CALLERS: Final = 8
"""Threads for each node: how many callers may ask a quorum at once before they queue."""


def no_drift(_ttl_ms: int) -> float:
    """Within one process there is one clock."""
    return 0.0


class LockServer(Protocol):
    def ask(self, order: QuorumRequest) -> bool | None: ...


class AsyncNode(Protocol):
    async def ask(self, order: QuorumRequest) -> bool | None: ...

    async def close(self) -> None: ...


class Redlock:
    """The lock for threads. `clock` gives seconds; it should never go back."""

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
        """On Redis. Nothing is opened before the first call."""
        nodes = [RedisNode(url, timeout_seconds) for url in checked_urls(urls)]
        made = cls(clock, ids=ids)
        made._timing = Timing(made._timing.monotonic)
        made._nodes = list(nodes)
        if len(nodes) > 1:
            made._threads = ThreadPoolExecutor(CALLERS * len(nodes), "holdfast-redlock")
        return made

    def acquire(self, resource: str, ttl_ms: int, *, token: str | None = None) -> str | None:
        """The token, or None when somebody else has it. Whoever repeats a call whose answer was lost
        gives the token it chose."""
        grant = self.grant(resource, ttl_ms, token=token)
        return None if grant is None else grant.token

    def grant(self, resource: str, ttl_ms: int, *, token: str | None = None) -> Grant | None:
        """The same, with how long the lock may be counted on. What a call that is interrupted has got is
        given back."""
        chosen = self._ids.secret() if token is None else token
        _check(resource, chosen, ttl_ms)
        talk = quorum.acquire(
            resource, chosen, ttl_ms, timing=self._timing, again=token is not None
        )
        try:
            return self._drive(talk)
        except Exception:
            raise
        except BaseException:
            with suppress(StoreUnavailable):
                self._drive(quorum.release(resource, chosen))
            raise

    def release(self, resource: str, token: str) -> bool:
        """False: it was not held under this token any more."""
        _check(resource, token)
        return self._drive(quorum.release(resource, token))

    def refresh(self, resource: str, token: str, ttl_ms: int) -> bool:
        """A new end; False when it was not held under this token any more."""
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

    def _drive(self, talk: Talk[T]) -> T:
        try:
            order = next(talk)
            while True:
                order = talk.send(self._ask_all(order))
        except StopIteration as end:
            value: T = end.value
            return value

    def _ask_all(self, order: QuorumRequest) -> Answers:
        if self._threads is None:
            return [self._nodes[0].ask(order)]
        asked = [self._threads.submit(node.ask, order) for node in self._nodes]
        try:
            return [each.result() for each in asked]
        finally:
            wait(asked)  # An interrupt came first: what follows must find them all answered.


class AsyncRedlock:
    """The same lock for an event loop, on Redis."""

    def __init__(self, nodes: Sequence[AsyncNode], timing: Timing, ids: Ids) -> None:
        self._nodes = nodes
        self._timing = timing
        self._ids = ids
        self._whole = Whole()

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
        """What a call that is cancelled has got is given back."""
        chosen, again = self._ids.secret() if token is None else token, token is not None
        _check(resource, chosen, ttl_ms)

        async def ask() -> Grant | None:
            nonlocal again
            talk = quorum.acquire(resource, chosen, ttl_ms, timing=self._timing, again=again)
            again = True
            return await self._drive(talk)

        async def give_back(_: object) -> None:
            with suppress(StoreUnavailable):
                await self.release(resource, chosen)

        answer = await self._whole.finish(ask, unwanted=give_back)
        if isinstance(answer, Interrupted):
            await self._whole.finish(lambda: give_back(answer))
            raise answer.error
        return answer

    async def release(self, resource: str, token: str) -> bool:
        _check(resource, token)
        return await self._drive(quorum.release(resource, token))

    async def refresh(self, resource: str, token: str, ttl_ms: int) -> bool:
        return await self.extend(resource, token, ttl_ms) is not None

    async def extend(self, resource: str, token: str, ttl_ms: int) -> Grant | None:
        """`refresh`, with how long the lock may be counted on."""
        _check(resource, token, ttl_ms)
        return await self._drive(quorum.refresh(resource, token, ttl_ms, timing=self._timing))

    async def close(self) -> None:
        while self._whole.tasks:
            await asyncio.wait(list(self._whole.tasks))
        for node in self._nodes:
            await node.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _drive(self, talk: Talk[T]) -> T:
        try:
            order = next(talk)
            while True:
                order = talk.send(await self._ask_all(order))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _ask_all(self, order: QuorumRequest) -> Answers:
        if len(self._nodes) == 1:
            return [await self._nodes[0].ask(order)]
        return await asyncio.gather(*(node.ask(order) for node in self._nodes))


def _check(resource: str, token: str, ttl_ms: int = 1) -> None:
    check_resource(resource)
    check_name("token", token, most=RESOURCE_MAX)
    check_whole("ttl_ms", ttl_ms, least=1, most=TTL_MS_MAX)
