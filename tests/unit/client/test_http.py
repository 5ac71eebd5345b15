"""Requests that repeat, fail over and take effect once."""

from __future__ import annotations

import ssl

import httpx2
import pytest

from holdfast.client.http import TRIES
from holdfast.client.problems import classes, problem
from holdfast.core.errors import AlreadyLocked, Forbidden, GatewayUnavailable, RateLimited
from holdfast.errors import (
    BadConfig,
    Conflict,
    FeedReset,
    HoldfastError,
    InProgress,
    InvalidInput,
    StoreUnavailable,
    VersionConflict,
)
from tests.error_tree import in_order
from tests.unit.client.client_support import QuickClock, http_of


def pauses(http: object) -> list[float]:
    clock = http.clock  # type: ignore[attr-defined]
    assert isinstance(clock, QuickClock)
    return clock.pauses


async def test_a_lost_answer_is_asked_for_again_with_the_same_key_at_the_next_gateway() -> None:
    calls: list[tuple[str, str, str]] = []

    def gateway(request: httpx2.Request) -> httpx2.Response:
        calls.append(
            (request.url.host, request.headers["idempotency-key"], request.headers["authorization"])
        )
        if len(calls) < 3:
            raise httpx2.ReadError("gone")
        return httpx2.Response(201, json={"id": "t"}, headers={"holdfast-position": "e1:4"})

    http = http_of(gateway, "http://one", "http://two/")
    answer = await http.call("POST", "/api/v1/tasks", {"type": "a"})
    assert (answer.body, answer.position) == ({"id": "t"}, "e1:4")
    assert [host for host, _, _ in calls] == ["one", "two", "one"]
    assert len({key for _, key, _ in calls}) == 1
    assert {token for _, _, token in calls} == {"Bearer secret"}
    assert http.url == "http://one"


async def test_two_calls_have_two_keys_and_reads_have_none() -> None:
    keys: list[str | None] = []

    def gateway(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers.get("idempotency-key"))
        return httpx2.Response(200, json={})

    http = http_of(gateway)
    await http.call("POST", "/a")
    await http.call("POST", "/a")
    await http.call("GET", "/a")
    await http.call("DELETE", "/a", idempotency_key="mine")
    assert keys[0] != keys[1]
    assert keys[2:] == [None, "mine"]


async def test_a_refusal_is_raised_at_once() -> None:
    calls: list[str] = []

    def gateway(request: httpx2.Request) -> httpx2.Response:
        calls.append(request.url.path)
        body = {"code": "version-conflict", "detail": "task t is at 7", "current": {"version": 7}}
        return httpx2.Response(409, json=body)

    with pytest.raises(VersionConflict, match="is at 7") as raised:
        await http_of(gateway).call("PATCH", "/api/v1/tasks/t", {})
    assert raised.value.__dict__["problem"]["current"] == {"version": 7}
    assert len(calls) == 1


async def test_what_may_succeed_later_is_tried_again() -> None:
    answers = [
        httpx2.Response(429, json={"code": "rate-limited", "retryable": True}, headers={"retry-after": "7"}),
        httpx2.Response(409, json={"code": "in-progress", "retryable": True}, headers={"retry-after": "1"}),
        httpx2.Response(502, text="<html>bad gateway</html>"),
        httpx2.Response(200, json=[1]),
    ]  # fmt: skip
    http = http_of(lambda request: answers.pop(0))
    assert (await http.call("POST", "/a")).body == [1]
    assert pauses(http)[:2] == [7.0, 1.0]


async def test_the_last_refusal_is_raised() -> None:
    http = http_of(lambda request: httpx2.Response(503, json={"code": "store-unavailable"}))
    with pytest.raises(StoreUnavailable):
        await http.call("GET", "/a")
    assert len(pauses(http)) == TRIES - 1


async def test_no_gateway_answers() -> None:
    def gateway(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(GatewayUnavailable, match="http://one, http://two") as raised:
        await http_of(gateway, "http://one", "http://two").call("GET", "/a")
    assert "secret" not in str(raised.value)


async def test_a_redirect_is_not_followed() -> None:
    hosts: list[str] = []

    def gateway(request: httpx2.Request) -> httpx2.Response:
        hosts.append(request.url.host)
        return httpx2.Response(307, headers={"location": "http://elsewhere/"})

    with pytest.raises(HoldfastError):
        await http_of(gateway).call("GET", "/a")
    assert set(hosts) == {"one"}


def test_a_concurrent_failure_leaves_a_gateway_once() -> None:
    http = http_of(lambda request: httpx2.Response(200), "http://one", "http://two", "http://three")
    http.next_gateway("http://one")
    http.next_gateway("http://one")
    assert http.url == "http://two"


def test_every_code_gives_its_class() -> None:
    for error in in_order():
        made = problem(error.http_status, {"code": error.code, "detail": "why"})
        assert made.code == error.code
        assert isinstance(made, classes()[error.code])
        assert str(made) == "why"
        assert repr(made)


def test_fields_of_a_problem_are_attributes() -> None:
    locked = problem(409, {"code": "already-locked", "lockedBy": "b", "lockedForMs": 5})
    assert isinstance(locked, AlreadyLocked)
    assert locked.details["lockedBy"] == "b"
    reset = problem(410, {"code": "feed-reset", "reset": {"reason": "pruned", "head": "e:3"}})
    assert isinstance(reset, FeedReset)
    assert (reset.reason, reset.oldest, reset.head) == ("pruned", "", "e:3")
    busy = problem(409, {"code": "in-progress", "owner": "n1"})
    assert isinstance(busy, InProgress)
    assert (busy.owner, busy.lease_until) == ("n1", None)
    limited = problem(429, "slow down", retry_after_seconds=3.0)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after_seconds == 3.0


@pytest.mark.parametrize(
    ("status", "body", "error", "code"),
    [
        (403, {"code": "not-known-yet"}, Forbidden, "not-known-yet"),
        (409, {"code": "brand-new"}, Conflict, "brand-new"),
        (418, {"code": 7}, InvalidInput, "invalid-input"),
        (500, "boom", HoldfastError, "internal"),
        (422, None, InvalidInput, "invalid-input"),
        (409, ["x"], Conflict, "conflict"),
    ],
)
def test_an_unknown_code_keeps_its_name(
    status: int, body: object, error: type[HoldfastError], code: str
) -> None:
    made = problem(status, body)
    assert type(made) is error
    assert made.code == code


def untrusted_error() -> httpx2.ConnectError:
    error = httpx2.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate has expired")
    error.__cause__.verify_message = "certificate has expired"
    return error


async def test_a_gateway_that_is_not_trusted_is_left_for_the_next_one() -> None:
    def gateway(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "one":
            raise untrusted_error()
        return httpx2.Response(200, json={})

    http = http_of(gateway, "https://one", "https://two")
    await http.call("GET", "/a")
    assert http.url == "https://two"


async def test_no_try_is_repeated_when_no_gateway_is_trusted() -> None:
    hosts: list[str] = []

    def gateway(request: httpx2.Request) -> httpx2.Response:
        hosts.append(request.url.host)
        raise untrusted_error()

    with pytest.raises(BadConfig, match=r"gateway https://two is not trusted: certificate has exp"):
        await http_of(gateway, "https://one", "https://two").call("GET", "/a")
    assert hosts == ["one", "two"]
