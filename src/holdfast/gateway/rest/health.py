"""Health and metrics, outside the API: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.core.access import Allowed, judge
from holdfast.core.rights import Operation
from holdfast.core.token import is_loopback
from holdfast.errors import HoldfastError
from holdfast.gateway.auth.addresses import address_of
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.operations.call import Call
from holdfast.gateway.rest.problem import problem_response


class Health:
    """Answers probes and scrapes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._opened_at_schema = 0

    async def healthz(self, _: Request) -> Response:
        """Whether the process answers. It asks no store."""
        return _json({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        """Whether the server can work: 503 if the store is away or was migrated, or the server stops."""
        checks = [await self._store(), await self._schema(), self._clock(), self._loops()]
        is_ready = all(check["ok"] for check in checks)
        body = {"status": "ok" if is_ready else "unavailable", "checks": checks}
        return _json(body, 200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        """For scrapers on this machine, or with `stats.read`."""
        services = self._gateway.services
        try:
            client = request.client.host if request.client is not None else ""
            if not is_loopback(client):
                who = await self._gateway.authenticate(
                    request.headers.get("authorization"), address_of(request)
                )
                call = Call(services, who.principal, request_id="")
                verdict = judge(who.principal, Operation.STATS_READ, project=call.home)
                if not isinstance(verdict, Allowed):
                    raise verdict.error()
            await services.parts.stats.get()
            await services.figures.scrape()
        except HoldfastError as error:
            return problem_response(error, services.request_id())
        return PlainTextResponse(services.metrics.render())

    async def _store(self) -> dict[str, Any]:
        try:
            await self._gateway.services.store.feed.head()
        except HoldfastError as error:
            return {"name": "store", "ok": False, "detail": error.code}
        return {"name": "store", "ok": True, "detail": ""}

    async def _schema(self) -> dict[str, Any]:
        """A store that another version has migrated since this server opened it is not served well."""
        try:
            number = await self._gateway.services.store.reads.schema_number()
        except HoldfastError as error:
            return {"name": "schema", "ok": False, "detail": error.code}
        self._opened_at_schema = self._opened_at_schema or number
        detail = f"at migration {number}"
        if number != self._opened_at_schema:
            detail += f", opened at {self._opened_at_schema}: restart with the version of the store"
        return {"name": "schema", "ok": number == self._opened_at_schema, "detail": detail}

    def _clock(self) -> dict[str, Any]:
        """The store's clock decides, so that a difference is said and does not count."""
        services = self._gateway.services
        gap = services.clock.now() - services.now()
        return {"name": "clock", "ok": True, "detail": f"{gap:+.3f} s from the store's"}

    def _loops(self) -> dict[str, Any]:
        if self._gateway.is_stopping:
            return {"name": "server", "ok": False, "detail": "stopping"}
        session = self._gateway.services.parts.sessions.here
        if session.failure is not None:
            return {"name": "server", "ok": False, "detail": "the engine has failed"}
        return {"name": "server", "ok": True, "detail": ""}


def _json(body: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
