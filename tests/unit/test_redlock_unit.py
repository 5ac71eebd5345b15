"""Redlock in memory: acquire, release, refresh, tokens, expiry, races, drift."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from holdfast.core import quorum
from holdfast.core.ids import Ids
from holdfast.errors import BadConfig, InvalidInput
from holdfast.primitives.locks import Redlock
from holdfast.primitives.locks.nodes import SWEEP_MIN, MemoryNode


class FakeClock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def redlock(clock: FakeClock) -> Redlock:
    return Redlock(clock=clock, ids=Ids(random.Random(7)))


def acquired(redlock: Redlock, resource: str = "r", ttl_ms: int = 1000) -> str:
    token = redlock.acquire(resource, ttl_ms)
    assert token is not None
    return token


# -- acquire, release, refresh -------------------------------------------------------------------------


def test_acquire_returns_a_token_and_none_while_held(redlock: Redlock) -> None:
    acquired(redlock)
    assert redlock.acquire("r", 1000) is None
    assert redlock.acquire("another", 1000) is not None


def test_a_released_lock_can_be_acquired_again_under_a_new_token(redlock: Redlock) -> None:
    token = acquired(redlock)
    assert redlock.release("r", token)
    assert not redlock.release("r", token)
    assert acquired(redlock) != token


def test_a_refresh_extends_the_lock(redlock: Redlock, clock: FakeClock) -> None:
    token = acquired(redlock)
    clock.time += 0.9
    assert redlock.refresh("r", token, 1000)
    clock.time += 0.9
    assert redlock.acquire("r", 1000) is None


# -- tokens --------------------------------------------------------------------------------------------


def test_only_the_token_releases_and_refreshes(redlock: Redlock) -> None:
    token = acquired(redlock)
    assert not redlock.release("r", "guess")
    assert not redlock.refresh("r", "guess", 1000)
    assert not redlock.release("another", token)
    assert redlock.release("r", token)


def test_the_token_of_an_earlier_holder_is_refused(redlock: Redlock, clock: FakeClock) -> None:
    """A leaked or outdated token neither releases nor extends the lock of the next holder."""
    old = acquired(redlock)
    clock.time += 1.0
    new = acquired(redlock)
    assert not redlock.release("r", old)
    assert not redlock.refresh("r", old, 60_000)
    assert redlock.release("r", new)


def test_a_repeated_token_gets_the_same_lock(redlock: Redlock) -> None:
    assert redlock.acquire("r", 1000, token="mine") == "mine"
    assert redlock.acquire("r", 1000, token="mine") == "mine"
    assert redlock.acquire("r", 1000, token="yours") is None


def test_tokens_are_unique_across_instances() -> None:
    first, second = Redlock(), Redlock()
    tokens = {acquired(locks, str(n)) for locks in (first, second) for n in range(50)}
    assert len(tokens) == 100
    assert all(len(token) == 32 for token in tokens)


# -- expiry --------------------------------------------------------------------------------------------


def test_a_lock_expires_after_its_ttl(redlock: Redlock, clock: FakeClock) -> None:
    acquired(redlock)
    clock.time += 0.999
    assert redlock.acquire("r", 1000) is None
    clock.time += 0.001
    assert redlock.acquire("r", 1000) is not None


def test_a_refresh_of_an_expired_lock_is_refused(redlock: Redlock, clock: FakeClock) -> None:
    token = acquired(redlock)
    clock.time += 1.0
    assert not redlock.refresh("r", token, 1000)
    assert not redlock.release("r", token)
    assert redlock.acquire("r", 1000) is not None


def test_expired_locks_are_removed_from_memory(clock: FakeClock) -> None:
    locks = Redlock(clock=clock)
    node = locks._nodes[0]
    assert isinstance(node, MemoryNode)
    for number in range(3 * SWEEP_MIN):
        locks.acquire(str(number), 1000)
        clock.time += 0.01
    assert len(node._locks) <= SWEEP_MIN


# -- races ---------------------------------------------------------------------------------------------


def test_one_of_many_threads_acquires() -> None:
    locks = Redlock()
    threads = 16
    barrier = threading.Barrier(threads)

    def race(_: int) -> int:
        won = 0
        for number in range(50):
            barrier.wait()
            won += locks.acquire(f"r{number}", 60_000) is not None
        return won

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(race, range(threads))) == 50


def test_increments_under_the_lock_are_not_lost() -> None:
    locks = Redlock()
    counter = {"n": 0}

    def add(_: int) -> None:
        for _ in range(50):
            while (token := locks.acquire("counter", 60_000)) is None:
                pass
            count = counter["n"]
            threading.Event().wait(0)  # yields to another thread
            counter["n"] = count + 1
            assert locks.release("counter", token)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert counter["n"] == 400


# -- drift ---------------------------------------------------------------------------------------------


def test_a_clock_set_back_only_lengthens_a_redlock(redlock: Redlock, clock: FakeClock) -> None:
    token = acquired(redlock)
    clock.time -= 100
    assert redlock.acquire("r", 1000) is None
    assert redlock.refresh("r", token, 1000)
    clock.time += 0.9
    assert redlock.acquire("r", 1000) is None


def test_a_clock_set_forward_expires_the_lock_and_its_refresh_is_refused(
    redlock: Redlock, clock: FakeClock
) -> None:
    token = acquired(redlock)
    clock.time += 3600
    assert not redlock.refresh("r", token, 1000)


def test_validity_is_the_ttl_minus_elapsed_time_and_drift() -> None:
    assert quorum.drift_ms(10_000) == 102
    assert quorum.validity_ms(10_000, 0.5, quorum.drift_ms(10_000)) == 10_000 - 500 - 102
    assert quorum.validity_ms(100, 0.099, quorum.drift_ms(100)) < 0


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=9))
def test_two_holders_never_have_a_majority_each(answers: list[bool | None]) -> None:
    mine = quorum.agreed(answers)
    theirs = quorum.agreed([None if a is None else not a for a in answers])
    assert not (mine and theirs)
    yes = sum(a is True for a in answers)
    assert (mine is True) == (yes * 2 > len(answers))


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl_ms", [0, -1, 1.5, True, 10**12, "10"])
def test_a_bad_ttl_is_refused(redlock: Redlock, ttl_ms: int) -> None:
    with pytest.raises(InvalidInput):
        redlock.acquire("r", ttl_ms)


@pytest.mark.parametrize("urls", [[], "http://x", ["redis://a", "redis://a"]])
def test_bad_addresses_are_refused(urls: str | list[str]) -> None:
    with pytest.raises(BadConfig):
        Redlock.connect(urls)
