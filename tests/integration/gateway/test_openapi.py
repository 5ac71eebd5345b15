"""The OpenAPI document: committed as it is served, and true under drawn requests.

python -m tests.integration.gateway.test_openapi      # writes docs/reference/openapi.json
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from holdfast import __version__
from holdfast.gateway.rest.apis import APIS
from holdfast.gateway.rest.openapi import document
from tests.integration.gateway.support import ADMIN, Site, open_site

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "openapi.json"


def text() -> str:
    return json.dumps(document(APIS, __version__), indent=1, sort_keys=True) + "\n"


def test_the_document_is_committed() -> None:
    assert PAGE.read_text("utf-8") == text(), (
        "run: python -m tests.integration.gateway.test_openapi"
    )


async def test_the_document_is_served(memory_site: Site) -> None:
    served = await memory_site.client.get("/openapi.json")
    assert served.json() == json.loads(text())


@functools.cache
def cases() -> st.SearchStrategy[Any]:
    """Requests that the document allows, of any call that cannot wait for long."""
    import schemathesis  # here: every process of a run imports this module

    schema = schemathesis.openapi.from_dict(json.loads(text()))
    found: list[Any] = list(schema.get_all_operations())
    return st.one_of([operation.ok().as_strategy() for operation in found])


@settings(
    max_examples=100,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(data=st.data())
def test_no_drawn_request_breaks_the_server(data: st.DataObject) -> None:
    """Every answer is one that the document names: never 500, and problems have their shape."""
    import asyncio

    drawn = [data.draw(cases()) for _ in range(3)]
    asyncio.run(check(drawn))


async def check(drawn: list[Any]) -> None:
    async with open_site("sqlite://") as site:
        for case in drawn:
            drawn_headers = dict(case.headers or {}).items()
            headers = {n: v for n, v in drawn_headers if v.isascii() and v.isprintable()}
            headers["Authorization"] = f"Bearer {ADMIN}"
            query = {n: v for n, v in dict(case.query or {}).items() if n != "wait_seconds"}
            given: dict[str, Any] = {"headers": headers, "params": query}
            if isinstance(case.body, dict | list | str | int | float | bool):
                given["content"] = msgspec.json.encode(case.body)
                given["headers"]["Content-Type"] = "application/json"
            answer = await site.client.request(case.method, case.formatted_path, **given)
            allowed = case.operation.definition.raw["responses"]
            assert str(answer.status_code) in {*allowed, "404", "405", "410"}, answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["status"] == answer.status_code
            else:
                answer.json()


def test_every_route_is_in_the_document() -> None:
    paths = json.loads(text())["paths"]
    assert {
        (route.method.lower(), api.prefix + route.path) for api in APIS for route in api.routes.all
    } == {(method, path) for path, item in paths.items() for method in item}


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
