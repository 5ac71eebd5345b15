"""The memory backend and real servers get the same commands: every answer and every error is equal.

Time: the clock of the memory backend follows the server. After a command that sets an expiry, the
server's deadline shows at which millisecond it ran. The memory backend runs the command at that time, so
the deadlines must be equal to the millisecond. To let time pass, the test shortens all deadlines of the
server and moves the clock of the memory backend.

    HOLDFAST_KV_EXAMPLES=5000 pytest tests/conformance/kv/test_model.py
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from holdfast.errors import HoldfastError
from holdfast.primitives.kv import Answer, RedisKV
from holdfast.primitives.kv._memory.table import COMMANDS
from proof.lab.servers import Redis
from tests.backends import REDIS
from tests.conformance.kv.tour import TOUR, raw
from tests.conformance.kv.words import (
    KEYS,
    AnyOp,
    malformed,
    mortal,
    mostly,
    pattern,
    pool,
    valid,
    writes,
)

IS_SHORT = "HOLDFAST_KV_EXAMPLES" not in os.environ
EXAMPLES = int(os.environ.get("HOLDFAST_KV_EXAMPLES", "60"))
TOO_CLOSE_MS = 30_000
NOT_IN_POOL = {"TTL", "PTTL", "SCAN"}  # `look_at_ttl` and `scan` are steps
REFUSALS = ("WrongType", "NotAnInteger", "NotAFloat", "Overflow", "BadCommand", "WatchFailed")


BAD_SCANS = ("-1", "x", "", str(2**64), "0 COUNT 0", "0 COUNT x", "0 COUNT", "0 MATCH", "0 NOPE 1")
step: st.SearchStrategy[tuple[Any, ...]] = mostly(
    st.tuples(st.just("compare"), valid),
    st.one_of(
        st.tuples(st.just("compare"), malformed()),
        st.tuples(st.just("compare"), malformed()),
        st.tuples(st.just("let_end"), mortal),
        st.tuples(st.just("let_end"), mortal),
        st.tuples(st.just("look_at_ttl"), st.sampled_from(KEYS)),
        st.tuples(st.just("pass_time"), st.integers(500, 4_000)),
        st.tuples(st.just("scan"), st.none() | pattern, st.integers(1, 6)),
        st.tuples(st.just("scan_badly"), st.sampled_from(BAD_SCANS)),
    ),
)
"""A method of the machine and its arguments."""


class Twins:
    """A server and a memory backend. One step runs the same command on both and compares the answers."""

    def __init__(self, live: RedisKV, seen: Counter[str]) -> None:
        self.live = live
        self.seen = seen
        self.now_ms = 1_000_000
        self.live.execute(raw("FLUSHALL"))
        self.twin = RedisKV(lambda: self.now_ms / 1000)
        self.shift_ms: int | None = None

    def go_on(self, steps: list[tuple[Any, ...]]) -> None:
        for name, *arguments in steps:
            getattr(self, name)(*arguments)

    def let_end(self, chosen: tuple[AnyOp, str, int]) -> None:
        op, key, ms = chosen
        said = outcome(lambda: self.live.execute(op))
        deadline = self.deadline(key)
        if said == ("said", True) and deadline > 0:
            self.follow(deadline - ms)
        self.count(op, said)
        assert outcome(lambda: self.twin.execute(op)) == said

    def look_at_ttl(self, key: str) -> None:
        with self.live.transaction() as tx:
            exact, rounded = tx.pttl(key), tx.ttl(key)
        if exact.value >= 0:
            self.follow(self.deadline(key) - exact.value)
        self.seen["PTTL"] += 1
        self.seen["TTL"] += 1
        assert self.twin.pttl(key) == exact.value
        assert self.twin.ttl(key) == rounded.value

    def pass_time(self, seconds: int) -> None:
        left = [self.twin.pttl(key) for key in KEYS]
        if any(abs(ms - seconds * 1000) < TOO_CLOSE_MS for ms in left if ms >= 0):
            return  # the server's own time goes on: which key expires first would be a race
        for key in KEYS:
            if (deadline := self.deadline(key)) > 0:
                self.live.execute(raw("PEXPIREAT", key, str(deadline - seconds * 1000)))
        self.now_ms += seconds * 1000
        self.shift_ms = None if self.shift_ms is None else self.shift_ms + seconds * 1000
        self.seen["time"] += 1

    def transact(self, watch: list[str], between: AnyOp | None, ops: list[AnyOp]) -> None:
        mine, real = ([*transacted(kv, watch, between, ops)] for kv in (self.twin, self.live))
        assert mine == real
        self.seen["transaction"] += 1
        self.seen[str(real[-1])] += 1

    def notice(self, ops: list[AnyOp]) -> None:
        """Whether a write changes its key, as seen by a watch."""
        for op in ops:
            mine, real = ([*transacted(kv, [*KEYS], op, [])] for kv in (self.twin, self.live))
            assert mine == real, op.words
            self.count(op, mine[0])
            self.seen[str(mine[-1])] += 1

    def scan(self, match: str | None, count: int) -> None:
        assert set(whole_scan(self.twin, match, count)) == set(whole_scan(self.live, match, count))
        self.seen["SCAN"] += 1

    def scan_badly(self, words: str) -> None:
        self.compare(raw("SCAN", *words.split(" ")))

    def keys_end_at_the_same_time(self) -> None:
        with self.live.transaction() as tx:
            ends = {key: tx.add(raw("PEXPIRETIME", key)) for key in KEYS}
        for key, end in ends.items():
            deadline, left = end.value, self.twin.pttl(key)
            assert isinstance(deadline, int)
            if left < 0:
                assert left == deadline, key
            else:
                assert self.shift_ms is not None
                assert self.now_ms + left == deadline + self.shift_ms, key

    # -- helpers

    def compare(self, op: AnyOp) -> None:
        said = outcome(lambda: self.live.execute(op))
        self.count(op, said)
        assert outcome(lambda: self.twin.execute(op)) == said, op.words

    def count(self, op: AnyOp, said: object) -> None:
        assert isinstance(said, tuple)
        self.seen[op.words[0] if said[0] == "said" else str(said[1])] += 1

    def deadline(self, key: str) -> int:
        found = self.live.execute(raw("PEXPIRETIME", key))
        assert isinstance(found, int)
        return found

    def follow(self, live_ms: int) -> None:
        """Sets the memory backend to the server's time, plus the time that has been passed."""
        if self.shift_ms is None:
            self.shift_ms = self.now_ms - live_ms
        self.now_ms = live_ms + self.shift_ms


