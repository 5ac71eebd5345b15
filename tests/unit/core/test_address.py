"""Which backend an address names, and that no part of a password is shown, however it is written."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from holdfast import TaskQueue
from holdfast.clock import SystemClock
from holdfast.core.address import (
    HIDDEN,
    Scheme,
    check_url,
    is_redis,
    memory_name,
    scheme_of,
    shown_url,
)
from holdfast.errors import BadConfig, HoldfastError
from holdfast.primitives.kv import RedisKV
from holdfast.primitives.locks import Locks, Redlock
from holdfast.store.backends import store_for

SCHEMES = ("postgresql", "postgres", "redis", "rediss", "postgresql+asyncpg", "mysql", "sqlite")
PASSWORDS = st.text(
    alphabet=string.ascii_letters + string.digits + "/#@?:&=%!$ ", min_size=1, max_size=12
).map(lambda text: f"S3{text}Q9")


URL_PASSWORDS = PASSWORDS.filter(lambda text: " " not in text or "=" not in text)
WORDS = ("password", "PASSWORD", "sslpassword", "passfile", "sslkey")


@given(st.sampled_from(SCHEMES), URL_PASSWORDS, st.booleans())
def test_no_part_of_a_password_is_shown(scheme: str, password: str, has_user: bool) -> None:
    user = "joe" if has_user else ""
    shown = shown_url(f"{scheme}://{user}:{password}@db.example:5432/app")
    assert shown == f"{scheme}://{user}:{HIDDEN}@db.example:5432/app"


@given(PASSWORDS.filter(lambda text: "&" not in text), st.sampled_from(["password", "sslpassword"]))
def test_no_password_among_the_options_is_shown(password: str, name: str) -> None:
    shown = shown_url(f"postgresql://db.example/app?user=joe&{name}={password}&sslmode=require")
    assert shown == f"postgresql://db.example/app?user=joe&{name}={HIDDEN}&sslmode=require"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"


def escaped(text: str) -> str:
    return re.sub(r"([\\'\s])", r"\\\1", text)


@given(
    st.text(alphabet=string.ascii_letters + "/#@?:&=%'\\ \t,", max_size=12),
    st.sampled_from([quoted, escaped]),
    st.sampled_from(WORDS),
    st.sampled_from(["=", " = "]),
)
def test_no_password_in_a_connection_string_is_shown(
    password: str, write: Callable[[str], str], word: str, equals: str
) -> None:
    """libpq also takes `host=x password=y`, quoted or with backslashes. It is not a URL."""
    shown = shown_url(f"host=db {word}{equals}{write(f'S3{password}Q9')} user=joe")
    assert shown == f"host=db {word}{equals}{HIDDEN} user=joe"


@given(
    st.text(alphabet="ab'\\ =@:/?&#", max_size=12), st.sampled_from(["", "postgresql://db/app "])
)
def test_no_password_with_wrong_quotes_is_shown(password: str, before: str) -> None:
    for start in ("'S3", "S3"):
        shown = shown_url(f"{before}password={start}{password}Q9")
        assert "S3" not in shown
        assert "Q9" not in shown


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
def test_parts_that_are_not_secret_stay(url: str, shown: str) -> None:
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
def test_a_valid_address_passes(url: str) -> None:
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


@pytest.mark.parametrize("port", ["99999", "0", "65536", "²", pytest.param("9" * 5_000, id="long")])
@pytest.mark.parametrize("host", ["db.example", "[::1]", "a:1,b"])
@pytest.mark.parametrize("name", OPENS)
def test_an_impossible_port_is_refused(name: str, host: str, port: str) -> None:
    with pytest.raises(BadConfig):
        OPENS[name](f"joe:s3@{host}:{port}/x")


@pytest.mark.parametrize("open_it", [store_for, RedisKV.connect, Redlock.connect, Locks.connect])
def test_a_connection_string_is_refused_without_its_secret(open_it: Callable[..., object]) -> None:
    more = (SystemClock(),) if open_it is store_for else ()
    with pytest.raises(BadConfig) as error:
        open_it("host=db.example user=joe password='s3 cret'", *more)
    assert "s3" not in str(error.value)
    assert "cret" not in str(error.value)


async def test_an_impossible_port_among_the_options_is_refused() -> None:
    from holdfast.store.postgres import connection as postgres

    with pytest.raises(BadConfig):
        await postgres.connect("postgresql:///app?host=127.0.0.1&port=99999")


@pytest.mark.parametrize("password", ["s3/cret", "s3#cret", "s3?cret", "s3/12"])
@pytest.mark.parametrize("name", OPENS)
def test_an_invalid_address_is_refused_without_its_secret(name: str, password: str) -> None:
    with pytest.raises(BadConfig) as raised:
        OPENS[name](f"joe:{password}@db.example/x")
    error: BaseException | None = raised.value
    while error is not None:
        assert "s3" not in str(error)
        assert "cret" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def test_a_drivers_error_about_an_address_is_not_quoted() -> None:
    from holdfast.store.postgres import connection as postgres

    with pytest.raises(HoldfastError) as error:
        await postgres.connect("postgresql://joe:s3/cret@db.example/x")
    assert "s3" not in str(error.value)
    assert "cret" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("sqlite://", Scheme.SQLITE),
        ("sqlite:///file.db", Scheme.SQLITE),
        ("sqlite:file.db", Scheme.SQLITE),
        ("postgresql://host/app", Scheme.POSTGRES),
        ("postgres://host/app", Scheme.POSTGRES),
        ("redis://host", Scheme.REDIS),
        ("rediss://host", Scheme.REDIS),
        ("unix:///run/redis.sock", Scheme.REDIS_SOCKET),
        ("memory://jobs", Scheme.MEMORY),
        ("postgresql:host", None),
        ("postgresql+asyncpg://host/app", None),
        ("mysql://host", None),
        ("file.db", None),
        ("", None),
    ],
)
def test_the_scheme_names_the_backend(url: str, scheme: Scheme | None) -> None:
    assert scheme_of(url) is scheme
    assert is_redis(url) is (scheme in (Scheme.REDIS, Scheme.REDIS_SOCKET))


def test_only_an_address_in_memory_has_a_memory_name() -> None:
    assert memory_name("memory://") == ""
    assert memory_name("memory://jobs") == "jobs"
    assert memory_name("sqlite://") is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a:1,http://b:2", "http://a:1,http://b:2"),
        ("grpcs://a:1, grpcs://b:2?ca=x.pem", "grpcs://a:1,grpcs://b:2?ca=x.pem"),
        ("http://a:1,http://b:secret", "http://a:1,http://b:***"),
        ("http://joe:pw,http://x@b:2", "http://joe:***@b:2"),
    ],
)
def test_each_gateway_of_a_list_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
