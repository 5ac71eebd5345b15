"""Redlock on real Redis: one node, and five of which some are dead, stopped, slow or restarted empty."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.primitives.locks import AsyncRedlock, Redlock
from proof.lab.servers import Redis

TTL_MS = 60_000
PATIENT = {"timeout_seconds": 5.0}
"""Timeouts for a machine that is busy with other tests."""


class AnyRedlock(Protocol):
    """The common interface of the sync and the async Redlock."""

    def acquire(self, resource: str, ttl_ms: int, *, token: str | None = None) -> str | None: ...

    def release(self, resource: str, token: str) -> bool: ...

    def refresh(self, resource: str, token: str, ttl_ms: int) -> bool: ...


class Loop:
    """An `AsyncRedlock` with blocking methods."""

    def __init__(self, redlock: AsyncRedlock, runner: asyncio.Runner) -> None:
        self._redlock = redlock
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Awaitable[Any]] = getattr(self._redlock, name)

        async def call(*args: Any, **fields: Any) -> Any:
            return await method(*args, **fields)

        return lambda *args, **fields: self._runner.run(call(*args, **fields))


Connect = Callable[..., AnyRedlock]


@pytest.fixture(params=["threads", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    connected: list[Any] = []
    if request.param == "threads":

        def threads(urls: Any, **settings: Any) -> AnyRedlock:
            connected.append(Redlock.connect(urls, **PATIENT | settings))
            redlock: AnyRedlock = connected[-1]
            return redlock

        yield threads
        for locks in connected:
            locks.close()
        return
    with asyncio.Runner() as runner:

        def loop(urls: Any, **settings: Any) -> AnyRedlock:
            connected.append(Loop(AsyncRedlock.connect(urls, **PATIENT | settings), runner))
            redlock: AnyRedlock = connected[-1]
            return redlock

        yield loop
        for locks in connected:
            locks.close()


def urls_of(nodes: list[Redis]) -> list[str]:
    return [node.url for node in nodes]


def holds(node: Redis, resource: str = "r") -> bool:
    return node.command(f"EXISTS lock:{resource}") == ":1\r\n"


# -- one Redis -----------------------------------------------------------------------------------------


def test_one_redis_locks_like_the_memory_does(connect: Connect, redis_url: str) -> None:
    first, second = connect(redis_url), connect(redis_url)
    token = first.acquire("r", TTL_MS)
    assert token is not None
    assert second.acquire("r", TTL_MS) is None
    assert not second.release("r", "guess")
    assert not second.refresh("r", "guess", TTL_MS)
    assert first.refresh("r", token, TTL_MS)
    assert second.release("r", token)
    assert not first.release("r", token)
    assert not first.refresh("r", token, TTL_MS)
    assert second.acquire("r", TTL_MS) is not None


def test_a_refresh_never_takes_a_lock_that_is_gone(
    connect: Connect, redis_url: str, redis_server: Redis
) -> None:
    locks = connect(redis_url)
    token = locks.acquire("r", TTL_MS)
    assert token is not None
    redis_server.command("FLUSHALL")
    assert not locks.refresh("r", token, TTL_MS)
    assert not holds(redis_server)


def test_scripts_that_the_server_forgot_are_sent_again(
    connect: Connect, redis_url: str, redis_server: Redis
) -> None:
    locks = connect(redis_url)
    for _ in range(2):
        redis_server.command("SCRIPT FLUSH")
        token = locks.acquire("r", TTL_MS)
        assert token is not None
        assert locks.refresh("r", token, TTL_MS)
        assert locks.release("r", token)


def test_one_dead_redis_is_a_typed_error_and_comes_back(connect: Connect) -> None:
    with Redis() as server:
        locks = connect(server.url)
        token = locks.acquire("r", TTL_MS)
        assert token is not None
        server.kill()
        for call in (
            lambda: locks.acquire("r", TTL_MS),
            lambda: locks.refresh("r", token, TTL_MS),
            lambda: locks.release("r", token),
        ):
            with pytest.raises(StoreUnavailable):
                call()
        server.start()
        assert locks.acquire("r", TTL_MS) is not None


def test_a_lost_reply_is_repeated_under_the_same_token(
    connect: Connect, redis_url: str, redis_server: Redis
) -> None:
    """The server granted the lock, the answer was lost, and the caller repeats the request."""
    redis_server.command(f"SET lock:r mine NX PX {TTL_MS}")
    locks = connect(redis_url)
    assert locks.acquire("r", TTL_MS, token="mine") == "mine"
    assert locks.acquire("r", TTL_MS, token="yours") is None


# -- five of them --------------------------------------------------------------------------------------


def test_two_dead_nodes_of_five_still_grant(connect: Connect, redlock_nodes: list[Redis]) -> None:
    first, second = (connect(urls_of(redlock_nodes)) for _ in range(2))
    for node in redlock_nodes[:2]:
        node.kill()
    token = first.acquire("r", TTL_MS)
    assert token is not None
    assert second.acquire("r", TTL_MS) is None
    assert first.refresh("r", token, TTL_MS)
    assert first.release("r", token)
    assert second.acquire("r", TTL_MS) is not None


def test_three_dead_nodes_of_five_deny_the_lock_and_leave_no_key(
    connect: Connect, redlock_nodes: list[Redis]
) -> None:
    locks = connect(urls_of(redlock_nodes))
    for node in redlock_nodes[:3]:
        node.kill()
    with pytest.raises(StoreUnavailable, match="3 of 5"):
        locks.acquire("r", TTL_MS)
    assert [holds(node) for node in redlock_nodes[3:]] == [False, False]


def test_a_holder_of_the_majority_keeps_a_minority_out_and_the_loser_undoes(
    connect: Connect, redlock_nodes: list[Redis]
) -> None:
    for node in redlock_nodes[:3]:
        node.command(f"SET lock:r other PX {TTL_MS}")
    assert connect(urls_of(redlock_nodes)).acquire("r", TTL_MS) is None
    assert [holds(node) for node in redlock_nodes] == [True, True, True, False, False]


def test_stopped_nodes_cost_one_timeout(connect: Connect, redlock_nodes: list[Redis]) -> None:
    """With a second timeout the request would outlast the ttl and be denied."""
    locks = connect(urls_of(redlock_nodes), timeout_seconds=0.5)
    for node in redlock_nodes[:2]:
        node.pause()
    assert locks.acquire("r", 1_500) is not None


def test_a_grant_that_took_longer_than_the_ttl_is_denied(
    connect: Connect, redlock_nodes: list[Redis]
) -> None:
    """Four nodes grant at once; the fifth answers after the ttl."""
    locks = connect(urls_of(redlock_nodes), timeout_seconds=0.2)
    redlock_nodes[0].pause()
    assert locks.acquire("r", 100) is None


def test_a_minority_that_lost_its_memory_grants_no_second_holder(
    connect: Connect, redlock_nodes: list[Redis]
) -> None:
    first, second = (connect(urls_of(redlock_nodes)) for _ in range(2))
    token = first.acquire("r", TTL_MS)
    assert token is not None
    for node in redlock_nodes[:2]:
        node.kill()
        node.start()
    assert second.acquire("r", TTL_MS) is None
    assert [holds(node) for node in redlock_nodes[:2]] == [False, False]
    assert first.refresh("r", token, TTL_MS)
    assert [holds(node) for node in redlock_nodes[:2]] == [False, False]
    assert first.release("r", token)


def test_a_majority_that_lost_its_memory_grants_a_second_holder(
    connect: Connect, redlock_nodes: list[Redis]
) -> None:
    """Redlock does not promise this case: a server that restarts empty must stay down for the longest ttl."""
    first, second = (connect(urls_of(redlock_nodes)) for _ in range(2))
    token = first.acquire("r", TTL_MS)
    assert token is not None
    for node in redlock_nodes[:3]:
        node.kill()
        node.start()
    assert second.acquire("r", TTL_MS) is not None
    assert not first.refresh("r", token, TTL_MS)
