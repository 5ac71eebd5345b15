"""The Control Center in the application: its page, its files, login and logout.

Promises: the page itself needs no credential and has no data; it reads through the API, with the rights of
the session. A login takes a code, on this machine only, or a token. `holdfast server` prints a code, and
`holdfast ui` asks for one with a token. A request of another site neither logs in nor out.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.errors import Forbidden, Unauthenticated
from holdfast.core.rights import Operation, PrincipalKind, Role
from holdfast.core.token import BOOTSTRAP, is_loopback
from holdfast.errors import HoldfastError, NotFound
from holdfast.gateway.auth.addresses import address_of
from holdfast.gateway.auth.bearer import BOOTSTRAP_ID, Authenticated
from holdfast.gateway.auth.cookies import (
    CODE_SECONDS,
    SESSION_SECONDS,
    Session,
    cookie_name,
    is_own_page,
    session_of,
)
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.operations.call import Call
from holdfast.gateway.rest import body as bodies
from holdfast.gateway.rest.problem import problem_response
from holdfast.sync.access.tokens import NewToken
from holdfast.web.files import FOREVER, HEADERS, Files

SCREENS: Final = (
    "", "inbox", "tasks", "dead-letters", "queues", "schedules", "fleet", "nodes", "sync",
    "conflicts", "locks", "events", "operations", "settings", "start", "login",
)  # fmt: skip
"""The first part of the paths that the page serves; it finds the rest by itself."""
SESSION_NAME: Final = "control-center"
LOGIN_BYTES: Final = 4_096
HERE_ONLY: Final = "counts once, on the machine of the gateway"


class LoginBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token of a person."""

    token: str