class Machine(RuleBasedStateMachine):
    """Redis and Valkey, each with a memory backend: each drawn step runs on both."""

    servers: ClassVar[list[tuple[RedisKV, Counter[str]]]]

    @initialize()
    def start(self) -> None:
        self.pairs = [Twins(live, seen) for live, seen in self.servers]

    @rule(steps=st.lists(step, min_size=10, max_size=30))
    def go_on(self, steps: list[tuple[Any, ...]]) -> None:
        for pair in self.pairs:
            pair.go_on(steps)

    @rule(
        watch=st.lists(st.sampled_from(KEYS), max_size=2),
        between=st.none() | writes,
        ops=st.lists(valid | malformed(), max_size=4),
    )
    def transact(self, watch: list[str], between: AnyOp | None, ops: list[AnyOp]) -> None:
        for pair in self.pairs:
            pair.transact(watch, between, ops)

    @rule(ops=st.lists(writes, min_size=8, max_size=16))
    def notice(self, ops: list[AnyOp]) -> None:
        for pair in self.pairs:
            pair.notice(ops)

    @invariant()
    def keys_end_at_the_same_time(self) -> None:
        for pair in getattr(self, "pairs", []):
            pair.keys_end_at_the_same_time()


def outcome(call: Callable[[], object]) -> tuple[object, ...]:
    try:
        return ("said", call())
    except HoldfastError as error:
        return ("refused", type(error).__name__, said_by_both(error))


