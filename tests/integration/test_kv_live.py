"""The key-value store on a live Redis: effects of the network, the server's clock and other clients.

A relay between client and server cuts the server's answer at a chosen byte, so that a failure in the
middle of any call can be tested at every byte of every answer.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import pytest

from holdfast.errors import BadConfig, StoreUnavailable
from holdfast.primitives.kv import AsyncRedisKV, Op, RedisKV
from holdfast.primitives.kv._commands import (
    compare,
    hashes,
    keys,
    lists,
    sets,
    streams,
    strings,
    zsets,
)
from holdfast.primitives.kv.errors import BadCommand, WatchFailed
from proof.lab.servers import HOST, Redis

T = TypeVar("T")
NEVER: Final = 1 << 30


class Relay:
    """Passes bytes both ways until `cut_after` bytes of answers; then the connection is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server((HOST, 0))
        self.cut_after = NEVER
        self.answered = 0
        self.requests = 0
        self.accepted = 0
        self.asked = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        self._listener.close()

    def cut(self, after: int) -> None:
        self.answered = self.requests = 0
        self.cut_after = after
        self.asked.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self.accepted += 1
            server = socket.create_connection((HOST, self._port))
            for run in (self._ask, self._answer):
                threading.Thread(target=run, args=(client, server), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                self.requests += 1
                server.sendall(data)
                self.asked.set()
        except OSError:
            pass  # the other direction has closed it
        finally:
            hang_up(server)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                left = self.cut_after - self.answered
                self.answered += len(data)
                client.sendall(data[:left])
                if len(data) >= left:
                    break
        except OSError:
            pass  # the client has gone
        finally:
            hang_up(client)


def hang_up(line: socket.socket) -> None:
    """Ends it, also for other listeners."""
    try:
        line.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side was faster
    line.close()


class Awaited:
    """The async front, with the interface of the blocking one."""

    def __init__(self, url: str, runner: asyncio.Runner, **settings: Any) -> None:
        self._runner = runner
        self.kv = AsyncRedisKV.connect(url, **settings)

    def execute(self, op: Op[T]) -> T:
        return self._runner.run(self.kv.execute(op))

    def increment_watched(self) -> None:
        async def run() -> None:
            async with self.kv.transaction(watch=["n"]) as tx:
                tx.incr("n")

        self._runner.run(run())

    def close(self) -> None:
        self._runner.run(self.kv.close())


class Blocking:
    """The blocking front."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.kv = RedisKV.connect(url, **settings)
        self.execute = self.kv.execute
        self.close = self.kv.close

    def increment_watched(self) -> None:
        with self.kv.transaction(watch=["n"]) as tx:
            tx.incr("n")


Client = Blocking | Awaited
Connect = Callable[..., Client]


@pytest.fixture(params=["blocking", "awaited"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    clients: list[Client] = []
    with asyncio.Runner() as runner:

        def make(url: str, **settings: Any) -> Client:
            is_blocking = request.param == "blocking"
            client = Blocking(url, **settings) if is_blocking else Awaited(url, runner, **settings)
            clients.append(client)
            return client

        yield make
        for client in clients:
            client.close()


@pytest.fixture
def relay(redis_server: Redis, redis_url: str) -> Iterator[Relay]:
    relay = Relay(redis_server.port)
    yield relay
    relay.close()


CALLS: Final[tuple[Op[Any], ...]] = (
    strings.get("text"),
    strings.set("text", "value", px=60_000, get=True),
    strings.mget(["text", "nope"]),
    keys.scan(),
    keys.pttl("text"),
    hashes.hgetall("hash"),
    lists.lrange("list", 0, -1),
    sets.smembers("set"),
    zsets.zrange_withscores("zset", 0, -1),
    streams.xrange("stream"),
    compare.compare_and_set("text", "value", "value"),
    lists.lpush("text", "an error is an answer too"),
)


def fill(kv: Client) -> None:
    for op in (
        strings.set("text", "value"),
        hashes.hset("hash", "f", "ž"),
        lists.rpush("list", "a", "b"),
        sets.sadd("set", "a"),
        zsets.zadd("zset", {"a": 1.5}),
        streams.xadd("stream", {"f": "v"}, id="1-1"),
    ):
        kv.execute(op)


def test_an_answer_cut_at_any_byte_is_an_outage(connect: Connect, relay: Relay) -> None:
    kv = connect(relay.url)
    fill(kv)
    for op in CALLS:
        relay.cut(NEVER)
        outcome(kv, op)
        length = relay.answered
        assert length > 3
        for cut_after in range(length):
            relay.cut(cut_after)
            assert outcome(kv, op) == "StoreUnavailable", (op.words, cut_after)
            assert relay.requests == 1, "a hidden retry"
            relay.cut(NEVER)
            assert kv.execute(strings.get("text")) == "value"  # it connects again


def outcome(kv: Client, op: Op[Any]) -> str:
    try:
        kv.execute(op)
    except Exception as error:
        return type(error).__name__
    return "answered"


def test_a_connection_that_fails_is_tried_once(connect: Connect, relay: Relay) -> None:
    kv = connect(relay.url)
    relay.cut(0)
    with pytest.raises(StoreUnavailable, match="nothing was sent"):
        kv.execute(strings.get("a"))
    assert relay.accepted == 1


def test_a_block_that_raised_stops_watching(redis_url: str) -> None:
    def fail(kv: RedisKV) -> None:
        with kv.transaction(watch=["a"]):
            raise ZeroDivisionError

    with RedisKV.connect(redis_url, connections_max=1) as kv:
        with pytest.raises(ZeroDivisionError):
            fail(kv)
        kv.set("a", "1")
        with kv.transaction() as tx:  # on the same connection that watches
            tx.set("b", "1")
        assert kv.get("b") == "1"


def test_a_lost_answer_runs_the_command_once(connect: Connect, relay: Relay) -> None:
    kv = connect(relay.url)
    for cut_after in range(4):
        kv.execute(keys.exists("n"))
        relay.cut(cut_after)
        with pytest.raises(StoreUnavailable, match="not known"):
            kv.execute(strings.incr("n"))
        relay.cut(NEVER)
    assert kv.execute(strings.get("n")) == "4"


def test_a_transaction_cut_at_any_byte_runs_once_or_not_at_all(
    connect: Connect, relay: Relay
) -> None:
    kv = connect(relay.url)
    kv.execute(strings.set("n", "0"))
    relay.cut(NEVER)
    kv.increment_watched()
    length, ran = relay.answered, 1
    for cut_after in range(length):
        relay.cut(cut_after)
        with pytest.raises(StoreUnavailable):
            kv.increment_watched()
        ran += relay.requests == 2  # WATCH, then everything else in one write
        relay.cut(NEVER)
        assert kv.execute(strings.get("n")) == str(ran)
    assert ran > 3


def test_a_killed_redis_is_an_outage_until_it_is_back(connect: Connect) -> None:
    with Redis() as server:
        kv = connect(server.url)
        kv.execute(strings.set("a", "1"))
        server.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                kv.execute(strings.get("a"))
        server.start()
        assert kv.execute(strings.get("a")) is None


def test_a_redis_that_hangs_is_an_outage_after_the_timeout(connect: Connect) -> None:
    with Redis() as server:
        kv = connect(server.url, timeout_seconds=0.05)
        kv.execute(strings.set("a", "1"))
        server.pause()
        with pytest.raises(StoreUnavailable):
            kv.execute(strings.get("a"))
        server.resume()
        assert kv.execute(strings.get("a")) == "1"


def test_a_restart_between_two_calls_is_not_an_error() -> None:
    with Redis() as server, RedisKV.connect(server.url) as kv:
        kv.set("a", "1")
        server.kill()
        server.start()
        assert kv.get("a") is None


def test_a_full_pool_is_an_outage(redis_url: str) -> None:
    with RedisKV.connect(redis_url, connections_max=1, timeout_seconds=0.05) as kv:
        with kv.transaction(watch=["a"]) as tx:
            with pytest.raises(StoreUnavailable):
                kv.transaction().__enter__()
            assert kv.get("a") is None, "the block has the connection of its transaction"
            tx.set("a", "1")
        assert kv.get("a") == "1"


def test_a_wrong_password_is_a_configuration_error(connect: Connect) -> None:
    with Redis() as server:
        server.command("CONFIG SET requirepass right")
        for address in ("redis://", "redis://:wrong@"):
            kv = connect(server.url.replace("redis://", address))
            with pytest.raises(BadConfig):
                kv.execute(strings.get("a"))
        kv = connect(server.url.replace("redis://", "redis://:right@"))
        assert kv.execute(strings.get("a")) is None


def test_a_full_redis_is_an_outage(connect: Connect) -> None:
    with Redis("--maxmemory", "1") as server, pytest.raises(StoreUnavailable, match="OOM"):
        connect(server.url).execute(strings.set("a", "1"))


def test_bytes_that_are_not_text_are_refused(
    connect: Connect, redis_server: Redis, redis_url: str
) -> None:
    redis_server.command('SET bytes "\\xff\\xfe"')
    kv = connect(redis_url)
    with pytest.raises(BadCommand, match="UTF-8"):
        kv.execute(strings.get("bytes"))
    assert kv.execute(keys.exists("bytes"))


def test_a_key_ends_by_the_clock_of_the_server(connect: Connect, redis_url: str) -> None:
    kv = connect(redis_url)
    kv.execute(strings.set("a", "1", px=1))
    while kv.execute(strings.get("a")) is not None:
        pass  # until the server reports that it has ended
    assert kv.execute(keys.pttl("a")) == -2
    assert kv.execute(compare.compare_and_set("a", None, "2"))


async def test_a_cancelled_call_leaves_no_answer_for_the_next_one() -> None:
    with Redis() as server:
        relay = Relay(server.port)
        async with AsyncRedisKV.connect(relay.url, connections_max=1) as kv:
            await kv.mset({"a": "1", "b": "2"})
            server.pause()
            relay.cut(NEVER)
            call = asyncio.create_task(kv.get("a"))
            await asyncio.to_thread(relay.asked.wait)
            for _ in range(100):  # it is sent: let the call reach its wait
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            server.resume()
            assert await kv.get("b") == "2"
        relay.close()


def test_threads_and_processes_lose_no_write(redis_url: str) -> None:
    kv = RedisKV.connect(redis_url)
    conflicts = []

    def work() -> None:
        mine = RedisKV.connect(redis_url)  # as another process would have it
        for number in range(40):
            while True:
                store = mine if number % 2 else kv
                try:
                    with store.transaction(watch=["n"]) as tx:
                        tx.set("n", str(int(store.get("n") or "0") + 1))
                except WatchFailed:
                    conflicts.append(1)
                    continue
                break
        mine.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kv.get("n") == "120"
    assert conflicts
    kv.close()
