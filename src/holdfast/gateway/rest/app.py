"""The HTTP application of a server.

Other parts mount what they serve: routes for the table of an API (`Mounts.routes`), or anything that FastAPI
takes (`Mounts.extend`, which runs before the APIs are mounted, so that its paths go first).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import msgspec
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.errors import NotFound
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest import sync_v2, v1
from holdfast.gateway.rest.asyncapi import document as asyncapi_document
from holdfast.gateway.rest.handler import Api
from holdfast.gateway.rest.health import Health
from holdfast.gateway.rest.openapi import document
from holdfast.gateway.rest.problem import problem_response
from holdfast.gateway.rest.route import Route, Routes
from holdfast.gateway.rest.sync_api import SyncApi

Extend: TypeAlias = Callable[[FastAPI, Gateway], None]
Service: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
MakeService: TypeAlias = Callable[[Gateway], Service]


class Mounts(msgspec.Struct, frozen=True):
    """What other parts add to the application."""

    routes: tuple[Route, ...] = ()
    """Further routes of `/api/v1`."""
    apis: tuple[tuple[str, tuple[Route, ...]], ...] = ()
    """Further APIs: (prefix, routes)."""
    extend: tuple[Extend, ...] = ()
    """Functions that add WebSockets, streams or routers to the application."""
    services: tuple[MakeService, ...] = ()
    """What runs while the server serves: each makes a context manager from the gateway."""


NO_MOUNTS = Mounts()


def make_app(gateway: Gateway, mounts: Mounts = NO_MOUNTS) -> FastAPI:
    """The application of a gateway. `app.state.gateway` is the gateway."""
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        root_path=gateway.settings.base_path,
    )
    app.state.gateway = gateway
    if gateway.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(gateway.settings.origins),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match"],
            expose_headers=["ETag", "Holdfast-Position", "Holdfast-Request", "Retry-After"],
        )
    health = Health(gateway)
    app.add_route("/healthz", health.healthz)
    app.add_route("/readyz", health.readyz)
    app.add_route("/metrics", health.metrics)
    tables = tables_of(mounts)
    text = msgspec.json.encode(document(tables, __version__))
    messages = msgspec.json.encode(asyncapi_document(__version__))

    async def openapi(_: Request) -> Response:
        return Response(text, media_type="application/json")

    async def asyncapi(_: Request) -> Response:
        return Response(messages, media_type="application/json")

    app.add_route("/openapi.json", openapi)
    app.add_route("/asyncapi.json", asyncapi)
    for extend in mounts.extend:
        extend(app, gateway)
    for prefix, routes in tables.items():
        kind = SyncApi if prefix == sync_v2.PREFIX else Api
        app.mount(prefix, kind(gateway, Routes(routes)))
    app.add_exception_handler(404, _missing)
    app.add_exception_handler(405, _missing)
    return app


def tables_of(mounts: Mounts = NO_MOUNTS) -> dict[str, Sequence[Route]]:
    """The tables of routes by their prefix."""
    ours = {v1.PREFIX: (*v1.ROUTES, *mounts.routes), sync_v2.PREFIX: sync_v2.ROUTES}
    return {**ours, **dict(mounts.apis)}


async def _missing(request: Request, _: Any) -> Response:
    gateway: Gateway = request.app.state.gateway
    return problem_response(
        NotFound("there is no such path: /openapi.json has them all"), gateway.services.request_id()
    )
