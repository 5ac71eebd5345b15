"""`holdfast api`, `openapi` and `asyncapi`: any call of the API, and its descriptions."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from cyclopts import Parameter

from holdfast import __version__
from holdfast.app import TaskQueue, http_of
from holdfast.cli import values
from holdfast.cli.api import answer_of, v1
from holdfast.cli.options import COMMON, Common, Output
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.session import target, with_queue
from holdfast.core.text import lines

ENDLESS: Final = frozenset({v1("stream"), v1("ws")})
"""Paths whose answers do not end."""


class Method(StrEnum):
    """What a call does."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


def api(
    method: Annotated[Method, Parameter(help="GET, POST, PUT, PATCH or DELETE.")],
    path: Annotated[str, Parameter(help="A path of the API; /tasks is /api/v1/tasks.")],
    /,
    *pairs: Annotated[str, Parameter(help="Parameters of a GET or DELETE, else of the body.")],
    json: Annotated[str | None, Parameter(help="The body as JSON; - reads stdin.")] = None,
    common: Common = COMMON,
) -> None:
    """Make a call of the API, and print its answer as JSON. Without a gateway this process carries it out on
    the store."""
    where, _, parameters = path.partition("?")
    if not where.startswith("/") or where.startswith("//"):
        raise Usage(f"'{path}' is not a path: write e.g. /tasks or /api/v2/sync/status/web")
    query: dict[str, object] = dict(parse_qsl(parameters, keep_blank_values=True))
    body: Any = None
    if method in (Method.GET, Method.DELETE):
        if json is not None:
            raise Usage(f"{method} has no body: give its parameters as key=value")
        query |= dict(_texts(pairs))
    else:
        body = values.payload(pairs, json)
    if not where.startswith("/api/"):
        where = f"/api/v1{where}"
    if where in ENDLESS:
        raise Usage(
            f"'{path}' does not end: holdfast events tail --follow prints events as they come"
        )
    _print(common, answer_of(common, method.value, where, body, query=query))


def _texts(pairs: tuple[str, ...]) -> list[tuple[str, str]]:
    """Parameters are text as it was typed."""
    values.payload(pairs, None)  # Usage for what is not key=value
    return [(name, text) for name, _, text in (pair.partition("=") for pair in pairs)]


def openapi(*, common: Common = COMMON) -> None:
    """Print the description of the API: that of the gateway, or of this version."""

    def here() -> Any:
        from holdfast.gateway.rest.apis import APIS
        from holdfast.gateway.rest.openapi import document

        return document(APIS, __version__)

    _describe(common, "/openapi.json", here)


def asyncapi(*, common: Common = COMMON) -> None:
    """Print the description of the live feed, of messages of workers and of webhooks: that of the gateway,
    or of this version."""

    def here() -> Any:
        from holdfast.gateway.rest.asyncapi import document

        return document(__version__)

    _describe(common, "/asyncapi.json", here)


def _describe(common: Common, path: str, here: Callable[[], Any]) -> None:
    """Prints the document that a gateway has at the path, or without one that of this version, which needs no
    store."""
    if not target(common).is_gateway:
        return _print(common, here())

    async def work(queue: TaskQueue) -> Any:
        http = http_of(queue)
        assert http is not None
        return (await http.call("GET", path)).body

    return _print(common, with_queue(common, work))


def _print(common: Common, answer: Any) -> None:
    printer = Printer(common)
    if isinstance(answer, str):
        print(lines(answer))
    elif printer.output is Output.JSONL:
        printer.object(answer)
    else:
        printer.document(answer)
