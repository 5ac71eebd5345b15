"""Malformed, oversized, deeply nested and wrongly typed requests: a typed answer, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast.gateway.rest import body
from holdfast.gateway.settings import BODY_BYTES
from holdfast.queue.by import By
from tests.integration.gateway.support import ADMIN, Site, problem

AUTH = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}


async def send(site: Site, content: Any, **headers: str) -> httpx2.Response:
    return await site.client.post("/api/v1/tasks", content=content, headers={**AUTH, **headers})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{", (400, "malformed")),
        (b"\xff\xfe", (400, "malformed")),
        (b'{"type": "mail"} trailing', (400, "malformed")),
        (b'{"type": NaN}', (400, "malformed")),
        (b'{"type": "mail", "delay_seconds": 1e999}', (422, "invalid-input")),
        (b"[]", (422, "invalid-input")),
        (b'"text"', (422, "invalid-input")),
        (b"null", (422, "invalid-input")),
        (b"{}", (422, "invalid-input")),
        (b'{"type": 5}', (422, "invalid-input")),
        (b'{"type": ""}', (422, "invalid-input")),
        (b'{"type": "mail", "colour": 1}', (422, "invalid-input")),
        (b'{"type": "none"}', (422, "unknown-type")),
        (b'{"type": "mail", "priority": "top"}', (422, "unknown-priority")),
        (b'{"type": "mail", "project": "all"}', (422, "invalid-input")),
        (b'{"type": "mail", "project": "A B"}', (422, "invalid-input")),
        (b'{"type": "mail", "id": "a/b"}', (422, "invalid-input")),
        (b'{"type": "mail", "depends_on": ["x"]}', (422, "unknown-dependency")),
        (b'{"type": "mail", "depends_on": [{"id": "x", "policy": "?"}]}', (422, "invalid-input")),
        (b'{"type": "mail", "max_attempts": 1.5}', (422, "invalid-input")),
        (b'{"type": "mail", "delay_seconds": -1}', (422, "invalid-input")),
        (b'{"type": "mail", "payload": ' + b"[" * 40 + b"]" * 40 + b"}", (400, "malformed")),
        (
            b'{"type": "mail", "payload": ' + b"[" * 33 + b"]" * 33 + b"}",
            (422, "unserialisable-payload"),
        ),
        (b"[" * 500_000, (400, "malformed")),
        (b" " * (BODY_BYTES + 1), (413, "too-large")),
    ],
)
async def test_a_bad_body(memory_site: Site, content: bytes, expected: tuple[int, str]) -> None:
    answer = await send(memory_site, content)
    assert problem(answer) == expected, answer.text
    assert (await memory_site.ask("GET", "/tasks")).json()["items"] == []


async def test_the_deepest_payload_is_taken_and_shown(memory_site: Site) -> None:
    content = b'{"type": "mail", "payload": ' + b"[" * 32 + b"]" * 32 + b"}"
    assert (await send(memory_site, content)).status_code == 201
    assert (await memory_site.ask("GET", "/tasks")).status_code == 200
    assert (await memory_site.ask("GET", "/events")).status_code == 200


async def test_depth_in_strings_does_not_count(memory_site: Site) -> None:
    body = {"type": "mail", "payload": "[" * 1000 + '\\"{{'}
    assert (await send(memory_site, json.dumps(body).encode())).status_code == 201


async def test_a_body_without_a_length_is_bounded(memory_site: Site) -> None:
    async def chunks() -> Any:
        for _ in range(100):
            yield b" " * 65_536

    assert problem(await send(memory_site, chunks())) == (413, "too-large")


@pytest.mark.parametrize("media", ["text/plain", "application/xml", ""])
async def test_another_media_type(memory_site: Site, media: str) -> None:
    answer = await send(memory_site, b'{"type": "mail"}', **{"Content-Type": media})
    assert problem(answer) == (415, "unsupported-media")


async def test_the_field_is_named(memory_site: Site) -> None:
    answer = await memory_site.ask("POST", "/tasks/batch", {"tasks": [{"type": "mail", "x": 1}]})
    assert answer.json()["errors"] == [{"field": "tasks[0].x", "message": "there is no field 'x'"}]


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/tasks", {"limit": "0"}),
        ("/tasks", {"limit": "1001"}),
        ("/tasks", {"limit": "x"}),
        ("/tasks", {"after": "x"}),
        ("/tasks", {"colour": "red"}),
        ("/tasks", {"q": "status:"}),
        ("/tasks", {"q": "nokey:x"}),
        ("/tasks", {"q": "(" * 3000}),
        ("/dead-letters", {"q": "("}),
        ("/events", {"after": "x"}),
        ("/events", {"limit": "-1"}),
        ("/events", {"wait_seconds": "-1"}),
        ("/events", {"topics": ",".join(f"task:{n}" for n in range(300))}),
        ("/tokens", {"after": "!"}),
        ("/audit", {"after": "AQ"}),
        ("/locks", {"after": "x"}),
        ("/nodes", {"live": "perhaps"}),
        ("/tasks/x", {"wait_seconds": "nan"}),
    ],
)
async def test_a_bad_parameter(memory_site: Site, path: str, params: dict[str, Any]) -> None:
    answer = await memory_site.ask("GET", path, **params)
    assert problem(answer)[0] in (404, 422), answer.text


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        (
            "POST", "/operations", {"action": "abrt", "ids": []},
            "action: 'abrt' is not one of replay, discard, abort, pause, resume, reassign",
        ),
        ("PATCH", "/tasks/t", {"payload_mode": "x"}, "payload_mode: 'x' is not one of fields, patch, whole"),
    ],
)  # fmt: skip
async def test_a_choice_names_its_values(
    memory_site: Site, method: str, path: str, body: dict[str, Any], detail: str
) -> None:
    answer = await memory_site.ask(method, path, body)
    assert problem(answer) == (422, "invalid-input")
    assert answer.json()["detail"] == detail


async def test_a_query_error_says_where(memory_site: Site) -> None:
    body = (await memory_site.ask("GET", "/tasks", q="status:queued nokey:x")).json()
    assert body["at"] == 14
    assert body["expected"]


async def test_a_parameter_given_twice(memory_site: Site) -> None:
    answer = await memory_site.client.get("/api/v1/tasks?limit=1&limit=2", headers=AUTH)
    assert problem(answer) == (422, "invalid-input")


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
async def test_a_bad_key(memory_site: Site, key: str) -> None:
    answer = await send(memory_site, b'{"type": "mail"}', **{"Idempotency-Key": key})
    assert problem(answer) == (422, "invalid-input")


async def test_a_cursor_of_another_list(memory_site: Site) -> None:
    for _ in range(2):
        await memory_site.task()
    cursor = (await memory_site.ask("GET", "/tasks", limit=1)).json()["next"]
    for path in ("/tokens", "/audit", "/locks", "/dead-letters"):
        assert problem(await memory_site.ask("GET", path, after=cursor))[0] == 422


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/api/v1/tasks/", "/api/v2/x", "/x", "//"])
async def test_a_path_that_does_not_exist(memory_site: Site, path: str) -> None:
    answer = await memory_site.client.get(path, headers=AUTH)
    assert problem(answer) == (404, "not-found")


async def test_a_body_where_none_belongs(memory_site: Site) -> None:
    answer = await memory_site.ask("DELETE", "/schedules/n", {"reason": "x"})
    assert problem(answer) == (422, "invalid-input")


async def test_an_error_has_no_secret(memory_site: Site) -> None:
    secret = await memory_site.token("viewer")
    answer = await memory_site.ask("POST", "/tasks", {"type": secret})
    assert secret not in answer.text
    answer = await memory_site.ask("GET", f"/tasks/{secret}")
    assert secret not in answer.text


async def test_a_token_must_count_when_the_body_has_come(
    memory_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may begin a request, and send its body when its token has been revoked for hours."""
    monkeypatch.setattr(body, "SLOW_SECONDS", 0.0)
    secret = await memory_site.token("operator", projects=("default",))
    tokens = memory_site.services.tokens
    token = await tokens.find(secret)
    assert token is not None

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"type": '
        await tokens.revoke(token.id, By("test"))
        yield b'"mail"}'

    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    answer = await memory_site.client.post("/api/v1/tasks", content=slowly(), headers=headers)
    assert problem(answer) == (401, "unauthenticated")


@pytest.mark.parametrize(
    ("content", "status"), [(b"", 201), (b"{}", 201), (b'{"a": 1}', 422), (b"[]", 422), (b"{", 400)]
)
async def test_a_call_without_a_body_takes_an_empty_object(
    memory_site: Site, content: bytes, status: int
) -> None:
    answer = await memory_site.client.post("/api/v1/ws-tickets", content=content, headers=AUTH)
    assert answer.status_code == status, answer.text
