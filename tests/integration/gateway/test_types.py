"""Task types that processes without a database define: checked, and kept apart by project."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.token import TokenKind
from tests.conformance.tasks.helpers import read_all
from tests.integration.gateway.support import ADMIN, Site, problem


async def define(site: Site, token: str, **options: Any) -> Any:
    definition = {"name": "render", "queue": options.get("queue", "good"), "options": options}
    body = {"definitions_json": json.dumps([definition])}
    return await site.ask("PUT", "/types", body, token=token)


async def node_token(site: Site, project: str) -> str:
    return await site.token(
        "worker", kind=TokenKind.NODE, node_id=f"node-{project}", projects=[project]
    )


async def test_a_project_does_not_change_the_types_of_another(site: Site) -> None:
    shop, evil = await node_token(site, "shop"), await node_token(site, "evil")
    assert (await define(site, shop, queue="good", max_attempts=5)).status_code == 200
    taken = await define(site, evil, queue="black-hole", max_attempts=1)
    assert problem(taken) == (409, "conflict")
    assert (await define(site, evil, queue="good", max_attempts=5)).status_code == 200
    assert (await define(site, shop, queue="good", max_attempts=7)).status_code == 200
    assert (await define(site, ADMIN, queue="best")).status_code == 200
    assert problem(await define(site, shop, queue="good")) == (409, "conflict")


async def test_a_changed_definition_has_an_event_and_an_audit_row(site: Site) -> None:
    shop = await node_token(site, "shop")
    for options in ({"max_attempts": 5}, {"max_attempts": 5}, {"max_attempts": 7}):
        assert (await define(site, shop, **options)).status_code == 200
    rows = (await site.ask("GET", "/audit")).json()["items"]
    defined = [row for row in rows if row["subject"] == "type:render"]
    assert [row["actor"] for row in defined] == ["node:worker"] * 2, "a repeat changes nothing"
    latest = max(defined, key=lambda row: row["seq"])["detail"]
    attempts = [latest[side]["options"]["max_attempts"] for side in ("before", "after")]
    assert attempts == [5, 7]
    events = [
        event for event in await read_all(site.services.store) if event.kind == "type.defined"
    ]
    assert [event.data["type"] for event in events] == ["render"] * 2
    assert (await site.ask("GET", "/audit/verify")).json()["ok"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": -7},
        {"priority": 99},
        {"timeout_seconds": -1},
        {"queue": "a\0b"},
        {"queue": ""},
        {"max_deaths": 0},
        {"retry_base_seconds": 1e300},
        {"progress_timeout_seconds": 0},
        {"limit": {"max_running": 0}},
        {"key_limit": {"rate_count": 1, "rate_seconds": 0}},
        {"max_attempts": 10**30},
    ],
)
async def test_a_definition_is_checked_as_in_code(site: Site, options: dict[str, Any]) -> None:
    token = await node_token(site, "shop")
    answer = await define(site, token, **options)
    assert problem(answer) == (422, "invalid-input"), answer.text


async def test_one_key_of_two_tokens_of_one_name_is_two_requests(site: Site) -> None:
    headers = {"Idempotency-Key": "k-1"}
    made = []
    for project in ("shop", "mill"):
        token = await site.token("operator", projects=[project])
        answer = await site.ask("POST", "/tasks", {"type": "mail"}, token=token, headers=headers)
        assert answer.json()["task"]["project"] == project
        made.append(answer.json()["task"]["id"])
    assert len(set(made)) == 2


async def test_an_unknown_option_is_refused_by_name(site: Site) -> None:
    refused = await define(site, ADMIN, concurrency=50)
    assert problem(refused) == (422, "invalid-input")
    assert "concurrency" in refused.json()["detail"]
