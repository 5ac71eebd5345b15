"""The nodes that a Redlock asks: a dict, or a Redis.

Promises: one node's trouble is one missing answer (None), and costs its timeout, never a retry; scripts are
sent by their hash. Never: an exception of the Redis library.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from holdfast.core.address import check_address, check_url, shown_url
from holdfast.core.check import check_positive, shown
from holdfast.errors import BadConfig, MissingExtra
from holdfast.primitives.locks.quorum import QuorumRequest, Verb

KEYS: Final = "lock:"
TIMEOUT_SECONDS: Final = 0.1
"""For a connection, and for an answer: much less than any sensible ttl."""
SWEEP_MIN: Final = 1024


class MemoryNode:
    """A node in this process; safe to use from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._locks: dict[str, tuple[str, float]] = {}
        self._sweep_at = SWEEP_MIN
        self._mutex = threading.Lock()

    def ask(self, order: QuorumRequest) -> bool:
        now = self._clock()
        with self._mutex:
            token, until = self._locks.get(order.resource, ("", 0.0))
            is_free = until <= now
            match order.verb:
                case Verb.TAKE if is_free:
                    self._sweep(now)
                    self._locks[order.resource] = (order.token, now + order.ttl_ms / 1000)
                    return True
                case Verb.REFRESH if not is_free and token == order.token:
                    self._locks[order.resource] = (order.token, now + order.ttl_ms / 1000)
                    return True
                case Verb.RELEASE if not is_free and token == order.token:
                    del self._locks[order.resource]
                    return True
        return False

    def _sweep(self, now: float) -> None:
        """Forgets what has ended, once in a while: names that come but once must not pile up."""
        if len(self._locks) >= self._sweep_at:
            self._locks = {name: held for name, held in self._locks.items() if held[1] > now}
            self._sweep_at = max(SWEEP_MIN, 2 * len(self._locks))


class Lua(NamedTuple):
    """A script and the hash that Redis knows it by."""

    text: str
    sha: str


@functools.cache
def lua(name: str) -> Lua:
    text = files("holdfast.primitives.locks").joinpath(f"{name}.lua").read_text("utf-8")
    return Lua(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def command(order: QuorumRequest, *, whole: bool = False) -> tuple[str | int, ...]:
    """What is sent to Redis; `whole` sends a script's text."""
    key = KEYS + order.resource
    match order.verb:
        case Verb.TAKE:
            return ("SET", key, order.token, "NX", "PX", order.ttl_ms)
        case Verb.REFRESH:
            return (*_script("refresh", whole=whole), key, order.token, order.ttl_ms)
        case Verb.RELEASE:
            return (*_script("release", whole=whole), key, order.token)


def _script(name: str, *, whole: bool) -> tuple[str, str, int]:
    script = lua(name)
    return ("EVAL", script.text, 1) if whole else ("EVALSHA", script.sha, 1)


def is_yes(answer: Any) -> bool:
    """`+OK` of SET, 1 of a script; nil and 0 are no."""
    return answer in (b"OK", "OK", 1)


class _Errors(NamedTuple):
    """The exceptions of the Redis library, looked up once."""

    no_script: type[Exception]
    refusal: type[Exception]
    """The server's own answer: the connection is sound."""
    trouble: tuple[type[Exception], ...]


def _errors() -> _Errors:
    from redis.exceptions import NoScriptError, RedisError, ResponseError

    return _Errors(NoScriptError, ResponseError, (RedisError, OSError))


class RedisNode:
    """One Redis, asked from any thread."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        from redis import ConnectionPool

        self._errors = _errors()
        self._pool: Any = ConnectionPool.from_url(url, **_options(timeout_seconds))

    def ask(self, order: QuorumRequest) -> bool | None:
        try:
            try:
                return self._call(command(order))
            except self._errors.no_script:
                return self._call(command(order, whole=True))
        except self._errors.trouble:
            return None

    def _call(self, words: tuple[str | int, ...]) -> bool:
        """The connection itself is driven: the client above it would cost as much as the server."""
        connection = self._pool.get_connection()
        try:
            connection.send_command(*words, check_health=False)
            return is_yes(connection.read_response())
        except self._errors.refusal:
            raise
        except BaseException:
            # An answer may still be on its way; the next caller must not read it.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def close(self) -> None:
        self._pool.disconnect()


class AsyncRedisNode:
    """One Redis, asked from an event loop."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        from redis.asyncio import ConnectionPool

        self._errors = _errors()
        self._pool: Any = ConnectionPool.from_url(url, **_options(timeout_seconds, is_async=True))

    async def ask(self, order: QuorumRequest) -> bool | None:
        try:
            try:
                return await self._call(command(order))
            except self._errors.no_script:
                return await self._call(command(order, whole=True))
        except self._errors.trouble:
            return None

    async def _call(self, words: tuple[str | int, ...]) -> bool:
        connection = await self._pool.get_connection()
        try:
            await connection.send_command(*words, check_health=False)
            return is_yes(await connection.read_response())
        except self._errors.refusal:
            raise
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)

    async def close(self) -> None:
        await self._pool.disconnect()


def _options(timeout_seconds: float, *, is_async: bool = False) -> dict[str, Any]:
    """No retries (a quorum is the retry) and short timeouts."""
    check_positive("timeout_seconds", timeout_seconds, wrong=BadConfig)
    if is_async:
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    else:
        from redis.backoff import NoBackoff
        from redis.retry import Retry  # type: ignore[assignment]
    return {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "protocol": 2,
    }


def is_redis(url: str) -> bool:
    return url.startswith(("redis://", "rediss://", "unix://"))


def checked_urls(urls: str | Sequence[str]) -> list[str]:
    """The addresses of the nodes; each is a server of its own."""
    import importlib.util

    given: object = urls
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise BadConfig(f"the addresses are {shown(urls)}: give one, or a list")
    found = [urls] if isinstance(urls, str) else list(urls)
    for url in found:
        if not is_redis(check_address(url)):
            raise BadConfig(
                f"'{shown_url(url)}' is not the address of a Redis: write redis://host:6379/0"
            )
        check_url(url)
    if not found or len(set(found)) != len(found):
        raise BadConfig("a Redlock needs one Redis, or several different ones that share nothing")
    if importlib.util.find_spec("redis") is None:
        raise MissingExtra(
            "Redlock on Redis needs the redis package: pip install 'holdfast[redis]'"
        )
    return found
