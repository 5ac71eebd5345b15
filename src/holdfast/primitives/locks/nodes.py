"""The nodes of a Redlock: a dict in memory, or a Redis server.

Promises: a node that fails gives no answer (None) after its timeout, without retries; scripts are sent by
their hash. Never: raises an exception of the Redis library.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from holdfast.core.address import check_address, check_url, is_redis, shown_url
from holdfast.core.check import check_positive, shown
from holdfast.errors import BadConfig, MissingExtra
from holdfast.primitives.locks.quorum import QuorumRequest, Verb

KEYS: Final = "lock:"
TIMEOUT_SECONDS: Final = 0.1
"""For connecting and for each answer; far below any useful ttl."""
SWEEP_MIN: Final = 1024


class MemoryNode:
    """A node in this process; safe to use from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._locks: dict[str, tuple[str, float]] = {}
        self._sweep_at = SWEEP_MIN
        self._mutex = threading.Lock()

    def ask(self, request: QuorumRequest) -> bool:
        now = self._clock()
        with self._mutex:
            token, until = self._locks.get(request.resource, ("", 0.0))
            is_free = until <= now
            match request.verb:
                case Verb.TAKE if is_free:
                    self._sweep(now)
                    self._locks[request.resource] = (request.token, now + request.ttl_ms / 1000)
                    return True
                case Verb.REFRESH if not is_free and token == request.token:
                    self._locks[request.resource] = (request.token, now + request.ttl_ms / 1000)
                    return True
                case Verb.RELEASE if not is_free and token == request.token:
                    del self._locks[request.resource]
                    return True
        return False

    def _sweep(self, now: float) -> None:
        """Removes expired locks when their number has doubled, so that names used once do not accumulate."""
        if len(self._locks) >= self._sweep_at:
            self._locks = {name: lock for name, lock in self._locks.items() if lock[1] > now}
            self._sweep_at = max(SWEEP_MIN, 2 * len(self._locks))


class Lua(NamedTuple):
    """A script, and its hash in Redis."""

    text: str
    sha: str


@functools.cache
def lua(name: str) -> Lua:
    text = files("holdfast.primitives.locks").joinpath(f"{name}.lua").read_text("utf-8")
    return Lua(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def command(request: QuorumRequest, *, as_text: bool = False) -> tuple[str | int, ...]:
    """The Redis command. `as_text` sends the text of a script instead of its hash."""
    key = KEYS + request.resource
    match request.verb:
        case Verb.TAKE:
            return ("SET", key, request.token, "NX", "PX", request.ttl_ms)
        case Verb.REFRESH:
            return (*_script("refresh", as_text=as_text), key, request.token, request.ttl_ms)
        case Verb.RELEASE:
            return (*_script("release", as_text=as_text), key, request.token)


def _script(name: str, *, as_text: bool) -> tuple[str, str, int]:
    script = lua(name)
    return ("EVAL", script.text, 1) if as_text else ("EVALSHA", script.sha, 1)


def is_granted(answer: Any) -> bool:
    """`+OK` from SET or 1 from a script; nil and 0 are denials."""
    return answer in (b"OK", "OK", 1)


class _Errors(NamedTuple):
    """The exceptions of the Redis library, imported on first use."""

    no_script: type[Exception]
    refusal: type[Exception]
    """An error reply of the server: the connection stays usable."""
    failure: tuple[type[Exception], ...]


def _errors() -> _Errors:
    from redis.exceptions import NoScriptError, RedisError, ResponseError

    return _Errors(NoScriptError, ResponseError, (RedisError, OSError))


class RedisNode:
    """One Redis, for any thread."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        from redis import ConnectionPool

        self._errors = _errors()
        self._pool: Any = ConnectionPool.from_url(url, **_options(timeout_seconds))

    def ask(self, request: QuorumRequest) -> bool | None:
        try:
            try:
                return self._call(command(request))
            except self._errors.no_script:
                return self._call(command(request, as_text=True))
        except self._errors.failure:
            return None

    def _call(self, arguments: tuple[str | int, ...]) -> bool:
        """Uses the connection directly: the client on top of it costs as much time as the server."""
        connection = self._pool.get_connection()
        try:
            connection.send_command(*arguments, check_health=False)
            return is_granted(connection.read_response())
        except self._errors.refusal:
            raise
        except BaseException:
            # The answer may still arrive, and the next caller must not read it.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def close(self) -> None:
        self._pool.disconnect()


class AsyncRedisNode:
    """One Redis, for an event loop."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        from redis.asyncio import ConnectionPool

        self._errors = _errors()
        self._pool: Any = ConnectionPool.from_url(url, **_options(timeout_seconds, is_async=True))

    async def ask(self, request: QuorumRequest) -> bool | None:
        try:
            try:
                return await self._call(command(request))
            except self._errors.no_script:
                return await self._call(command(request, as_text=True))
        except self._errors.failure:
            return None

    async def _call(self, arguments: tuple[str | int, ...]) -> bool:
        connection = await self._pool.get_connection()
        try:
            await connection.send_command(*arguments, check_health=False)
            return is_granted(await connection.read_response())
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
    """Short timeouts and no retries: the other nodes of the quorum take their place."""
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


def checked_urls(urls: str | Sequence[str]) -> list[str]:
    """The checked addresses of the nodes: each must be a different server."""
    import importlib.util

    given: object = urls
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise BadConfig(f"the addresses are {shown(urls)}: give one, or a list")
    addresses = [urls] if isinstance(urls, str) else list(urls)
    for url in addresses:
        if not is_redis(check_address(url)):
            raise BadConfig(f"'{shown_url(url)}' is not a Redis URL: write redis://host:6379/0")
        check_url(url)
    if not addresses or len(set(addresses)) != len(addresses):
        raise BadConfig("a Redlock needs one Redis, or several different ones that share nothing")
    if importlib.util.find_spec("redis") is None:
        raise MissingExtra(
            "Redlock on Redis needs the redis package: pip install 'holdfast[redis]'"
        )
    return addresses
