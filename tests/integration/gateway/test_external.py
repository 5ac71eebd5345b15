"""Tasks for nodes, which no worker runs, by the API of the product."""

from __future__ import annotations

import pytest

from tests.integration.gateway.forge import Forge, a
from tests.integration.gateway.support import Site, problem

__all__ = ["a"]


async def test_a_task_of_a_node_is_copied(site: Site, a: Forge) -> None:
    await a.create(payload={"goal": "report"}, metadata={"k": 1})
    await a.claim()
    result = await a.one(id="task-1", expectedVersion=2, status="completed", result=1)
    assert result["success"], result
    made = await site.ask("POST", "/tasks/task-1/copy", {"reason": "again"})
    assert made.status_code == 201, made.text
    copy = made.json()
    assert (copy["type"], copy["queue"], copy["project"]) == ("external", "external", "proj")
    assert (copy["payload"], copy["metadata"]["k"]) == ({"goal": "report"}, 1)
    lock = (await a.claim(copy["id"]))["lock"]
    assert lock["lockedBy"] == "plugin-a"


async def test_a_task_for_nodes_is_enqueued_without_a_handler(site: Site, a: Forge) -> None:
    body = {"type": "external", "id": "by-hand", "payload": 1, "project": "proj"}
    made = await site.ask("POST", "/tasks", body)
    assert made.status_code == 201, made.text
    assert made.json()["task"]["queue"] == "external"
    why = (await site.ask("GET", "/tasks/by-hand/why")).json()
    assert [reason["code"] for reason in why["reasons"]] == ["external"]
    assert (await a.claim("by-hand"))["task"]["payload"] == 1
    unknown = await site.ask("POST", "/tasks", {"type": "externall"})
    assert problem(unknown) == (422, "unknown-type")
    assert "external," not in unknown.json()["detail"]


@pytest.mark.parametrize("name", [".", ".."])
async def test_an_id_that_leaves_its_path_is_refused(site: Site, a: Forge, name: str) -> None:
    """Clients and proxies resolve such a path before it is sent: the task could not be reached."""
    refused = await a.one(id=name, expectedVersion=0)
    assert (refused["success"], refused["error"]) == (False, "INVALID_INPUT")
    made = await site.ask("POST", "/tasks", {"type": "mail", "id": name})
    assert problem(made) == (422, "invalid-input")
