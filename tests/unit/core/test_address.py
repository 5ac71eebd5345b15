"""No part of a password gets out, however an address is written."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from holdfast import TaskQueue
from holdfast.clock import SystemClock
from holdfast.core.address import HIDDEN, check_url, shown_url
from holdfast.errors import BadConfig, HoldfastError
from holdfast.primitives.kv import RedisKV
from holdfast.primitives.locks import Locks, Redlock
from holdfast.store.backends import store_for

SCHEMES = ("postgresql", "postgres", "redis", "rediss", "postgresql+asyncpg", "mysql", "sqlite")
PASSWORDS = st.text(
    alphabet=string.ascii_letters + string.digits + "/#@?:&=%!$ ", min_size=1, max_size=12
).map(lambda text: f"S3{text}Q9")


@given(st.sampled_from(SCHEMES), PASSWORDS, st.booleans())
def test_no_part_of_a_password_is_shown(scheme: str, password: str, has_user: bool) -> None:
    user = "joe" if has_user else ""
    shown = shown_url(f"{scheme}://{user}:{password}@db.example:5432/app")
    assert shown == f"{scheme}://{user}:{HIDDEN}@db.example:5432/app"


@given(PASSWORDS.filter(lambda text: "&" not in text), st.sampled_from(["password", "sslpassword"]))
def test_nor_one_among_the_options(password: str, name: str) -> None:
    shown = shown_url(f"postgresql://db.example/app?user=joe&{name}={password}&sslmode=require")
    assert shown == f"postgresql://db.example/app?user=joe&{name}={HIDDEN}&sslmode=require"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/app", "postgresql://db/app"),
        ("postgresql://db:5432/app", "postgresql://db:5432/app"),
        ("postgresql://a:1,b:2/app", "postgresql://a:1,b:2/app"),
        ("postgresql://joe@db/app", "postgresql://joe@db/app"),
        ("postgresql:///app?host=/tmp", "postgresql:///app?host=/tmp"),
        ("postgresql://joe:s3cret", f"postgresql://joe:{HIDDEN}"),
        ("postgresql://s3/cret@db/app", f"postgresql://{HIDDEN}@db/app"),
        ("sqlite:///queue.db", "sqlite:///queue.db"),
        ("sqlite://", "sqlite://"),
        ("joe:s3cret@db", f"joe:{HIDDEN}@db"),
        ("", ""),
    ],
)
def test_what_is_no_secret_stays(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://joe:s3%2Fcret@db:5432/app?sslmode=require",
        "postgresql://joe:s3@cret@db/app",
        "postgresql://a:1,b:2/app",
        "postgresql://[::1]:5432/app",
        "postgresql:///app?host=/tmp&user=joe@example.org",
        "redis://:s3cret@h:6379/0",
        "unix:///run/redis.sock",
    ],
)
def test_a_sound_address_passes(url: str) -> None:
    check_url(url)


OPENS: dict[str, Callable[[str], object]] = {
    "store": lambda rest: store_for(f"postgresql://{rest}", SystemClock()),
    "other store": lambda rest: store_for(f"postgresql+asyncpg://{rest}", SystemClock()),
    "sqlite": lambda rest: store_for(f"sqlite://{rest}", SystemClock()),
    "queue": lambda rest: TaskQueue(f"postgresql://{rest}"),
    "locks": lambda rest: Locks.connect(f"postgresql://{rest}"),
    "redlock": lambda rest: Redlock.connect(f"redis://{rest}"),
    "other redlock": lambda rest: Redlock.connect(f"http://{rest}"),
    "kv": lambda rest: RedisKV.connect(f"redis://{rest}"),
}


@pytest.mark.parametrize("password", ["s3/cret", "s3#cret", "s3?cret", "s3/12"])
@pytest.mark.parametrize("name", OPENS)
def test_an_address_that_cannot_be_read_is_refused_without_its_secret(
    name: str, password: str
) -> None:
    with pytest.raises(BadConfig) as told:
        OPENS[name](f"joe:{password}@db.example/x")
    error: BaseException | None = told.value
    while error is not None:
        assert "s3" not in str(error)
        assert "cret" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def test_a_driver_that_cannot_read_an_address_is_not_quoted() -> None:
    from holdfast.store.postgres import connection as postgres

    with pytest.raises(HoldfastError) as told:
        await postgres.connect("postgresql://joe:s3/cret@db.example/x")
    assert "s3" not in str(told.value)
    assert "cret" not in str(told.value)
    assert told.value.__cause__ is None