class BrowserRoute(Route):
    """A path of the API as a person types it. Only a browser that asks for a page gets it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if _asks_for_page(scope) else (Match.NONE, {})


class Pages:
    """The page and the files of a gateway."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def extend(self, app: FastAPI, gateway: Gateway) -> None:
        base = gateway.settings.base_path
        logins = Logins(gateway, self)

        async def page(_: Request) -> Response:
            return self.page(base)

        async def asset(request: Request) -> Response:
            return self._asset(request)

        routes = app.router.routes

        async def screen_of(request: Request) -> Response:
            return RedirectResponse(f"{base}/fleet{request.scope['path']}", 303, HEADERS)

        for noun in ("jobs", "hosts", "groups", "blocks"):
            routes.insert(0, BrowserRoute(f"/{noun}", screen_of, methods=["GET"]))
        for noun in ("jobs", "hosts"):
            routes.insert(0, BrowserRoute(f"/{noun}/{{name}}", screen_of, methods=["GET"]))
        routes.append(Route("/login", logins.get, methods=["GET"]))
        routes.append(Route("/login", logins.post, methods=["POST"]))
        routes.append(Route("/login/code", logins.code, methods=["POST"]))
        routes.append(Route("/logout", logins.leave, methods=["POST"]))
        routes.append(Route("/assets/{name}", asset, methods=["GET"]))
        for screen in SCREENS:
            routes.append(Route(f"/{screen}", page, methods=["GET"]))
            if screen:
                routes.append(Route(f"/{screen}/{{rest:path}}", page, methods=["GET"]))

        app.router.default = self._unknown(base, app.router.default)

    def _unknown(self, base: str, refuse: ASGIApp) -> ASGIApp:
        """A path that nothing serves: in a browser the page says so in its own words."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            answers = self.page(base, status=404) if _asks_for_page(scope) else refuse
            await answers(scope, receive, send)

        return answer

    def page(self, base: str, status: int = 200) -> Response:
        found = self._files.page(base)
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        headers["ETag"] = f'"{sha256(found.content).hexdigest()[:20]}"'
        return Response(found.content, status, headers, found.media)

    def _asset(self, request: Request) -> Response:
        found = self._files.asset(request.path_params["name"])
        if found is None:
            gateway: Gateway = request.app.state.gateway
            return problem_response(
                NotFound("there is no such file: load the page again"),
                gateway.services.request_id(),
            )
        headers = {**HEADERS, "Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(found.compressed, headers=headers, media_type=found.media)
        return Response(found.content, headers=headers, media_type=found.media)


class Logins:
    """Opens and ends sessions."""

    def __init__(self, gateway: Gateway, pages: Pages) -> None:
        self._gateway = gateway
        self._pages = pages

    async def get(self, request: Request) -> Response:
        """A login code in the URL opens a session. Otherwise the page asks for a token."""
        code = request.query_params.get("code")
        if code is None:
            return self._pages.page(self._gateway.settings.base_path)
        base = self._gateway.settings.base_path
        try:
            session = await self._by_code(request, code)
        except HoldfastError as error:
            return RedirectResponse(f"{base}/login?refused={error.code}", 303, HEADERS)
        response = RedirectResponse(f"{base}/", 303, HEADERS)
        self._remember(request, response, session)
        return response

    async def post(self, request: Request) -> Response:
        """A token opens a session: the administrator's has one made for it, another is kept itself."""
        request_id = self._gateway.services.request_id()
        try:
            _check_own(request)
            data = await bodies.read_body(request, LOGIN_BYTES)
            token = bodies.decode_body(request, data, LoginBody).token.strip()
            who = await self._gateway.authenticate(f"Bearer {token}", address_of(request))
            session = await self._session(who, token, request_id)
        except HoldfastError as error:
            return problem_response(error, request_id)
        response = Response(status_code=204, headers=HEADERS)
        self._remember(request, response, session)
        return response

    async def code(self, request: Request) -> Response:
        """A login code for the person whose token the request has."""
        gateway = self._gateway
        request_id = gateway.services.request_id()
        try:
            token = request.headers.get("authorization")
            who = await gateway.authenticate(token, address_of(request))
            _check_person(who)
            if not _is_here(request):
                raise Forbidden(f"a login code {HERE_ONLY}: open /login and log in with the token")
        except HoldfastError as error:
            return problem_response(error, request_id)
        is_admin = who.credential == BOOTSTRAP_ID
        given = (
            None if is_admin else Session((token or "").partition(" ")[2].strip(), is_made=False)
        )
        code = gateway.logins.open(gateway.services.clock.monotonic(), given)
        path = f"{gateway.settings.base_path}/login?code={code}"
        return JSONResponse({"path": path, "expires_in_seconds": CODE_SECONDS}, 201, HEADERS)

    async def leave(self, request: Request) -> Response:
        """Ends the session. A token that was made for it counts no more."""
        request_id = self._gateway.services.request_id()
        try:
            _check_own(request)
            session = session_of(request.headers)
            if session is not None and session.is_made:
                await self._revoke(session, request, request_id)
        except HoldfastError as error:
            return problem_response(error, request_id)
        response = Response(status_code=204, headers=HEADERS)
        response.delete_cookie(
            cookie_name(request.headers.get("host")),
            path=self._path,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _by_code(self, request: Request, code: str) -> Session:
        limits, now = self._gateway.addresses, self._gateway.services.clock.monotonic()
        address = address_of(request)
        limits.check(address, code, now)
        found = self._gateway.logins.take(code, now) if _is_here(request) else None
        if found is None:
            limits.failed(address, now)
            raise Unauthenticated(f"the login code is not valid: it {HERE_ONLY}")
        if found.given is not None:
            return found.given
        return Session(await self._make(self._gateway.services.request_id()), is_made=True)

    async def _session(self, who: Authenticated, token: str, request_id: str) -> Session:
        _check_person(who)
        if who.credential == BOOTSTRAP_ID:
            return Session(await self._make(request_id), is_made=True)
        return Session(token, is_made=False)

    async def _make(self, request_id: str) -> str:
        """The secret of a new session with the rights of the administrator."""
        services = self._gateway.services
        call = Call(services, BOOTSTRAP, request_id=request_id)
        new = NewToken(
            name=SESSION_NAME,
            roles=[Role.ADMIN.value],
            principal=BOOTSTRAP.name,
            expires_in_seconds=SESSION_SECONDS,
        )
        by = call.by(
            Operation.TOKENS_MANAGE,
            project=ALL_PROJECTS,
            subject=SESSION_NAME,
            actor=BOOTSTRAP.name,
            reason="login to the Control Center",
        )
        return (await services.tokens.create(new, by)).secret

    async def _revoke(self, session: Session, request: Request, request_id: str) -> None:
        services = self._gateway.services
        try:
            who = await self._gateway.authenticate(f"Bearer {session.secret}", address_of(request))
        except Unauthenticated:
            return
        if who.token_id is None:
            return
        call = Call(services, who.principal, request_id=request_id)
        by = call.by(
            Operation.TOKENS_MANAGE,
            project=ALL_PROJECTS,
            subject=who.token_id,
            actor=who.principal.name,
            reason="logout from the Control Center",
        )
        await services.tokens.revoke(who.token_id, by)

    def _remember(self, request: Request, response: Response, session: Session) -> None:
        options: dict[str, Any] = {"max_age": int(SESSION_SECONDS)} if session.is_made else {}
        response.set_cookie(
            cookie_name(request.headers.get("host")),
            session.value,
            path=self._path,
            httponly=True,
            samesite="strict",
            secure=request.scope["scheme"] == "https",
            **options,
        )

    @property
    def _path(self) -> str:
        return self._gateway.settings.base_path or "/"


def _asks_for_page(scope: Scope) -> bool:
    """Whether a browser opens an address. No client of the API asks for HTML."""
    is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    return is_read and "text/html" in Headers(scope=scope).get("accept", "")


def _is_here(request: Request) -> bool:
    return request.client is not None and is_loopback(request.client.host)


def _check_person(who: Authenticated) -> None:
    """Forbidden for a token of a node, an agent or a webhook."""
    if who.principal.kind is not PrincipalKind.USER:
        raise Forbidden("this is no token of a person: log in with one of `holdfast token create`")


def _check_own(request: Request) -> None:
    """Forbidden if another site sends the request."""
    if not is_own_page(request.method, request.headers):
        raise Forbidden("this request comes from another site")
