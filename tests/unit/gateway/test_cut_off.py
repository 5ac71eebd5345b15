"""Requests that are cancelled by a stop of the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from holdfast.gateway.rest.cut_off import CutOff

START = {"type": "http.response.start", "status": 200, "headers": []}


async def cut(scope: Scope, first: list[Message]) -> list[Message]:
    """Cancels a request whose application has sent these messages. Returns all messages."""
    sent: list[Message] = []
    waiting = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in first:
            await send(message)
        waiting.set()
        await asyncio.Event().wait()

    async def send(message: Message) -> None:
        if sent and message["type"] == "http.response.start":
            raise RuntimeError("as uvicorn does")
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    request = asyncio.create_task(_run(CutOff(app, lambda: "r1"), scope, receive, send))
    await waiting.wait()
    request.cancel()
    await request  # A server would log an error with its traceback.
    return sent


async def _run(app: CutOff, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


async def test_a_request_without_an_answer_is_answered() -> None:
    start, body = await cut({"type": "http", "method": "POST"}, [])
    assert start["status"] == 503
    assert (b"connection", b"close") in start["headers"]
    assert b'"code":"queue-stopping"' in body["body"]


@pytest.mark.parametrize(
    ("scope", "first"),
    [
        ({"type": "http", "method": "GET"}, [START]),
        ({"type": "websocket"}, [{"type": "websocket.accept"}]),
    ],
)
async def test_an_answer_that_has_begun_is_not_continued(
    scope: Scope, first: list[Message]
) -> None:
    """It must not look whole."""
    assert await cut(scope, first) == first
