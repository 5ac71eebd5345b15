"""The key-value store in memory: every operation of the seed, expiry, scanning, canonical JSON."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.errors import (
    BadCommand,
    BadConfig,
    InvalidInput,
    MissingExtra,
    NotAFloat,
    NotAnInteger,
    NotText,
    Overflow,
    UnserialisablePayload,
    WatchFailed,
    WrongType,
)
from holdfast.primitives.kv import (
    Answer,
    AsyncRedisKV,
    Entry,
    MemoryKV,
    Op,
    RedisKV,
    Transaction,
    dumps,
    dumps_line,
    loads,
)
from holdfast.primitives.kv.memory.glob import matches
from scripts.kv_fronts import written

ROOT = Path(__file__).resolve().parent.parent.parent


class Clock:
    """Seconds that move when told to."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kv(clock: Clock) -> RedisKV:
    return RedisKV(clock)


# -- the surface


SEED = """
get(self, key: 'str') -> 'str | None'
delete(self, *keys: 'str') -> 'int'
exists(self, key: 'str') -> 'bool'
hget(self, key: 'str', field: 'str') -> 'str | None'
hset(self, key: 'str', field: 'str', value: 'str') -> 'int'
hmget(self, key: 'str', fields: 'list[str]') -> 'list[str | None]'
hmset(self, key: 'str', mapping: 'Mapping[str, str]') -> 'None'
hgetall(self, key: 'str') -> 'dict[str, str]'
hdel(self, key: 'str', *fields: 'str') -> 'int'
lpush(self, key: 'str', *values: 'str') -> 'int'
rpush(self, key: 'str', *values: 'str') -> 'int'
lpop(self, key: 'str') -> 'str | None'
rpop(self, key: 'str') -> 'str | None'
llen(self, key: 'str') -> 'int'
lrange(self, key: 'str', start: 'int', stop: 'int') -> 'list[str]'
sadd(self, key: 'str', *members: 'str') -> 'int'
smembers(self, key: 'str') -> 'builtins.set[str]'
srem(self, key: 'str', *members: 'str') -> 'int'
scan(self, cursor: 'int' = 0, match: 'str | None' = None, count: 'int' = 10) -> 'tuple[int, list[str]]'
"""


def test_every_operation_of_the_seed_has_its_signature() -> None:
    for line in SEED.split("\n")[1:-1]:
        name, _, rest = line.partition("(")
        assert f"{name}{inspect.signature(getattr(RedisKV, name))}" == f"{name}({rest}"
    assert list(inspect.signature(RedisKV.set).parameters)[:4] == ["self", "key", "value", "ex"]


def test_both_fronts_have_the_same_operations() -> None:
    def surface(front: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(front, inspect.isfunction)
            if not name.startswith("_")
        }

    assert surface(RedisKV) == surface(AsyncRedisKV)
    assert len(surface(RedisKV)) > 55


def test_what_is_generated_is_current() -> None:
    for path, text in written().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run python scripts/kv_fronts.py"


def test_memory_is_the_default_and_live_needs_an_address() -> None:
    assert RedisKV(no_network=True).set("a", "1")
    with pytest.raises(BadConfig, match="connect"):
        RedisKV(no_network=False)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://x",
        "redis://x:notaport/0",
        "redis://x/0?nope=1",
        "redis://:pw@x/abc",
    ],
)
def test_a_bad_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadConfig) as caught:
        RedisKV.connect(url)
    assert "pw" not in str(caught.value)
    with pytest.raises(BadConfig):
        AsyncRedisKV.connect(url)


def test_without_redis_py_live_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    for connect in (RedisKV.connect, AsyncRedisKV.connect):
        with pytest.raises(MissingExtra, match=r"holdfast\[redis\]"):
            connect("redis://localhost:6379/0")


