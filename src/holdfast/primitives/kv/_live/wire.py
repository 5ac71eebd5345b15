"""Shared by the blocking and the async adapter: settings, and the meaning of failures.

Promises: every way to lose Redis is `StoreUnavailable`, which says whether the command may have taken
effect. No retry, no backoff, no wait beyond the timeout and the command's `BLOCK`.
Never: a reply that redis-py converted (RESP2, no callbacks).
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias
from urllib.parse import urlsplit

from holdfast.core.address import Scheme, check_address, check_url, is_redis, scheme_of
from holdfast.core.check import check_positive, check_whole
from holdfast.errors import BadConfig, HoldfastError, MissingExtra, StoreUnavailable
from holdfast.primitives.kv._backend import Outcome
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import problem
from holdfast.primitives.kv.errors import BadCommand

if TYPE_CHECKING:
    from redis.exceptions import RedisError

CONNECTIONS_MOST: Final = 2**31
CODES: Final = {
    "AuthenticationError": "NOAUTH",
    "NoPermissionError": "NOPERM",
    "BusyLoadingError": "LOADING",
    "ReadOnlyError": "READONLY",
    "OutOfMemoryError": "OOM",
    "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "ClusterCrossSlotError": "CROSSSLOT",
    "MovedError": "MOVED",
    "AskError": "ASK",
}


Said: TypeAlias = "Reply | RedisError"
"""The reply to one of several commands."""


def refuse_bad(url: str, timeout_seconds: float, connections_max: int) -> None:
    """Refuses settings that cannot work, without a password in the message."""
    if importlib.util.find_spec("redis") is None:
        raise MissingExtra("a live Redis needs redis-py: pip install 'holdfast[redis]'")
    if not is_redis(check_address(url)):
        raise BadConfig("not a Redis URL: use redis://host:6379/0")
    check_url(url)
    database = urlsplit(url).path.strip("/")
    if scheme_of(url) is Scheme.REDIS and database and not database.isdecimal():
        raise BadConfig(f"a Redis has numbered databases, not '{database}': redis://host:6379/0")
    check_positive("timeout_seconds", timeout_seconds, wrong=BadConfig)
    check_whole("connections_max", connections_max, least=1, most=CONNECTIONS_MOST, wrong=BadConfig)


def settings(
    given: Mapping[str, Any], timeout_seconds: float, connections_max: int
) -> dict[str, Any]:
    """The arguments of a pool. Timeouts in the URL take precedence; protocol settings are fixed."""
    timeouts = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
    return {
        **timeouts,
        **given,
        "timeout": timeout_seconds,
        "max_connections": connections_max,
        "decode_responses": True,
        "encoding": "utf-8",
        "encoding_errors": "strict",
        "protocol": 2,
    }


@contextmanager
def patient(connection: Any, seconds: float) -> Iterator[None]:
    """Extends the read timeout for a command that waits: the server gets its usual time after the wait."""
    usual = connection.socket_timeout
    if usual is None:
        yield
        return
    _set_timeout(connection, usual + seconds)
    try:
        yield
    finally:
        _set_timeout(connection, usual)


async def sent(connection: Any, sending: Awaitable[None]) -> None:
    """redis-py sends with `asyncio.wait_for`, which in Python 3.11 loses a cancellation that arrives when
    everything is sent: the call would go on waiting for the answer."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    await sending
    if task is not None and task.cancelling() > before:
        await connection.disconnect(nowait=True)
        raise asyncio.CancelledError


def _set_timeout(connection: Any, seconds: float) -> None:
    """redis-py's timeout parameter means "nothing came" in asyncio, and would leave the answer unread."""
    connection.socket_timeout = seconds  # the async connection reads it before each read
    sock = getattr(connection, "_sock", None)  # the blocking connection, while it is connected
    if sock is not None:
        sock.settimeout(seconds)


def unreachable(error: RedisError | OSError) -> HoldfastError:
    """The error for a failed connect; nothing of the command was sent."""
    from redis.exceptions import AuthenticationError, ResponseError

    if isinstance(error, AuthenticationError | ResponseError):
        return BadConfig(
            f"Redis refused the connection; check user, password and database number: {error}"
        )
    return StoreUnavailable(f"Redis cannot be reached and nothing was sent: {error}")


def lost(error: BaseException, words: Words) -> StoreUnavailable:
    """The error for a missing answer."""
    return StoreUnavailable(
        f"Redis went away during {words[0]}: whether it took effect is not known: {error}"
    )


def watch_lost() -> StoreUnavailable:
    """The error for a transaction whose connection was lost in its block: a new connection watches
    nothing."""
    return StoreUnavailable(
        "Redis went away during the block of the transaction: nothing of it was written, try it again"
    )


def is_answer(error: BaseException) -> bool:
    """Whether the server refused one command, and the connection still works."""
    from redis.exceptions import ResponseError

    return isinstance(error.__cause__, ResponseError)


def not_text(words: Words) -> BadCommand:
    return BadCommand(
        f"{words[0]}: Redis holds bytes there that are not UTF-8, written by another program"
    )


def failure(error: RedisError | OSError, words: Words) -> HoldfastError:
    """The error for a redis-py error: a refusal by the server, or no answer."""
    from redis.exceptions import ResponseError

    for kind in type(error).__mro__:  # redis-py removes the code of the errors that it knows
        if kind.__name__ in CODES:
            return problem(f"{CODES[kind.__name__]} {error}", words)
    if isinstance(error, ResponseError):
        return problem(str(error), words)
    return lost(error, words)


def outcomes(commands: Sequence[Words], replies: Sequence[Said]) -> list[Outcome] | None:
    """The replies to MULTI, the commands and EXEC, as one result per command."""
    from redis.exceptions import ResponseError

    *queued, executed = replies
    for words, reply in zip((("MULTI",), *commands), queued, strict=True):
        if isinstance(reply, ResponseError):  # malformed: Redis discards the whole transaction
            raise failure(reply, words)
    if isinstance(executed, ResponseError):
        raise failure(executed, ("EXEC",))
    if executed is None:
        return None
    if not isinstance(executed, list):
        _strange(executed)
    return [
        failure(reply, words) if isinstance(reply, ResponseError) else reply
        for words, reply in zip(commands, executed, strict=True)
    ]


def _strange(reply: object) -> NoReturn:
    raise StoreUnavailable(f"the server speaks another protocol: it answered {reply!r} to EXEC")
