"""A gateway in this process, and short forms of requests to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from holdfast import TaskQueue
from holdfast.core.token import TokenKind
from holdfast.gateway.compose import open_services
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest.app import make_app
from holdfast.gateway.server import new_metrics
from holdfast.gateway.settings import ServerSettings
from holdfast.queue.by import By
from holdfast.sync.access.tokens import NewToken

ADMIN = "hf_admin_" + "a" * 40
ANSWER = "ok"


class Site:
    """A gateway and a client of it."""

    def __init__(self, gateway: Gateway, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.services = gateway.services
        self.client = client

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = ADMIN,
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> httpx2.Response:
        """Sends one request below /api/v1."""
        sent = {} if token is None else {"Authorization": f"Bearer {token}"}
        given: dict[str, Any] = {"headers": {**sent, **(headers or {})}}
        if body is not None:
            given["json"] = body
        if params:
            given["params"] = params
        return await self.client.request(method, f"/api/v1{path}", **given)

    async def token(self, *roles: str, kind: TokenKind = TokenKind.USER, **options: Any) -> str:
        """The secret of a new token."""
        new = NewToken(name="-".join(roles), roles=roles, kind=kind, **options)
        return (await self.services.tokens.create(new, By("test"))).secret

    async def task(self, **fields: Any) -> dict[str, Any]:
        """A new task, as the API shows it."""
        response = await self.ask("POST", "/tasks", {"type": "mail", **fields})
        assert response.status_code in (200, 201), response.text
        task: dict[str, Any] = response.json()["task"]
        return task


@asynccontextmanager
async def open_site(
    url: str,
    queue_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Site]:
    metrics = new_metrics()
    queue = TaskQueue(url, meter=metrics, **queue_settings or {})

    queue.register_handler("mail", _mail)

    server_settings = ServerSettings(admin_token=ADMIN, **settings)
    gateway = Gateway(await open_services(queue, server_settings, metrics), server_settings)
    transport = httpx2.ASGITransport(app=make_app(gateway))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            yield Site(gateway, client)
    finally:
        await queue.stop()


async def _mail(_: object) -> str:
    return ANSWER


def problem(response: httpx2.Response) -> tuple[int, str]:
    """The status and the code of a problem."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == response.status_code
    return body["status"], body["code"]