def test_the_memory_twin_needs_no_client_library() -> None:
    program = (
        "import sys; from holdfast.primitives.kv import RedisKV; RedisKV().set('a', '1');"
        "sys.exit('redis' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# -- strings


def test_string_operations(kv: RedisKV) -> None:
    assert kv.get("a") is None
    assert kv.set("a", "1") is True
    assert kv.get("a") == "1"
    assert kv.exists("a")
    assert kv.delete("a", "b") == 1
    assert not kv.exists("a")
    kv.mset({"a": "1", "b": ""})
    assert kv.mget(["a", "b", "c"]) == ["1", "", None]
    assert kv.type("a") == "string"
    assert kv.type("c") == "none"


def test_set_under_conditions(kv: RedisKV) -> None:
    assert kv.set("a", "1", xx=True) is False
    assert kv.set("a", "1", nx=True) is True
    assert kv.set("a", "2", nx=True) is False
    assert kv.set("a", "3", get=True) == "1"
    assert kv.set("b", "1", nx=True, get=True) is None
    assert kv.mget(["a", "b"]) == ["3", "1"]


def test_counters(kv: RedisKV) -> None:
    assert [kv.incr("n"), kv.incrby("n", 10), kv.decr("n"), kv.decrby("n", 20)] == [1, 11, 10, -10]
    kv.set("n", str(2**63 - 1))
    with pytest.raises(Overflow):
        kv.incr("n")
    assert kv.get("n") == str(2**63 - 1)
    kv.set("n", "1.5")
    with pytest.raises(NotAnInteger):
        kv.incr("n")
    with pytest.raises(NotAnInteger):
        kv.incrby("m", 2**63)


def test_compare_and_set(kv: RedisKV, clock: Clock) -> None:
    assert not kv.compare_and_set("a", "0", "1")
    assert kv.compare_and_set("a", None, "1")
    assert not kv.compare_and_set("a", None, "2")
    assert kv.compare_and_set("a", "1", "2", px=500)
    assert kv.pttl("a") == 500
    assert kv.compare_and_set("a", "2", "3")
    assert kv.ttl("a") == -1
    assert not kv.compare_and_delete("a", "2")
    assert kv.compare_and_delete("a", "3")
    assert not kv.exists("a")


# -- hashes, lists, sets


def test_hash_operations(kv: RedisKV) -> None:
    assert [kv.hset("h", "f", "1"), kv.hset("h", "f", "2")] == [1, 0]
    kv.hmset("h", {"g": "3", "ž": ""})
    assert kv.hget("h", "f") == "2"
    assert kv.hget("h", "nope") is None
    assert kv.hmget("h", ["g", "nope"]) == ["3", None]
    assert kv.hgetall("h") == {"f": "2", "g": "3", "ž": ""}
    assert kv.hincrby("h", "f", 5) == 7
    assert kv.hexists("h", "f")
    assert kv.hlen("h") == 3
    assert kv.hdel("h", "f", "g", "nope", "ž") == 3
    assert not kv.exists("h")


def test_list_operations(kv: RedisKV) -> None:
    assert kv.lpush("l", "b", "a") == 2
    assert kv.rpush("l", "c", "d") == 4
    assert kv.lrange("l", 0, -1) == ["a", "b", "c", "d"]
    assert kv.lrange("l", -3, 2) == ["b", "c"]
    assert kv.lrange("l", 5, 9) == []
    assert [kv.lindex("l", -1), kv.lindex("l", 9)] == ["d", None]
    assert kv.llen("l") == 4
    assert [kv.lpop("l"), kv.rpop("l")] == ["a", "d"]
    kv.ltrim("l", 0, 0)
    assert kv.lrem("l", 0, "b") == 1
    assert kv.lpop("l") is None
    assert not kv.exists("l")


def test_set_operations(kv: RedisKV) -> None:
    assert kv.sadd("s", "a", "b", "a") == 2
    assert kv.smembers("s") == {"a", "b"}
    assert kv.sismember("s", "a")
    assert kv.scard("s") == 2
    assert kv.srem("s", "a", "nope") == 1
    assert kv.srem("s", "b") == 1
    assert not kv.exists("s")


# -- sorted sets, streams


def test_sorted_set_operations(kv: RedisKV) -> None:
    assert kv.zadd("z", {"b": 2, "a": 2, "c": -1.5}) == 3
    assert kv.zrange("z", 0, -1) == ["c", "a", "b"]
    assert kv.zrange_withscores("z", 0, 0, rev=True) == [("b", 2.0)]
    assert kv.zadd("z", {"c": 9}, nx=True) == 0
    assert kv.zadd("z", {"c": -2}, gt=True, ch=True) == 0
    assert kv.zrangebyscore("z", "(-1.5", "+inf", count=1) == ["a"]
    assert kv.zscore("z", "c") == -1.5
    assert kv.zpopmin("z", 2) == [("c", -1.5), ("a", 2.0)]
    assert [kv.zcard("z"), kv.zrem("z", "b"), kv.exists("z")] == [1, 1, False]
    with pytest.raises(NotAFloat):
        kv.zadd("z", {"a": float("nan")})
    with pytest.raises(BadCommand):
        kv.zadd("z", {"a": 1}, nx=True, gt=True)


def test_stream_operations(kv: RedisKV, clock: Clock) -> None:
    first = kv.xadd("x", {"n": "1"})
    second = kv.xadd("x", {"n": "2"})
    assert [first, second] == ["1000000-0", "1000000-1"]
    clock.seconds = 5.0  # back: ids still rise
    third = kv.xadd("x", {"n": "3"}, maxlen=2)
    assert third == "1000000-2"
    assert kv.xrange("x") == [Entry(second, {"n": "2"}), Entry(third, {"n": "3"})]
    assert kv.xread({"x": second, "nope": "0"}) == {"x": [Entry(third, {"n": "3"})]}
    assert kv.xread({"x": "$"}) == {}
    assert [kv.xlen("x"), kv.xdel("x", third), kv.xtrim("x", 0), kv.xlen("x")] == [2, 1, 1, 0]
    with pytest.raises(BadCommand, match="smaller"):
        kv.xadd("x", {"n": "4"}, id=third)  # an empty stream keeps its last id


# -- errors


def test_another_type_is_refused_and_changes_nothing(kv: RedisKV) -> None:
    kv.set("a", "1")
    calls: list[Callable[[], object]] = [
        lambda: kv.hset("a", "f", "1"),
        lambda: kv.lpush("a", "1"),
        lambda: kv.sadd("a", "1"),
        lambda: kv.zadd("a", {"m": 1}),
        lambda: kv.xadd("a", {"f": "1"}),
    ]
    for call in calls:
        with pytest.raises(WrongType, match="'a'"):
            call()
    kv.lpush("l", "1")
    with pytest.raises(WrongType):
        kv.get("l")
    assert kv.get("a") == "1"


@pytest.mark.parametrize("word", [5, None, b"x", 1.5])
def test_only_text_is_taken(kv: RedisKV, word: str) -> None:
    with pytest.raises(NotText):
        kv.set("a", word)
    with pytest.raises(NotText, match="UTF-8"):
        kv.set("a", "\udcff")
    assert kv.get("a") is None


def test_bad_commands_are_refused(kv: RedisKV) -> None:
    calls: list[Callable[[], object]] = [
        lambda: kv.delete(),
        lambda: kv.set("a", "1", 0),
        lambda: kv.set("a", "1", ex=1, px=1),
        lambda: kv.set("a", "1", nx=True, xx=True),
        lambda: kv.scan(-1),
        lambda: kv.scan(0, count=0),
        lambda: kv.expire("a", 2**62),
        lambda: kv.zpopmin("z", -1),
        lambda: kv.execute(Op(("NOPE",), lambda reply: reply)),
        lambda: kv.execute(Op(("EVAL", "return 1", "0"), lambda reply: reply)),
    ]
    for call in calls:
        with pytest.raises(BadCommand):
            call()


# -- time


def test_ttl_expiry(kv: RedisKV, clock: Clock) -> None:
    kv.set("a", "1", ex=10)
    assert [kv.ttl("a"), kv.pttl("a")] == [10, 10_000]
    clock.seconds += 9.6
    assert [kv.ttl("a"), kv.pttl("a"), kv.get("a")] == [0, 400, "1"]
    clock.seconds += 0.4
    assert kv.get("a") == "1"  # the last millisecond still counts, as in Redis
    clock.seconds += 0.001
    assert kv.get("a") is None
    assert [kv.ttl("a"), kv.exists("a"), kv.scan()] == [-2, False, (0, [])]


def test_a_new_value_lives_for_ever_unless_told_otherwise(kv: RedisKV, clock: Clock) -> None:
    kv.set("a", "1", px=100)
    kv.set("a", "2", keepttl=True)
    assert kv.incr("a") == 3
    assert kv.pttl("a") == 100
    kv.set("a", "4")
    assert kv.ttl("a") == -1
    assert kv.expire("a", 5)
    assert kv.persist("a")
    assert not kv.persist("a")
    assert kv.pexpire("a", 0)
    assert not kv.exists("a")
    assert not kv.expire("a", 5)


def test_every_type_expires(kv: RedisKV, clock: Clock) -> None:
    kv.hset("h", "f", "1")
    kv.lpush("l", "1")
    kv.sadd("s", "1")
    kv.zadd("z", {"m": 1})
    kv.xadd("x", {"f": "1"})
    for key in "hlszx":
        assert kv.pexpire(key, 50)
    clock.seconds += 0.051
    assert [kv.hgetall("h"), kv.lrange("l", 0, -1), kv.smembers("s")] == [{}, [], set()]
    assert [kv.zcard("z"), kv.xlen("x"), kv.lpush("l", "new")] == [0, 0, 1]


def test_expired_keys_do_not_pile_up(clock: Clock) -> None:
    twin = MemoryKV(clock)
    kv = RedisKV(backend=twin)
    for number in range(5_000):
        kv.set(f"k{number}", "x", px=10)
        clock.seconds += 0.001
    assert len(twin._db.values) < 100
    for _ in range(5_000):
        kv.set("same", "x", px=1_000_000)
    assert len(twin._db._due) < 500


# -- scanning


def scanned(kv: RedisKV, match: str | None = None, count: int = 10) -> list[str]:
    found, cursor = [], 0
    while True:
        cursor, page = kv.scan(cursor, match, count)
        found += page
        if cursor == 0:
            return found


def test_scan_with_pattern_matching(kv: RedisKV) -> None:
    names = [f"order:{number}" for number in range(25)] + ["other", "order*", "or\\der"]
    for name in names:
        kv.set(name, "x")
    assert sorted(scanned(kv)) == sorted(names)
    assert sorted(scanned(kv, "order:1?", 3)) == [f"order:1{n}" for n in range(10)]
    assert sorted(scanned(kv, "order:[^0-8]")) == ["order:9"]
    assert scanned(kv, "order\\*") == ["order*"]
    assert scanned(kv, "nothing*") == []


@settings(max_examples=100)
@given(st.data())
def test_a_scan_finds_what_was_there_all_the_time_and_ends(data: st.DataObject) -> None:
    kv = RedisKV()
    stays = {f"stay{number}" for number in range(data.draw(st.integers(0, 30)))}
    for name in stays:
        kv.set(name, "x")
    found: list[str] = []
    cursor, born = 0, 0
    while True:
        cursor, page = kv.scan(cursor, count=data.draw(st.integers(1, 5)))
        found += page
        if cursor == 0:
            break
        for _ in range(data.draw(st.integers(0, 10))):  # more than a page: it must end all the same
            born += 1
            kv.set(f"new{born}", "x")
        for number in data.draw(st.lists(st.integers(1, 1 + born), max_size=8)):
            kv.delete(f"new{number}")
        assert born < 400
    assert stays <= set(found)
    assert len(found) == len(set(found))


def test_a_cursor_outlives_a_clean_up_of_the_index() -> None:
    kv = RedisKV()
    for number in range(300):
        kv.set(f"k{number:03}", "x")
    cursor, first = kv.scan(0, count=100)
    for name in first:
        kv.delete(name)
    for number in range(60):
        kv.delete(f"k{number:03}")
    kv.scan(0)
    found = set(first)
    while cursor:
        cursor, page = kv.scan(cursor, count=7)
        found |= set(page)
    assert found == {f"k{number:03}" for number in range(60, 300)}


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("h?llo", "hello", True),
        ("?", "é", False),  # two bytes
        ("h[a-e]llo", "hello", True),
        ("h[e-a]llo", "hello", True),
        ("h[^e]llo", "hello", False),
        ("a\\*", "a*", True),
        ("a\\*", "ab", False),
        ("[\\]]", "]", True),
        ("[a", "a", True),
        ("a*b*c", "axxbyyc", True),
        ("a*b*c", "axxbyy", False),
        ("*" * 40 + "b", "a" * 200, False),
        ("**", "", False),
        ("", "", True),
    ],
)
def test_patterns_are_those_of_redis(pattern: str, name: str, is_match: bool) -> None:
    assert matches(pattern, name) is is_match


