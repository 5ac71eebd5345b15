"""Tags of tasks over the API, and as the labels that nodes exchange."""

from __future__ import annotations

from typing import Any

from tests.integration.gateway.forge import Forge, a, admin
from tests.integration.gateway.support import Site, problem

__all__ = ["a", "admin"]


async def found(site: Site, q: str) -> list[str]:
    response = await site.ask("GET", "/tasks", q=q)
    assert response.status_code == 200, response.text
    return [row["id"] for row in response.json()["items"]]


async def test_a_task_has_tags_in_its_objects_its_copy_and_its_lists(site: Site) -> None:
    body = {"type": "mail", "tags": ["vip", "eu", "vip"], "metadata": {"tenant": "acme"}}
    task = (await site.ask("POST", "/tasks", body)).json()["task"]
    other = (await site.ask("POST", "/tasks", {"type": "mail"})).json()["task"]
    assert (task["tags"], other["tags"]) == (["eu", "vip"], [])
    assert await found(site, "tag:vip meta.tenant:acme") == [task["id"]]
    assert await found(site, "-tag:vip") == [other["id"]]
    [row] = (await site.ask("GET", "/tasks", q="tag:eu")).json()["items"]
    assert row["tags"] == ["eu", "vip"]
    copy = (await site.ask("POST", f"/tasks/{task['id']}/copy", {"reason": "again"})).json()
    assert copy["tags"] == ["eu", "vip"]
    batch = {"tasks": [{"type": "mail", "tags": ["late"]}, {"type": "mail"}]}
    made = (await site.ask("POST", "/tasks/batch", batch)).json()["items"]
    assert await found(site, "tag:late") == [made[0]["id"]]
    facets = (await site.ask("GET", "/tasks/facets", q="tag:vip")).json()
    assert (facets["count"], facets["type"]) == (2, {"mail": 2})


async def test_an_edit_adds_and_removes_tags(site: Site) -> None:
    body = {"type": "mail", "tags": ["eu", "vip"], "delay_seconds": 100}
    task = (await site.ask("POST", "/tasks", body)).json()["task"]
    path = f"/tasks/{task['id']}"
    change: dict[str, Any] = {"tags": {"add": ["late"], "remove": ["eu", "none"]}, "reason": "r"}
    edited = await site.ask("PATCH", path, change)
    assert edited.json()["tags"] == ["late", "vip"]
    assert await found(site, "tag:late -tag:eu") == [task["id"]]
    events = (await site.ask("GET", f"{path}/history")).json()["items"]
    assert events[-1]["data"]["tags"] == {"added": ["late"], "removed": ["eu"]}
    assert problem(await site.ask("PATCH", path, {"tags": {"add": ["a\nb"]}}))[0] == 422
    assert problem(await site.ask("PATCH", path, {"tags": ["late"]}))[0] == 422
    assert problem(await site.ask("POST", "/tasks", {"type": "mail", "tags": "vip"}))[0] == 422


async def test_labels_of_nodes_are_tags(site: Site, a: Forge) -> None:
    await a.create(labels={"add": ["nightly"]})
    [row] = (await site.ask("GET", "/tasks", q="tag:nightly")).json()["items"]
    change = {"tags": {"add": ["vip"]}, "reason": "r"}
    await site.ask("PATCH", f"/tasks/{row['id']}", change)
    [seen] = (await a.post("/pull/proj", taskIds=["task-1"])).json()["tasks"]
    assert seen["labels"] == ["nightly", "vip"]
    item = {"id": "task-1", "expectedVersion": seen["version"]}
    await a.push({**item, "labels": {"add": ["late"], "remove": ["nightly", "vip"]}})
    assert (await site.ask("GET", f"/tasks/{row['id']}")).json()["tags"] == ["late"]
    assert await found(site, "tag:late") == [row["id"]]
    assert await found(site, "tag:nightly,vip") == []
