"""Every call with texts that a database, a path or a log may stumble over: a typed answer on both stores."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from holdfast.gateway.rest.route import Route
from holdfast.gateway.rest.sync_v2 import ROUTES as SYNC_ROUTES
from holdfast.gateway.rest.v1 import ROUTES
from tests.integration.gateway.support import ADMIN, Site

HOSTILE = ("a\0b", "\0", "a\nb", "\u202e", "'; DROP TABLE holdfast_task;--", "x" * 300, "!x", "-1")
NUMBERS = (-(10**30), 2**64, 10**30, -1)
CALLS = [("/api/v1", route) for route in ROUTES] + [
    ("/api/v2/sync", route) for route in SYNC_ROUTES
]
GOOD: dict[str, Any] = {
    "nodeId": "n1", "projectId": "default", "type": "mail", "reason": "long enough to be a reason",
    "taskId": "c1", "id": "c9", "expectedVersion": 1, "name": "x", "roles": ["viewer"],
}  # fmt: skip


async def test_no_call_fails_by_a_hostile_text(site: Site) -> None:
    """The path, each parameter and each text field of each body."""
    task = (await site.task())["id"]
    failed = []
    for prefix, route in CALLS:
        for path, body in requests(route, task):
            answer = await site.client.request(
                route.method,
                prefix + path,
                headers={"Authorization": f"Bearer {ADMIN}"},
                json=body,
            )
            if answer.status_code >= 500:
                failed.append((route.method, path, body, answer.status_code))
    assert failed == []


def requests(route: Route, task: str) -> list[tuple[str, dict[str, Any] | None]]:
    names = re.findall(r"\{(\w+)\}", route.path)
    fields = (
        msgspec.structs.fields(route.body)
        if isinstance(route.body, type) and issubclass(route.body, msgspec.Struct)
        else ()
    )
    good = {
        field.encode_name: GOOD[field.encode_name] for field in fields if field.encode_name in GOOD
    }
    plain = filled(route, task)
    made = [(filled(route, text), good if fields else None) for text in HOSTILE if names]
    made += [
        (plain, good | {field.encode_name: value})
        for field in fields
        for value in (*HOSTILE[:3], *NUMBERS)
    ]
    made += [
        (f"{plain}?{parameter.encode_name}={quote(HOSTILE[0])}", None)
        for parameter in msgspec.structs.fields(route.query)
    ]
    return made


def filled(route: Route, text: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda _: quote(text, safe=""), route.path)


@pytest.mark.parametrize("text", ["a\0b", "\0"])
async def test_both_stores_refuse_a_nul_alike(site: Site, text: str) -> None:
    for path in ("/tasks/{}", "/nodes/{}", "/decisions/{}"):
        answer = await site.ask("GET", path.format(quote(text, safe="")))
        assert answer.status_code == 422, path
    copy = await site.ask("POST", f"/tasks/{(await site.task())['id']}/copy", {"reason": text})
    assert copy.status_code == 422