# -- transactions and threads


def test_a_transaction_is_one_step(kv: RedisKV) -> None:
    with kv.transaction() as tx:
        sold = tx.incr("sold")
        stock = tx.hgetall("stock")
        with pytest.raises(InvalidInput):
            _ = sold.value
    assert [sold.value, stock.value] == [1, {}]


def transact(
    kv: RedisKV, do: Callable[[Transaction], object], watch: Sequence[str] = ()
) -> Transaction:
    with kv.transaction(watch) as tx:
        do(tx)
    return tx


def test_a_watched_key_that_changed_stops_the_transaction(kv: RedisKV, clock: Clock) -> None:
    kv.set("stock", "1", px=100)
    answers: list[Answer[bool]] = []

    def take_one(tx: Transaction) -> None:
        left = int(kv.get("stock") or "0")
        kv.set("stock", "0", keepttl=True)  # somebody else
        answers.append(tx.set("stock", str(left - 1)))

    with pytest.raises(WatchFailed, match="stock"):
        transact(kv, take_one, ["stock"])
    assert kv.get("stock") == "0"
    with pytest.raises(InvalidInput):
        _ = answers[0].value


def test_an_expiry_is_a_change_too(kv: RedisKV, clock: Clock) -> None:
    def wait(tx: Transaction) -> None:
        clock.seconds += 1
        tx.set("a", "1")

    kv.set("stock", "1", px=100)
    with pytest.raises(WatchFailed):
        transact(kv, wait, ["stock"])
    assert not kv.exists("a")


