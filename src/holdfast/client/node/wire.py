"""The calls of `/api/v2/sync` over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote

from holdfast.client.http import Http
from holdfast.core.errors import NodeFenced
from holdfast.core.exchange.offline import Fields

PREFIX: Final = "/api/v2/sync"


class SyncWire:
    """What a node asks the server. After the registration each call names the incarnation: a late one of an
    earlier process changes nothing. A call that is refused because the server knows a later start, e.g. one
    that came late of an earlier process, is repeated once after the node has registered again."""

    def __init__(
        self,
        http: Http,
        project: str,
        *,
        start: Callable[[], Awaitable[int]],
        on_fenced: Callable[[int], None],
    ) -> None:
        """`start` gives the incarnation, and registers the node if it has none. `on_fenced` is called with an
        incarnation that has ended for the server."""
        self._http = http
        self._project = quote(project, safe="")
        self._start = start
        self._on_fenced = on_fenced

    async def handshake(self, body: Fields) -> Fields:
        return await self._post(f"/handshake/{self._project}", body)

    async def pull(self, body: Fields) -> Fields:
        return await self._post(f"/pull/{self._project}", body)

    async def push(self, body: Fields) -> Fields:
        return await self._post(f"/push/{self._project}", body)

    async def claim(self, task_id: str, body: Fields) -> Fields:
        return await self._post(f"/tasks/{quote(task_id, safe='')}/claim", body)

    async def heartbeat(self, task_id: str, body: Fields) -> Fields:
        return await self._post(f"/tasks/{quote(task_id, safe='')}/heartbeat", body)

    async def release(self, task_id: str, body: Fields) -> Fields:
        return await self._post(f"/tasks/{quote(task_id, safe='')}/release", body)

    async def output(self, task_id: str, body: Fields) -> Fields:
        return await self._post(f"/tasks/{quote(task_id, safe='')}/output", body)

    async def checkpoint(self, task_id: str, body: Fields) -> Fields:
        return await self._post(f"/tasks/{quote(task_id, safe='')}/checkpoints", body)

    async def _post(self, path: str, body: Fields) -> Fields:
        try:
            return await self._post_once(path, body)
        except NodeFenced:
            return await self._post_once(path, body)

    async def _post_once(self, path: str, body: Fields) -> Fields:
        incarnation = await self._start()
        try:
            return await _send(self._http, path, {**body, "incarnation": incarnation})
        except NodeFenced:
            self._on_fenced(incarnation)
            raise


async def register(http: Http, body: Fields) -> Fields:
    """Starts an incarnation."""
    return await _send(http, "/nodes/register", body)


async def _send(http: Http, path: str, body: Fields) -> Fields:
    answer = (await http.call("POST", PREFIX + path, body)).body
    return answer if isinstance(answer, dict) else {}
