"""Runs one request: authenticate, read, call the operation, encode the answer.

Promises: a request without a valid token is refused before its body is read. The answer to a GET has the
position of the feed that was read before the data. Every error becomes problem details.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from holdfast.core.errors import Malformed
from holdfast.errors import HoldfastError, NotFound
from holdfast.fleet.webhooks.webhooks import Incoming
from holdfast.gateway import metrics
from holdfast.gateway.auth.addresses import address_of
from holdfast.gateway.auth.bearer import Authenticated
from holdfast.gateway.auth.cookies import authorization_of
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.invalid import check_text_value
from holdfast.gateway.operations.call import Answer, Call, replayed
from holdfast.gateway.rest import body as bodies
from holdfast.gateway.rest.problem import MEDIA, problem, problem_response
from holdfast.gateway.rest.route import Match, Route, Routes
from holdfast.gateway.rest.running import run_route
from holdfast.sync.access.foresee import DRY_RUN_HEADER
from holdfast.sync.access.recorded import Replayed
from holdfast.tracing import parse_trace, using

log = logging.getLogger("holdfast.gateway")
_ETAG: Final = re.compile(r'(?:W/)?"v(\d{1,16})"')
REST: Final = "rest"
OTHER: Final = "other"
"""The operation of a request that needs none, or that has no route."""
LINES: Final = "application/x-ndjson"
JSON: Final = "application/json"
TEXT: Final = "text/plain"
DENIAL: Final = "websocket.http.response"
"""The extension of ASGI by which a WebSocket is refused with a response."""


class Internal(HoldfastError):
    """The server failed: its log has the cause under the id of the request."""


class Api:
    """The routes of an API as an ASGI application."""

    def __init__(self, gateway: Gateway, routes: Routes) -> None:
        self._gateway = gateway
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._refuse_websocket(scope, receive, send)
            return
        request = Request(scope, receive)
        response = await self.respond(request, _path(scope))
        if request.method == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def _refuse_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """404 to the handshake. A close before the handshake is done would be a 403 without a word."""
        if DENIAL in scope.get("extensions", {}):
            error = NotFound(
                "no WebSocket is served at this path: /asyncapi.json has those that are"
            )
            request_id = self._gateway.services.request_id()
            await WebSocket(scope, receive, send).send_denial_response(
                self.refuse(error, request_id)
            )
        else:
            await send({"type": "websocket.close"})

    async def respond(self, request: Request, path: str) -> Response:
        """The response to a request; never an exception."""
        services = self._gateway.services
        request_id, started_at = services.request_id(), services.clock.monotonic()
        method = "GET" if request.method == "HEAD" else request.method
        match = self._routes.find(method, path)
        operation = str(match.route.operation) or OTHER if isinstance(match, Match) else OTHER
        response = await self._safely(request, match, request_id)
        seconds = services.clock.monotonic() - started_at
        meter, code = services.metrics, str(response.status_code)
        meter.count(metrics.REQUESTS, operation=operation, transport=REST, code=code)
        meter.observe(metrics.SECONDS, seconds, operation=operation, transport=REST)
        if response.status_code == 401:
            meter.count(metrics.AUTH_FAILURES, transport=REST)
        elif response.status_code == 429:
            meter.count(metrics.RATE_LIMITED, transport=REST)
        return response

    async def _safely(
        self, request: Request, match: Match | list[str], request_id: str
    ) -> Response:
        try:
            return await self._respond(request, match, request_id)
        except HoldfastError as error:
            return self.refuse(error, request_id)
        except Exception:
            log.exception("request %s failed: %s", request_id, request.method)
            return self.refuse(
                Internal(f"the server failed: its log has the cause under {request_id}"), request_id
            )

    def refuse(self, error: HoldfastError, request_id: str) -> Response:
        """The response to a refused request. Another API may add to it."""
        return problem_response(error, request_id)

    def complete(self, answer: Answer, route: Route, data: bytes) -> Answer:
        """The answer to a request with this body. Another API may add to it."""
        return answer

    async def _respond(
        self, request: Request, match: Match | list[str], request_id: str
    ) -> Response:
        address = address_of(request)
        who, incoming, data = await self._authenticated(request, match, address)
        if not isinstance(match, Match):
            return _no_route(match, request_id)
        route, values = match
        for value in values:
            check_text_value("the path", value)
        if route.is_entry:
            self._gateway.enter(who.principal, address)
        query = bodies.decode_query(request, route.query)
        if data is None:
            most = route.body_bytes or self._gateway.settings.body_bytes
            who, data = await self._with_body(request, most, who, address)
        given: dict[str, Any] = msgspec.structs.asdict(query)
        if route.body is not None:
            given["body"] = bodies.decode_body(request, data, route.decoded or route.body)
        elif data.strip():
            bodies.decode_body(request, data, bodies.NoFields)
        key = None if route.method == "GET" else request.headers.get("idempotency-key")
        call = Call(
            self._gateway.services,
            who.principal,
            request_id=request_id,
            token_id=who.token_id,
            digest=who.digest,
            key=key,
            request=None if key is None else [route.method, route.path, *values, _canonical(data)],
            if_match=_if_match(request.headers.get("if-match")),
            incoming=incoming,
            dry_run=_is_dry_run(request.headers.get(DRY_RUN_HEADER)),
        )
        headers = request.headers
        with using(parse_trace(headers.get("traceparent"), headers.get("tracestate"))):
            return await self._answered(request, match, call, given, data)

    async def _with_body(
        self, request: Request, most: int, who: Authenticated, address: str
    ) -> tuple[Authenticated, bytes]:
        """Who asks when the body has arrived, and the body. A client may send it as slowly as it likes, and
        its credential may end meanwhile."""
        clock = self._gateway.services.clock
        began_at = clock.monotonic()
        data = await bodies.read_body(request, most)
        if clock.monotonic() - began_at > bodies.SLOW_SECONDS:
            header = authorization_of(request.method, request.headers)
            who = await self._gateway.authenticate(header, address)
        return who, data

    async def _authenticated(
        self, request: Request, match: Match | list[str], address: str
    ) -> tuple[Authenticated, Incoming | None, bytes | None]:
        """Who asks. For a request that a webhook source has signed, also what it sent: the body is signed."""
        header = authorization_of(request.method, request.headers)
        if header is not None or not isinstance(match, Match) or not match.route.is_signed:
            return await self._gateway.authenticate(header, address), None, None
        most = self._gateway.settings.body_bytes
        return await self._gateway.authenticate_signed(
            request.headers,
            lambda: bodies.read_body(request, most),
            address,
            source=match.values[0] if match.values else None,
        )

    async def _answered(
        self, request: Request, match: Match, call: Call, given: dict[str, Any], data: bytes
    ) -> Response:
        """Calls the operation and encodes its answer in the form that the client accepts."""
        route, values = match
        headers = await _headers(call, route)
        if route.is_list and LINES in request.headers.get("accept", ""):
            first = (await run_route(call, route, values, given)).body
            pages = _lines(first, route, call, values, given)
            return StreamingResponse(pages, 200, headers, media_type=LINES)
        try:
            answer = await run_route(call, route, values, given)
        except Replayed as repeat:
            answer = replayed(repeat.answer)
            headers["Idempotency-Replayed"] = "true"
        headers |= answer.headers
        if answer.text is not None and TEXT in request.headers.get("accept", ""):
            headers["X-Content-Type-Options"] = "nosniff"
            return Response(answer.text, answer.status, headers, media_type=TEXT)
        return respond_with(self.complete(answer, route, data), headers)


def respond_with(answer: Answer, headers: dict[str, str]) -> Response:
    """The response of an answer."""
    if answer.version is not None:
        headers["ETag"] = f'"v{answer.version}"'
    if answer.secret:
        headers["Cache-Control"] = "no-store"
    media = MEDIA if answer.status >= 400 else JSON
    return Response(msgspec.json.encode(answer.body), answer.status, headers, media_type=media)


async def _lines(
    page: dict[str, Any],
    route: Route,
    call: Call,
    values: tuple[str, ...],
    given: dict[str, Any],
) -> AsyncIterator[bytes]:
    """All pages of a list as JSON lines, each page read when the one before was sent. The last line says that
    this was all (`end`), or why it is not (`problem`): a list without either was cut off."""
    encoder = msgspec.json.Encoder()
    count = 0
    try:
        while True:
            if page["items"]:
                yield encoder.encode_lines(page["items"])
            count += len(page["items"])
            if page["next"] is None:
                break
            given = {**given, "after": page["next"]}
            page = (await run_route(call, route, values, given)).body
    except HoldfastError as error:
        yield encoder.encode_lines([{"problem": problem(error, call.request_id)}])
    except Exception:
        log.exception("request %s failed after %d rows", call.request_id, count)
        failed = Internal("the server failed: its log has the cause")
        yield encoder.encode_lines([{"problem": problem(failed, call.request_id)}])
    else:
        yield encoder.encode_lines([{"end": True, "count": count}])


def _canonical(data: bytes) -> Any:
    """The body as data: blanks and the order of fields make no other request."""
    try:
        return msgspec.json.decode(data) if data.strip() else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A part that is read by itself is not valid.
        return data.decode("latin-1")


def _path(scope: Scope) -> str:
    """The path below the place where the API is mounted, not decoded."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path: str = raw.decode("latin-1").partition("?")[0]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root)


def _if_match(header: str | None) -> int | None:
    if header is None or header.strip() == "*":
        return None
    match = _ETAG.fullmatch(header.strip())
    if match is None:
        raise Malformed('If-Match is not an ETag of this API: send it as "v7"')
    return int(match[1])


async def _headers(call: Call, route: Route) -> dict[str, str]:
    """What the response says beside the answer."""
    headers = {"Holdfast-Request": call.request_id}
    if call.dry_run:
        headers["Holdfast-Dry-Run"] = "true"
    if route.method == "GET":
        headers["Holdfast-Position"] = str(await call.services.store.feed.head())
    return headers


def _is_dry_run(header: str | None) -> bool:
    if header not in (None, "true", "false"):
        raise Malformed("Holdfast-Dry-Run is neither true nor false: send one of them")
    return header == "true"


def _no_route(methods: list[str], request_id: str) -> Response:
    if not methods:
        return problem_response(
            NotFound("there is no such path: /openapi.json has them all"), request_id
        )
    response = problem_response(_MethodNotAllowed(f"use {', '.join(methods)}"), request_id)
    response.headers["Allow"] = ", ".join(methods)
    return response


class _MethodNotAllowed(Malformed):
    """The path does not take this method."""

    http_status = 405
