"""The live adapter that is awaited: made by scripts/kv_fronts.py.

One connection of a bounded pool for each call, or for a whole transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from holdfast.errors import BadConfig
from holdfast.primitives.kv.backend import Outcome
from holdfast.primitives.kv.blocking import wait_seconds
from holdfast.primitives.kv.live import wire
from holdfast.primitives.kv.op import Op, Reply, T, Words, checked

redis_py: Any = redis.asyncio
Connection: TypeAlias = Any
"""redis-py types its pools and connections only here and there."""


class AsyncLiveKV:
    """Commands to a Redis."""

    __slots__ = ("_is_closed", "_pool", "_sessions")

    def __init__(self, url: str, timeout_seconds: float, connections_max: int) -> None:
        self._is_closed = False
        self._sessions: dict[object, list[AsyncLiveSession]] = {}
        """Open transactions, by the task that they are the block of."""
        retry = redis_py.retry.Retry(NoBackoff(), 0)
        try:
            given = redis_py.connection.parse_url(url)
            chosen = wire.settings(given, timeout_seconds, connections_max)
            self._pool = redis_py.BlockingConnectionPool(**chosen, retry=retry)
            self._pool.connection_class(**self._pool.connection_kwargs)  # are there such options?
        except (TypeError, ValueError) as error:
            raise BadConfig(f"not the address of a Redis: {error}") from error

    async def execute(self, op: Op[T]) -> T:
        words = checked(op.words)
        seconds = wait_seconds(words)
        if inside := self._sessions.get(asyncio.current_task()):
            session = inside[-1]
            return op.read(await session.ask(words, seconds))
        connection = await self.take()
        try:
            reply = await ask(connection, words, seconds)
        finally:
            await self.give(connection)
        return op.read(reply)

    async def begin(self, watch: Iterable[str]) -> AsyncLiveSession:
        words = checked(("WATCH", *watch))
        connection = await self.take()
        try:
            if len(words) > 1:
                await ask(connection, words)
        except BaseException:
            await self.give(connection)
            raise
        session = AsyncLiveSession(self, connection, asyncio.current_task())
        self._sessions.setdefault(session.of, []).append(session)
        return session

    def ended(self, session: AsyncLiveSession) -> None:
        """What comes next in its block takes a connection of the pool again."""
        open_ones = self._sessions[session.of]
        open_ones.remove(session)
        if not open_ones:
            del self._sessions[session.of]

    async def close(self) -> None:
        """Close what is idle; what is in use is closed when its call ends."""
        self._is_closed = True
        await self._pool.disconnect(inuse_connections=False)

    async def take(self) -> Connection:
        """A connection that works: one that the server closed meanwhile is made anew."""
        try:
            return await self._pool.get_connection()
        except (RedisError, OSError) as error:
            raise wire.unreachable(error) from error

    async def give(self, connection: Connection) -> None:
        if self._is_closed:
            await connection.disconnect(nowait=True)
        await self._pool.release(connection)


class AsyncLiveSession:
    """A transaction on a connection of its own, which watches until the end. What its block asks the store
    meanwhile goes over the same connection: a pool that is used up by transactions stops none of them."""

    __slots__ = ("_connection", "_is_broken", "_kv", "of")

    def __init__(self, kv: AsyncLiveKV, connection: Connection, of: object) -> None:
        self._kv = kv
        self._connection = connection
        self._is_broken = False
        self.of = of

    async def ask(self, words: Words, seconds: float) -> Reply:
        try:
            return await ask(self._connection, words, seconds)
        except BaseException as error:
            self._is_broken = self._is_broken or not wire.is_answer(error)
            raise

    async def commit(self, commands: Sequence[Words]) -> list[Outcome] | None:
        self._kv.ended(self)
        if self._is_broken:
            await self._kv.give(self._connection)
            raise wire.watch_lost()
        whole = [("MULTI",), *commands, ("EXEC",)]
        try:
            replies = await ask_all(self._connection, whole)
        finally:
            await self._kv.give(self._connection)
        return wire.outcomes(commands, replies)

    async def cancel(self) -> None:
        """Without a word to the server: a closed connection watches nothing."""
        self._kv.ended(self)
        await self._connection.disconnect(nowait=True)
        await self._kv.give(self._connection)


async def ask(connection: Connection, words: Words, seconds: float = 0.0) -> Reply:
    """One command and its answer; it may wait so many seconds itself. redis-py closes the connection when
    anything goes wrong."""
    try:
        await wire.sent(connection, connection.send_command(*words, check_health=False))
        if not seconds:
            reply: Reply = await connection.read_response()
        else:
            with wire.patient(connection, seconds):
                reply = await connection.read_response()
    except (RedisError, OSError) as error:
        raise wire.failure(error, words) from error
    except UnicodeDecodeError as error:
        raise wire.not_text(words) from error
    return reply


async def ask_all(connection: Connection, commands: Sequence[Words]) -> list[wire.Said]:
    """Several commands in one go; an answer that is an error is one of the answers."""
    replies: list[wire.Said] = []
    try:
        await wire.sent(
            connection,
            connection.send_packed_command(connection.pack_commands(commands), check_health=False),
        )
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
    except (RedisError, OSError) as error:
        raise wire.failure(error, ("EXEC",)) from error
    except UnicodeDecodeError as error:
        raise wire.not_text(("EXEC",)) from error
    return replies
