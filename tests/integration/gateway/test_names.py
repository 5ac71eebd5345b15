"""A name stands for one task of a project, whichever way it was given. A request with a key acts once."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.intervention_args import intervention_request
from holdfast.errors import NotFound
from holdfast.gateway.rest.v1 import ROUTES
from holdfast.queue.by import By
from tests.integration.gateway.support import ADMIN, Site


async def v2(site: Site, path: str, body: dict[str, Any], **headers: str) -> Any:
    return await site.client.post(
        f"/api/v2/sync{path}", json=body, headers={"Authorization": f"Bearer {ADMIN}", **headers}
    )


async def push(site: Site, node: str, project: str, **item: Any) -> dict[str, Any]:
    answer = await v2(site, f"/push/{project}", {"nodeId": node, "tasks": [item]})
    [result] = answer.json()["results"]
    return dict(result)


async def test_an_id_that_a_node_has_given_as_a_name_is_taken(site: Site) -> None:
    await v2(site, "/nodes/register", {"nodeId": "n1", "projectId": "proj"})
    assert (await push(site, "n1", "proj", id="task-1", expectedVersion=0))["success"]
    body = {"type": "mail", "id": "task-1", "project": "proj"}
    taken = await site.ask("POST", "/tasks", body)
    assert (taken.status_code, taken.json()["code"]) == (409, "duplicate-task"), taken.text
    assert "name" in taken.json()["detail"]
    batch = await site.ask("POST", "/tasks/batch", {"tasks": [body]})
    assert batch.status_code == 409
    other = await site.ask("POST", "/tasks", {**body, "project": "default"})
    assert other.status_code == 201, "a name belongs to its project"
    pulled = await v2(site, "/pull/proj", {"nodeId": "n1"})
    assert [task["id"] for task in pulled.json()["tasks"]] == ["task-1"]
    both = await v2(site, "/intervene", {"type": "ABORT", "taskId": "task-1", "reason": "x"})
    assert (both.status_code, both.json()["error"]) == (409, "AMBIGUOUS_ID")


async def test_a_node_cannot_take_the_id_of_a_task_as_a_name(site: Site) -> None:
    await v2(site, "/nodes/register", {"nodeId": "n1", "projectId": "proj"})
    plain = await site.task(project="proj")
    assert (await push(site, "n1", "proj", id="named", expectedVersion=0))["success"]
    listed = (await site.ask("GET", "/tasks")).json()["items"]
    [named] = [task["id"] for task in listed if task["id"] != plain["id"]]
    for task_id in (plain["id"], named):
        refused = await push(site, "n1", "proj", id=task_id, expectedVersion=0, payload="mine")
        assert (refused["success"], refused["error"]) == (False, "VERSION_CONFLICT")
        # Both APIs act on the same task under this id.
        body = {"type": "PAUSE", "taskId": task_id, "projectId": "proj", "reason": "x"}
        assert (await v2(site, "/intervene", body)).status_code == 200
        seen = (await site.ask("GET", f"/tasks/{task_id}")).json()
        assert seen["desired"] == "paused"
    pulled = await v2(site, "/pull/proj", {"nodeId": "n1", "taskIds": [named, "gone"]})
    assert [task["id"] for task in pulled.json()["tasks"]] == ["named"]
    assert pulled.json()["missing"] == ["gone"]


async def test_the_id_of_a_task_of_another_project_tells_nothing_of_it(site: Site) -> None:
    """Ids are unique in the store. The answer is that of any other request under the id."""
    token = await site.token("operator", projects=["ours"])
    secret = {"type": "mail", "id": "taken", "project": "theirs", "payload": {"n": "hidden"}}
    assert (await site.ask("POST", "/tasks", secret)).status_code == 201
    own = {"type": "mail", "id": "mine", "project": "ours"}
    assert (await site.ask("POST", "/tasks", own, token=token)).status_code == 201
    answers = [
        await site.ask("POST", "/tasks", {**own, "id": id, "payload": 2}, token=token)
        for id in ("taken", "mine")
    ]
    assert [answer.status_code for answer in answers] == [409, 409]
    foreign, ours = (answer.json() for answer in answers)
    assert (foreign["code"], foreign["detail"].replace("taken", "mine")) == (
        *("duplicate-task", ours["detail"]),
    )
    assert "theirs" not in answers[0].text
    for path in ("/tasks/{}", "/tasks/{}/why", "/tasks/{}/history"):
        seen, none = [
            await site.ask("GET", path.format(id), token=token) for id in ("taken", "none")
        ]
        assert seen.status_code == none.status_code == 404
        assert seen.json()["detail"].replace("taken", "none") == none.json()["detail"]
    # A name is of its project: a node may give it.
    await v2(site, "/nodes/register", {"nodeId": "n1", "projectId": "ours"})
    assert (await push(site, "n1", "ours", id="taken", expectedVersion=0))["success"]


async def test_an_intervention_with_a_key_acts_once(site: Site) -> None:
    task = (await site.task())["id"]
    body = {"type": "ABORT", "taskId": task, "reason": "because"}
    first = await v2(site, "/intervene", body, **{"Idempotency-Key": "k1"})
    again = await v2(site, "/intervene", body, **{"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (200, 200), again.text
    assert again.json() == first.json()
    assert first.json()["task"]["status"] == "aborted"
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await v2(site, "/intervene", {**body, "reason": "y"}, **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]) == (422, "MUTATION_REUSED")
    rows = (await site.ask("GET", f"/tasks/{task}/interventions")).json()["items"]
    assert len(rows) == 1


BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("PATCH", "/tasks/{task_id}"): {"payload": {"n": 2}},
    ("POST", "/tasks/{task_id}/copy"): {},
    ("POST", "/tasks/{task_id}/interventions"): {"type": "PAUSE", "reason": "x"},
    ("POST", "/dead-letters/{task_id}/replay"): {},
    ("POST", "/dead-letters/{task_id}/discard"): {},
}
"""Bodies of the requests that need one."""


async def test_every_request_about_a_task_takes_the_name_that_a_node_gave(site: Site) -> None:
    await v2(site, "/nodes/register", {"nodeId": "n1", "projectId": "proj"})
    pushed = await push(site, "n1", "proj", id="task-1", type="mail", expectedVersion=0)
    assert pushed["success"], pushed
    [task] = (await site.ask("GET", "/tasks")).json()["items"]
    for route in (route for route in ROUTES if "{task_id}" in route.path):
        body = BODIES.get((route.method, route.path))
        path = route.path.format(task_id="task-1")
        by_name = await site.ask(route.method, path, body)
        unknown = await site.ask(route.method, path.replace("task-1", "task-2"), body)
        assert unknown.status_code == 404, unknown.text
        # No dead letter: the refusal is about the task that the name stands for.
        is_refused = "dead-letters" in path
        assert by_name.status_code == (409 if is_refused else route.status), by_name.text
        assert not is_refused or task["id"] in by_name.text
    shown = (await site.ask("GET", "/tasks/task-1")).json()
    assert (shown["id"], shown["client_id"], shown["desired"]) == (task["id"], "task-1", "paused")
    [row] = (await site.ask("GET", "/tasks/task-1/interventions")).json()["items"]
    assert row["task_id"] == task["id"]
    many = {"action": "abort", "ids": ["task-1", task["id"]], "dry_run": True}
    assert (await site.ask("POST", "/operations", many)).json()["count"] == 1


async def test_an_id_wins_over_a_name_and_two_names_are_refused(site: Site) -> None:
    for node, project in (("n1", "web"), ("n2", "shop")):
        await v2(site, "/nodes/register", {"nodeId": node, "projectId": project})
        assert (await push(site, node, project, id="task-1", expectedVersion=0))["success"]
    ids = {row["project"]: row["id"] for row in (await site.ask("GET", "/tasks")).json()["items"]}
    both = await site.ask("GET", "/tasks/task-1")
    assert (both.status_code, both.json()["code"]) == (409, "ambiguous-id")
    assert all(f"{ids[name]} ({name})" in both.json()["detail"] for name in ids), both.text
    token = await site.token("viewer", projects=["shop"])
    ours = (await site.ask("GET", "/tasks/task-1", token=token)).json()
    assert ours["id"] == ids["shop"]
    # A node cannot hide the task of another project behind a name.
    assert (await push(site, "n1", "web", id=ids["shop"], expectedVersion=0))["success"]
    assert (await site.ask("GET", f"/tasks/{ids['shop']}")).json()["project"] == "shop"
    token = await site.token("viewer", projects=["web"])
    named = (await site.ask("GET", f"/tasks/{ids['shop']}", token=token)).json()
    assert (named["project"], named["client_id"]) == ("web", ids["shop"])


async def test_a_queue_takes_the_name_that_a_node_gave(site: Site) -> None:
    await v2(site, "/nodes/register", {"nodeId": "n1", "projectId": "proj"})
    assert (await push(site, "n1", "proj", id="task-1", expectedVersion=0))["success"]
    queue = site.services.parts
    task = await queue.tasks.get("task-1")
    by = By("test")
    assert (await queue.tasks.pause("task-1", by)).id == task.id
    assert (await queue.tasks.resume("task-1", by)).id == task.id
    assert (await queue.tasks.edit("task-1", {"n": 1}, by)).id == task.id
    assert (await queue.tasks.why("task-1")).task_id == task.id
    assert (await queue.tasks.details("task-1")).client_id == "task-1"
    assert (await queue.tasks.history("task-1"))[0].task_id == task.id
    assert await queue.tasks.parents("task-1") == []
    assert await queue.tasks.dependents("task-1") == []
    request = intervention_request("ABORT", "because")
    assert (await queue.interventions.foresee("task-1", request, by)).task_id == task.id
    assert (await queue.interventions.issue("task-1", request, by)).task.id == task.id
    assert len(await queue.interventions.list("task-1")) == 1
    assert (await queue.tasks.wait("task-1", 5.0)).id == task.id
    with pytest.raises(NotFound, match="task-2"):
        await queue.tasks.cancel("task-2", by)


async def test_dependencies_take_the_names_that_nodes_gave(site: Site) -> None:
    for node, project in (("n1", "web"), ("n2", "shop")):
        await v2(site, "/nodes/register", {"nodeId": node, "projectId": project})
        assert (await push(site, node, project, id="task-1", expectedVersion=0))["success"]
    ids = {row["project"]: row["id"] for row in (await site.ask("GET", "/tasks")).json()["items"]}
    child = {"type": "mail", "project": "web", "depends_on": ["task-1"]}
    named = [{"id": "task-1", "policy": "ignore"}, ids["web"]]
    for body in (child, {**child, "idempotency_key": "k"}, {**child, "depends_on": named}):
        made = await site.ask("POST", "/tasks", body)
        assert made.status_code == 201, made.text
        task = (await site.ask("GET", f"/tasks/{made.json()['task']['id']}")).json()
        assert task["status"] == "blocked"
        assert [edge["id"] for edge in task["depends_on"]] == [ids["web"]]
    again = await site.ask("POST", "/tasks", {**child, "idempotency_key": "k"})
    assert (again.status_code, again.json()["created"]) == (200, False)
    batch = [{**child, "id": "first"}, {**child, "depends_on": ["first", "task-1"]}]
    many = await site.ask("POST", "/tasks/batch", {"tasks": batch})
    assert many.status_code == 201, many.text
    last = (await site.ask("GET", f"/tasks/{many.json()['items'][1]['id']}")).json()
    assert {edge["id"] for edge in last["depends_on"]} == {"first", ids["web"]}
    for parent in ("task-2", ids["shop"]):
        missing = await site.ask("POST", "/tasks", {**child, "depends_on": [parent]})
        assert (missing.status_code, missing.json()["code"]) == (422, "unknown-dependency")
        assert parent in missing.json()["detail"]


async def test_a_search_finds_the_name_that_a_node_gave(site: Site) -> None:
    for node, project in (("n1", "proj"), ("n2", "other")):
        await v2(site, "/nodes/register", {"nodeId": node, "projectId": project})
        assert (await push(site, node, project, id="task-1", expectedVersion=0))["success"]
        assert (await push(site, node, project, id="task-2", expectedVersion=0))["success"]

    async def found(q: str, token: str = ADMIN) -> list[tuple[str, str]]:
        items = (await site.ask("GET", "/tasks", q=q, token=token)).json()["items"]
        views = [(await site.ask("GET", f"/tasks/{item['id']}")).json() for item in items]
        return sorted((view["project"], view["client_id"]) for view in views)

    assert await found("id:task-1") == [("other", "task-1"), ("proj", "task-1")]
    assert await found("project:proj id:task-1,nothing") == [("proj", "task-1")]
    assert await found("project:proj -id:task-1") == [("proj", "task-2")]
    [row] = (await site.ask("GET", "/tasks", q="project:proj id:task-1")).json()["items"]
    assert await found(f"id:{row['id']}") == [("proj", "task-1")]
    theirs = await site.token("viewer", projects=["proj"])
    assert await found("id:task-1", theirs) == [("proj", "task-1")], "not of another project"
    body = {"action": "pause", "q": "project:proj id:task-2", "dry_run": True}
    assert (await site.ask("POST", "/operations", body)).json()["count"] == 1
