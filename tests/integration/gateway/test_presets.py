"""Views of tasks and templates of commands: kept under a name, shared in a project, on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.preset import BODY_BYTES_MAX, PRESETS_MAX
from tests.integration.gateway.support import ADMIN, Site, problem

VIEW = "/presets/view/late money"
BODY: dict[str, Any] = {"body": {"q": "status:queued type:invoice.*"}}


async def names(site: Site, kind: str, token: str = ADMIN) -> list[str]:
    answer = await site.ask("GET", "/presets", kind=kind, token=token)
    return [item["name"] for item in answer.json()["items"]]


async def test_a_view_is_kept_changed_and_removed(site: Site) -> None:
    made = (await site.ask("PUT", VIEW, {**BODY, "expected_version": 0})).json()
    assert (made["name"], made["body"], made["version"]) == ("late money", BODY["body"], 1)
    changed = await site.ask("PUT", VIEW, {"body": {"q": "status:failed"}, "expected_version": 1})
    assert changed.json()["version"] == 2
    assert problem(await site.ask("PUT", VIEW, {**BODY, "expected_version": 1}))[0] == 409
    listed = (await site.ask("GET", "/presets", kind="view")).json()["items"]
    assert [(one["name"], one["body"]["q"]) for one in listed] == [("late money", "status:failed")]
    assert await names(site, "template") == []
    assert (await site.ask("DELETE", VIEW, reason="not used")).status_code == 200
    assert problem(await site.ask("DELETE", VIEW)) == (404, "not-found")
    audit = (await site.ask("GET", "/audit")).json()["items"]
    acts = [(row["subject"], row["reason"]) for row in audit if row["operation"] == "presets.write"]
    assert acts == [("view late money", "not used"), *[("view late money", "")] * 2]


async def test_the_first_of_two_who_save_a_name_wins(site: Site) -> None:
    body = {**BODY, "expected_version": 0}
    answers = await asyncio.gather(*(site.ask("PUT", VIEW, body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]


async def test_a_template_has_the_fields_of_a_job(site: Site) -> None:
    body = {"selector": "role=web", "command_type": "restart", "command": "nginx"}
    made = await site.ask("PUT", "/presets/template/nginx", {"body": body})
    assert made.json()["body"] == body
    assert await names(site, "template") == ["nginx"]


async def test_what_cannot_be_kept_is_refused(memory_site: Site) -> None:
    refused: dict[str, list[dict[str, Any]]] = {
        "/presets/view/x": [{}, {"q": 1}, {"q": "status:"}, {"q": "", "more": 1}],
        "/presets/other/x": [{"q": ""}],
        "/presets/view/%20x": [{"q": ""}],
        f"/presets/view/{'x' * 81}": [{"q": ""}],
        "/presets/template/x": [{"command": "x" * BODY_BYTES_MAX}],
    }
    for path, bodies in refused.items():
        for body in bodies:
            answer = await memory_site.ask("PUT", path, {"body": body})
            assert answer.status_code in (400, 422), (path, body, answer.text)
    assert (await memory_site.ask("GET", "/presets")).status_code in (400, 422)
    assert await names(memory_site, "view") == []


async def test_a_project_has_its_own_and_not_without_end(memory_site: Site) -> None:
    secret = await memory_site.token("operator", projects=["web"])
    other = await memory_site.token("viewer", projects=["mail"])
    for n in range(PRESETS_MAX):
        kept = await memory_site.ask("PUT", f"/presets/view/v{n}", BODY, token=secret)
        assert kept.status_code == 200, kept.text
    assert problem(await memory_site.ask("PUT", VIEW, BODY, token=secret))[0] == 409
    assert (await memory_site.ask("PUT", "/presets/view/v0", BODY, token=secret)).status_code == 200
    assert len(await names(memory_site, "view", secret)) == PRESETS_MAX
    assert await names(memory_site, "view", other) == []
    assert problem(await memory_site.ask("PUT", VIEW, BODY, token=other)) == (403, "forbidden")