def transacted(
    kv: RedisKV, watch: list[str], between: AnyOp | None, ops: list[AnyOp]
) -> Iterator[object]:
    """Results of a write between watch and commit, of each command, and of the transaction."""
    answers: list[Answer[object]] = []
    end = "done"
    try:
        with kv.transaction(watch) as tx:
            if between is not None:
                yield outcome(functools.partial(kv.execute, between))
            answers = [tx.add(op) for op in ops]
    except HoldfastError as error:
        yield said_by_both(error)
        end = type(error).__name__
    for answer in answers:
        yield outcome(lambda answer=answer: answer.value)  # type: ignore[misc]  # mypy 9773
    yield end


def said_by_both(error: HoldfastError) -> str:
    """The message, up to where Redis and Valkey differ."""
    return str(error).partition("list of streams")[0]


def whole_scan(kv: RedisKV, match: str | None, count: int) -> Iterator[str]:
    cursor = 0
    while True:
        cursor, found = kv.scan(cursor, match, count)
        yield from found
        if cursor == 0:
            return


CASES = (
    "RPUSH l x y x y x | LREM l -2 x | LRANGE l 0 -1 | LREM l 1 y | LRANGE l 0 -1",
    "RPUSH l a b c | LTRIM l -2 -1 | LRANGE l 0 -1 | LTRIM l 5 9 | EXISTS l",
    "RPUSH l a b c | LRANGE l -100 100 | LRANGE l 2 1 | LINDEX l -4 | LPOP l | RPOP l | RPOP l | TYPE l",
    "XADD s 0-* f v | XADD s 0-* f v | XADD s 0-1 f v | XADD s 1-* f v | XRANGE s - +",
    "XADD s 5-1 f v | XDEL s 5-1 | XLEN s | TYPE s | XADD s 5-1 f v | XADD s 5-* f v | XREAD STREAMS s 0",
    "XADD s 1-1 a 1 | XADD s 2-1 b 2 | XADD s 3-1 c 3 | XRANGE s (1-1 (3-1 | XRANGE s 2 2 | XTRIM s MAXLEN 1",
    "XADD s 1-1 a 1 | XADD s MAXLEN = 1 2-1 b 2 | XRANGE s - + | XREAD COUNT 1 STREAMS s t 0 0",
    "XREAD BLOCK x STREAMS s 0 | XREAD BLOCK -1 STREAMS s 0 | XREAD BLOCK 007 STREAMS s 0 | XREAD BLOCK 1",
    "XADD s 1-1 a 1 | XREAD BLOCK 9 COUNT 1 STREAMS s 0 | XREAD COUNT 1 BLOCK 1 STREAMS s $ | XREAD STREAMS",
    "ZADD z 1 b 1 a 1 é 1 z | ZRANGE z 0 -1 | ZRANGE z 0 1 REV WITHSCORES | ZPOPMIN z 2 | ZRANGE z 0 -1",
    "ZADD z 5 a | ZADD z GT CH 4 a | ZADD z LT CH 4 a | ZADD z XX 1 b | ZADD z NX 1 a | ZSCORE z a",
    "ZADD z 1 a 2 b 3 c | ZRANGEBYSCORE z (1 (3 | ZRANGEBYSCORE z 1 3 WITHSCORES LIMIT 1 1 | ZREM z a b c",
    "ZADD z 0.1 a | ZADD z 1e22 b | ZADD z -inf c | ZRANGE z 0 -1 WITHSCORES",
    "SET n 9223372036854775807 | INCR n | DECR n | SET n -9223372036854775808 | DECR n | DECRBY n -1",
    "SET n 010 | INCR n | HSET h f 010 | HINCRBY h f 1 | HINCRBY h g 9223372036854775807 | HINCRBY h g 1",
    "SET a 1 GET NX | SET a 2 GET NX | SET a 3 XX GET | SET b 1 XX GET | GET b | LPUSH l x | SET l 1 GET",
    "SET a 1 NX GET KEEPTTL | SET a 1 ex 5 px 5 | SET a 1 nx xx | SET a 1 keepttl ex 5 | SET a 1 EX",
    "SET a 1 | EXPIRE a -1 | EXISTS a | SET a 1 | PEXPIRE a 0 | EXISTS a | EXPIRE nope 5 | EXPIRE nope x",
    "SADD s a b | SREM s a b c | EXISTS s | SADD s a | LPUSH s x | SCARD s | TYPE s",
    "HSET h f 1 g 2 | HDEL h f f | HLEN h | HDEL h g | EXISTS h | HMGET h f | HGETALL h | HSET h f",
    "MSET a 1 b 2 a 3 | MGET a b c | LPUSH l x | MGET a l | MSET a | EXISTS a a l",
)
"""Corner cases, one command after another, which random steps may reach too rarely."""

