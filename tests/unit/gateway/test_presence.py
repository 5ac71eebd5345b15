"""Work for a client that waits ends when the client has gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from holdfast.gateway.rest.presence import ClientGone, while_present


class Client:
    """A client that sends its request, and leaves when a test says so."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self.is_sent = False

    async def receive(self) -> dict[str, Any]:
        if not self.is_sent:
            self.is_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    def request(self) -> Request:
        return Request({"type": "http", "method": "GET", "headers": []}, self.receive)


async def test_the_work_of_a_client_that_leaves_is_cancelled() -> None:
    client, ended = Client(), list[str]()

    async def work() -> str:
        client.leaves.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "never"

    with pytest.raises(ClientGone):
        await while_present(client.request(), work())
    assert ended == ["cancelled"]


async def test_the_work_of_a_client_that_stays_is_answered() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert await while_present(Client().request(), work()) == "done"


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await while_present(Client().request(), work())


async def test_a_cancelled_request_cancels_its_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    serving = asyncio.create_task(while_present(Client().request(), work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert ended.is_set()