def test_what_had_expired_before_the_block_is_no_change(kv: RedisKV, clock: Clock) -> None:
    kv.set("stock", "1", px=100)
    clock.seconds += 1
    transact(kv, lambda tx: tx.set("a", "1"), ["stock"])
    assert kv.exists("a")


def test_an_error_in_the_block_writes_nothing(kv: RedisKV) -> None:
    def fail(tx: Transaction) -> None:
        tx.set("a", "1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transact(kv, fail, ["a"])
    assert not kv.exists("a")


def test_a_malformed_command_stops_the_transaction(kv: RedisKV) -> None:
    with pytest.raises(BadCommand):
        transact(kv, lambda tx: (tx.set("a", "1"), tx.delete()))
    assert not kv.exists("a")


def test_a_command_that_fails_does_not_undo_the_others(kv: RedisKV) -> None:
    answers: list[Answer[int]] = []

    def fail(tx: Transaction) -> None:
        tx.set("a", "1")
        answers.extend((tx.lpush("a", "1"), tx.incr("a")))

    with pytest.raises(WrongType):
        transact(kv, fail)
    assert answers[1].value == 2
    with pytest.raises(WrongType):
        _ = answers[0].value


def test_threads_lose_no_write() -> None:
    kv = RedisKV()

    def work() -> None:
        for _ in range(300):
            kv.incr("plain")
            while True:
                try:
                    with kv.transaction(watch=["watched"]) as tx:
                        tx.set("watched", str(int(kv.get("watched") or "0") + 1))
                except WatchFailed:
                    continue
                break

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kv.mget(["plain", "watched"]) == ["1200", "1200"]


async def overtaken(kv: AsyncRedisKV) -> None:
    async with kv.transaction(watch=["a"]) as tx:
        await kv.set("a", "9")
        tx.set("b", "1")


async def test_the_awaited_front_does_the_same(clock: Clock) -> None:
    async with AsyncRedisKV(clock) as kv:
        assert await kv.set("a", "1", px=100)
        async with kv.transaction(watch=["a"]) as tx:
            answer = tx.incr("a")
        assert answer.value == 2
        with pytest.raises(WatchFailed):
            await overtaken(kv)
        with pytest.raises(WrongType):
            await kv.lpush("a", "1")
        assert await kv.scan() == (0, ["a"])


# -- JSON


def test_json_serialization_determinism() -> None:
    one = {"b": [1, 2.5, None, True], "a": {"ž": "é", "y": ""}}
    other = {"a": {"y": "", "ž": "é"}, "b": [1, 2.5, None, True]}
    assert dumps(one) == dumps(other) == '{"a":{"y":"","ž":"é"},"b":[1,2.5,null,true]}'
    assert dumps_line(one) == dumps(one) + "\n"
    assert loads(dumps_line(one)) == one
    for bad in (float("nan"), {"a": float("inf")}, {1, object()}, object()):
        with pytest.raises(UnserialisablePayload):
            dumps(bad)
    with pytest.raises(UnserialisablePayload):
        loads("{")


def test_json_is_the_same_in_every_process() -> None:
    program = (
        "from holdfast.primitives.kv import dumps_line;"
        "print(dumps_line({k: {'z': 1, 'a': k} for k in {'x', 'y', 'z', 'ž'}}), end='')"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1
