"""The key-value store in memory: long scans, transactions, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.errors import InvalidInput
from holdfast.primitives.kv import (
    Answer,
    AsyncRedisKV,
    RedisKV,
    Transaction,
)
from holdfast.primitives.kv._memory.glob import matches
from holdfast.primitives.kv.errors import BadCommand, WatchFailed, WrongType
from tests.unit.kv_support import Clock, clock, kv

__all__ = ["clock", "kv"]  # fixtures


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
        kv.set("stock", "0", keepttl=True)  # another client
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
