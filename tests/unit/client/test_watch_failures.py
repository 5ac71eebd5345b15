"""What a watch says while no gateway answers it, and when it ends."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection

from holdfast.client.http import Http
from holdfast.client.watch import Watch
from holdfast.errors import BadConfig
from tests.unit.client.client_support import http_of


class Enough(Exception):
    """The test has seen enough."""


def failing(errors: list[Exception], tried: list[str]) -> object:
    """Opens no connection: each try raises the next error."""

    @asynccontextmanager
    async def open_connection(http: Http, url: str) -> AsyncIterator[ClientConnection]:
        tried.append(url)
        if not errors:
            raise Enough
        raise errors.pop(0)
        yield  # pragma: no cover

    return open_connection


def watch_of(errors: list[Exception], tried: list[str], *urls: str) -> Watch:
    http = http_of(lambda _request: httpx2.Response(500), *urls)
    return Watch(http, "project:default", open_connection=failing(errors, tried))  # type: ignore[arg-type]


def not_trusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "certificate has expired"
    return error


async def test_failures_in_a_row_are_logged_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Exception] = [
        ssl.SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number") for _ in range(9)
    ]
    with caplog.at_level(logging.WARNING, "holdfast.client"), pytest.raises(Enough):
        await anext(watch_of(errors, [], "https://one:8787"))
    assert len(caplog.records) == 4  # the 2nd, 3rd, 5th and 9th
    assert "no feed at gateway https://one:8787" in caplog.text
    assert "no TLS is spoken there: write http://" in caplog.text


async def test_a_gateway_that_is_not_trusted_is_left_for_the_next_one() -> None:
    tried: list[str] = []
    with pytest.raises(Enough):
        await anext(watch_of([not_trusted()], tried, "https://one", "https://two"))
    assert tried == ["https://one", "https://two"]


async def test_a_watch_ends_when_no_gateway_is_trusted() -> None:
    tried: list[str] = []
    errors: list[Exception] = [not_trusted(), OSError("away"), not_trusted(), not_trusted()]
    with pytest.raises(BadConfig, match="gateway https://two is not trusted"):
        await anext(watch_of(errors, tried, "https://one", "https://two"))
    assert tried == ["https://one", "https://two", "https://one", "https://two"]
