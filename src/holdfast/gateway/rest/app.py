"""The HTTP application of a server: the APIs of `rest/apis.py`, health, metrics, the paths of other parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgspec
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from holdfast import __version__
from holdfast.errors import NotFound
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest.apis import APIS, FLEET, FLEET_PATHS
from holdfast.gateway.rest.asyncapi import document as asyncapi_document
from holdfast.gateway.rest.handler import Api
from holdfast.gateway.rest.health import Health
from holdfast.gateway.rest.openapi import document
from holdfast.gateway.rest.problem import problem_response
from holdfast.gateway.rest.sync_api import SyncApi

Extend: TypeAlias = Callable[[FastAPI, Gateway], None]


class App(FastAPI):
    """FastAPI that hands a request of an API to the API at once: the router would first try the path of every
    screen. A proxy may leave `base_path` in the paths, or take it away."""

    base_path = ""
    apis: Mapping[str, Api] = {}
    """By the beginning of their paths. Empty if pages of other origins are allowed: a layer of FastAPI
    answers what their browsers ask."""
    other_paths: frozenset[str] = frozenset()
    """Paths that others serve, among them WebSockets and streams below the APIs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (path := scope["path"]) not in self.other_paths:
            for prefix, api in self.apis.items():
                if path.startswith(prefix):
                    await api({**scope, "root_path": prefix[:-1]}, receive, send)
                    return
        if self.base_path and scope.get("path", "").startswith(f"{self.base_path}/"):
            scope["root_path"] = self.base_path
        await super().__call__(scope, receive, send)


def make_app(gateway: Gateway, *, extend: Sequence[Extend] = ()) -> FastAPI:
    """The application of a gateway. `extend` adds WebSockets and streams; their paths go before the APIs.
    `app.state.gateway` is the gateway."""
    app = App(
        title="Holdfast",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    base = app.base_path = gateway.settings.base_path
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
    app.add_route("/openapi.json", _openapi)
    app.add_route("/asyncapi.json", _asyncapi)
    for add in extend:
        add(app, gateway)
    paths = [getattr(route, "path", "") for route in app.router.routes]
    app.other_paths = frozenset(start + path for start in {"", base} for path in paths)
    apis = applications(gateway)
    for prefix, api in apis.items():
        app.mount(prefix, api)
    if not gateway.settings.origins:
        app.apis = {
            f"{start}{prefix}/": api for start in {"", base} for prefix, api in apis.items()
        }
    without_prefix = Api(gateway, FLEET)
    for path in FLEET_PATHS:
        app.router.routes += [
            StarletteRoute(path, without_prefix),
            StarletteRoute(f"{path}/{{rest:path}}", without_prefix),
        ]
    app.add_exception_handler(404, _missing)
    app.add_exception_handler(405, _missing)
    return app


def applications(gateway: Gateway) -> dict[str, Api]:
    """The APIs of a gateway by their prefix."""
    return {
        api.prefix: (SyncApi if api.has_error_names else Api)(gateway, api.routes) for api in APIS
    }


async def _openapi(_: Request) -> Response:
    return Response(_openapi_text(), media_type="application/json")


async def _asyncapi(_: Request) -> Response:
    return Response(_asyncapi_text(), media_type="application/json")


@cache
def _openapi_text() -> bytes:
    """Made when it is first asked for: that takes longer than all else at the start of a server."""
    return msgspec.json.encode(document(APIS, __version__))


@cache
def _asyncapi_text() -> bytes:
    return msgspec.json.encode(asyncapi_document(__version__))


async def _missing(request: Request, _: Any) -> Response:
    gateway: Gateway = request.app.state.gateway
    return problem_response(
        NotFound("there is no such path: /openapi.json has them all"), gateway.services.request_id()
    )