WATCHED = (
    "SADD s a", "SADD s b", "SREM s z", "SREM s a", "HSET h f 1", "HDEL h z", "ZADD z 1 m", "ZADD z XX 1 q",
    "ZADD z 2 m", "ZREM z q", "LTRIM l 0 0", "LREM l 0 z", "LPOP l", "SET a 1", "SET a 1 NX", "SET q 1 XX",
    "GET a", "DEL q", "DEL a", "XTRIM x MAXLEN = 9", "XDEL x 9-9", "XDEL x 1-1", "PERSIST a", "EXPIRE a 900",
    "EXPIRE q 900", "INCR n", "INCR h", "MSET a 1 q 2", "ZPOPMIN z 0", "ZPOPMIN z", "HINCRBY h n 0",
    "RPUSH l x",
)  # fmt: skip


def run_line(kv: RedisKV, line: str) -> object:
    said = outcome(lambda: kv.execute(raw(*line.split())))
    return sorted(said[1]) if line.startswith("HGETALL") and isinstance(said[1], list) else said


@pytest.mark.parametrize("case", CASES)
def test_corner_cases_have_equal_answers(server_url: str, case: str) -> None:
    with RedisKV.connect(server_url) as live:
        twin = RedisKV()
        live.execute(raw("FLUSHALL"))
        for line in case.split(" | "):
            assert run_line(twin, line) == run_line(live, line), line


def test_both_backends_agree_what_changes_a_watched_key(server_url: str) -> None:
    begin = "SADD s a | HSET h f 1 | ZADD z 1 m | RPUSH l x y | SET a 1 | XADD x 1-1 f v | SET n 1"
    changes = Counter[object]()
    with RedisKV.connect(server_url) as live:
        twin = RedisKV()
        for line in WATCHED:
            live.execute(raw("FLUSHALL"))
            twin.delete(*"shzlaxnq")
            for kv in (twin, live):
                for first in begin.split(" | "):
                    run_line(kv, first)
            op = raw(*line.split())
            mine, real = ([*transacted(kv, [*"shzlaxnq"], op, [])] for kv in (twin, live))
            assert mine == real, line
            changes[real[-1]] += 1
    assert changes["done"] > 8
    assert changes["WatchFailed"] > 8


@pytest.fixture(params=REDIS)
def server_url(request: pytest.FixtureRequest, redis_url: str, valkey: Redis) -> str:
    return redis_url if request.param == "redis" else valkey.url


def test_the_memory_backend_answers_like_redis_and_valkey(redis_url: str, valkey: Redis) -> None:
    assert {op.words[0] for op in pool()} == {*COMMANDS} - NOT_IN_POOL
    with RedisKV.connect(redis_url) as redis, RedisKV.connect(valkey.url) as other:
        Machine.servers = [(redis, Counter()), (other, Counter())]
        for live, seen in Machine.servers:
            Twins(live, seen).go_on([*TOUR])
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=15,
                suppress_health_check=list(HealthCheck),
                derandomize=IS_SHORT,
                phases=[Phase.generate] if IS_SHORT else list(Phase),
            ),
        )
    wanted = {*COMMANDS, *REFUSALS, "transaction", "time"}
    for _, seen in Machine.servers:
        assert {name for name in wanted if not seen[name]} == set()
