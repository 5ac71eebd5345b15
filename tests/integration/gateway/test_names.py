"""A name stands for one task of a project, whichever way it was given. A request with a key acts once."""

from __future__ import annotations

from typing import Any

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
