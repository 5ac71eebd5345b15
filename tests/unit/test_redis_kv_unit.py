"""The key-value store in memory: every operation, expiry, scanning, canonical JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import UnserialisablePayload
from holdfast.primitives.kv import (
    Entry,
    MemoryKV,
    RedisKV,
    dumps,
    dumps_line,
    loads,
)
from holdfast.primitives.kv.errors import BadCommand, NotAFloat, NotAnInteger, Overflow
from tests.unit.kv_support import Clock, clock, kv, scanned

__all__ = ["clock", "kv"]  # fixtures


ROOT = Path(__file__).resolve().parent.parent.parent


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
    clock.seconds = 5.0  # the clock goes back: ids still rise
    third = kv.xadd("x", {"n": "3"}, maxlen=2)
    assert third == "1000000-2"
    assert kv.xrange("x") == [Entry(second, {"n": "2"}), Entry(third, {"n": "3"})]
    assert kv.xread({"x": second, "nope": "0"}) == {"x": [Entry(third, {"n": "3"})]}
    assert kv.xread({"x": "$"}) == {}
    assert [kv.xlen("x"), kv.xdel("x", third), kv.xtrim("x", 0), kv.xlen("x")] == [2, 1, 1, 0]
    with pytest.raises(BadCommand, match="smaller"):
        kv.xadd("x", {"n": "4"}, id=third)  # an empty stream keeps its last id


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


def test_a_new_value_has_no_expiry_by_default(kv: RedisKV, clock: Clock) -> None:
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


def test_scan_with_pattern_matching(kv: RedisKV) -> None:
    names = [f"order:{number}" for number in range(25)] + ["other", "order*", "or\\der"]
    for name in names:
        kv.set(name, "x")
    assert sorted(scanned(kv)) == sorted(names)
    assert sorted(scanned(kv, "order:1?", 3)) == [f"order:1{n}" for n in range(10)]
    assert sorted(scanned(kv, "order:[^0-8]")) == ["order:9"]
    assert scanned(kv, "order\\*") == ["order*"]
    assert scanned(kv, "nothing*") == []


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
