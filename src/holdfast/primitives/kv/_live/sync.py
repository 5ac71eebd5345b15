"""The live adapter that blocks.

Each call, or each transaction, uses one connection of a bounded pool.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from holdfast.errors import BadConfig
from holdfast.primitives.kv._backend import Outcome
from holdfast.primitives.kv._blocking import wait_seconds
from holdfast.primitives.kv._live import wire
from holdfast.primitives.kv._op import Op, Reply, T, Words, checked

redis_py: Any = redis
Connection: TypeAlias = Any
"""redis-py types its pools and connections only partly."""


class LiveKV:
    """Runs commands on a live Redis."""

    __slots__ = ("_is_closed", "_pool", "_sessions")

    def __init__(self, url: str, timeout_seconds: float, connections_max: int) -> None:
        self._is_closed = False
        self._sessions: dict[int, list[LiveSession]] = {}
        """Open transactions, by the thread that runs their block."""
        retry = redis_py.retry.Retry(NoBackoff(), 0)
        try:
            given = redis_py.connection.parse_url(url)
            chosen = wire.settings(given, timeout_seconds, connections_max)
            self._pool = redis_py.BlockingConnectionPool(**chosen, retry=retry)
            # Raises TypeError for unknown options.
            self._pool.connection_class(**self._pool.connection_kwargs)
        except (TypeError, ValueError) as error:
            raise BadConfig(f"not a Redis URL: {error}") from error

    def execute(self, op: Op[T]) -> T:
        words = checked(op.words)
        seconds = wait_seconds(words)
        if inside := self._sessions.get(threading.get_ident()):
            session = inside[-1]
            return op.read(session.ask(words, seconds))
        connection = self.take()
        try:
            reply = ask(connection, words, seconds)
        finally:
            self.give(connection)
        return op.read(reply)

    def begin(self, watch: Iterable[str]) -> LiveSession:
        words = checked(("WATCH", *watch))
        connection = self.take()
        try:
            if len(words) > 1:
                ask(connection, words)
        except BaseException:
            self.give(connection)
            raise
        session = LiveSession(self, connection, threading.get_ident())
        self._sessions.setdefault(session.of, []).append(session)
        return session

    def ended(self, session: LiveSession) -> None:
        """Later commands of the block take a connection from the pool again."""
        open_ones = self._sessions[session.of]
        open_ones.remove(session)
        if not open_ones:
            del self._sessions[session.of]

    def close(self) -> None:
        """Closes idle connections. A connection in use is closed when its call ends."""
        self._is_closed = True
        self._pool.disconnect(inuse_connections=False)

    def take(self) -> Connection:
        """A working connection. Replaces one that the server has closed."""
        try:
            return self._pool.get_connection()
        except (RedisError, OSError) as error:
            raise wire.unreachable(error) from error

    def give(self, connection: Connection) -> None:
        if self._is_closed:
            connection.disconnect()
        self._pool.release(connection)


class LiveSession:
    """A transaction on a dedicated connection, which watches until the end. Reads of its block use the
    same connection, so open transactions that use up the pool do not block each other."""

    __slots__ = ("_connection", "_is_broken", "_kv", "of")

    def __init__(self, kv: LiveKV, connection: Connection, of: int) -> None:
        self._kv = kv
        self._connection = connection
        self._is_broken = False
        self.of = of

    def ask(self, words: Words, seconds: float) -> Reply:
        try:
            return ask(self._connection, words, seconds)
        except BaseException as error:
            self._is_broken = self._is_broken or not wire.is_answer(error)
            raise

    def commit(self, commands: Sequence[Words]) -> list[Outcome] | None:
        self._kv.ended(self)
        if self._is_broken:
            self._kv.give(self._connection)
            raise wire.watch_lost()
        whole = [("MULTI",), *commands, ("EXEC",)]
        try:
            replies = ask_all(self._connection, whole)
        finally:
            self._kv.give(self._connection)
        return wire.outcomes(commands, replies)

    def cancel(self) -> None:
        """Sends nothing to the server: a closed connection watches nothing."""
        self._kv.ended(self)
        self._connection.disconnect()
        self._kv.give(self._connection)


def ask(connection: Connection, words: Words, seconds: float = 0.0) -> Reply:
    """Sends one command and reads its answer, for which the server may wait `seconds`. redis-py closes
    the connection on any error."""
    try:
        connection.send_command(*words, check_health=False)
        if not seconds:
            reply: Reply = connection.read_response()
        else:
            with wire.patient(connection, seconds):
                reply = connection.read_response()
    except (RedisError, OSError) as error:
        raise wire.failure(error, words) from error
    except UnicodeDecodeError as error:
        raise wire.not_text(words) from error
    return reply


def ask_all(connection: Connection, commands: Sequence[Words]) -> list[wire.Said]:
    """Sends several commands at once. An error reply is returned as one of the replies."""
    replies: list[wire.Said] = []
    try:
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        for _ in commands:
            try:
                replies.append(connection.read_response())
            except ResponseError as error:
                replies.append(error)
    except (RedisError, OSError) as error:
        raise wire.failure(error, ("EXEC",)) from error
    except UnicodeDecodeError as error:
        raise wire.not_text(("EXEC",)) from error
    return replies
