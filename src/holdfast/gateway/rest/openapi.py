"""The OpenAPI 3.1 document, made from the tables of routes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.gateway.rest.apis import ApiTable
from holdfast.gateway.rest.problem import MEDIA
from holdfast.gateway.rest.route import Route
from holdfast.gateway.rest.running import FORESEEN

REF: Final = "#/components/schemas/{name}"
_VALUE: Final = re.compile(r"\{(\w+)\}")
PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "retryable", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "retryable": {"type": "boolean"},
        "instance": {"type": "string"},
    },
}
ERRORS: Final = ("400", "401", "403", "404", "409", "412", "413", "415", "422", "429", "503")
LIST: Final = {
    "type": "object",
    "required": ["items", "next"],
    "properties": {"items": {"type": "array"}, "next": {"type": ["string", "null"]}},
}


def document(apis: Sequence[ApiTable], version: str) -> dict[str, Any]:
    """The document of all routes."""
    every_route = [route for api in apis for route in api.routes.all]
    kinds = [route.body for route in every_route if route.body is not None]
    queries = [route.query for route in every_route]
    every = list(dict.fromkeys([*kinds, *queries]))
    refs, schemas = msgspec.json.schema_components(every, ref_template=REF)
    by_type = dict(zip(every, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for api in apis:
        for route in api.routes.all:
            item = paths.setdefault(api.prefix + route.path, {})
            item[route.method.lower()] = _call(route, by_type, schemas)
    used = {query.__name__ for query in queries}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {
                "Problem": PROBLEM,
                **{name: schema for name, schema in schemas.items() if name not in used},
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _call(route: Route, by_type: Mapping[Any, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    answer = LIST if route.is_list else {"type": "object"}
    responses: dict[str, Any] = {
        str(route.status): {
            "description": "The answer",
            "content": {"application/json": {"schema": answer}},
        }
    }
    if route.status == 201:
        responses["200"] = {**responses["201"], "description": "It was there before"}
    for status in ERRORS:
        responses[status] = {
            "description": "A problem",
            "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    call: dict[str, Any] = {
        "operationId": route.handler.__name__ if not route.path else _name(route),
        "summary": route.summary,
        "parameters": [*_path_values(route), *_parameters(route, schemas), *_headers(route)],
        "responses": responses,
    }
    if route.operation:
        call["x-holdfast-operation"] = str(route.operation)
    if route.body is not None:
        content = {"application/json": {"schema": by_type[route.body]}}
        call["requestBody"] = {"content": content, "required": True}
    return call


def _name(route: Route) -> str:
    words = [route.method.lower(), *(part.strip("{}") for part in route.segments)]
    return "_".join(words).replace("-", "_")


def _path_values(route: Route) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in _VALUE.findall(route.path)
    ]


def _parameters(route: Route, schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    properties = schemas[route.query.__name__].get("properties", {})
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _headers(route: Route) -> list[dict[str, Any]]:
    if route.method == "GET":
        return []
    text = {"type": "string", "minLength": 1, "maxLength": 200}
    headers = [{"name": "Idempotency-Key", "in": "header", "schema": text}]
    if route.method == "PATCH":
        headers.append({"name": "If-Match", "in": "header", "schema": {"type": "string"}})
    if route.handler in FORESEEN:
        schema = {"type": "string", "enum": ["true", "false"]}
        headers.append({"name": "Holdfast-Dry-Run", "in": "header", "schema": schema})
    return headers
