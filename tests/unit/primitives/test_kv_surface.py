"""The key-value store in memory: what it offers, what it needs, what it refuses."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable

import pytest

from holdfast.errors import BadConfig, MissingExtra
from holdfast.primitives.kv import (
    AsyncRedisKV,
    Op,
    RedisKV,
)
from holdfast.primitives.kv.errors import BadCommand, NotText, WrongType
from scripts.kv_fronts import written
from tests.unit.kv_support import clock, kv

__all__ = ["clock", "kv"]  # fixtures


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
