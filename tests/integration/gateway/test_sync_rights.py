"""The table of roles and operations over `/api/v2/sync`, and the isolation of projects."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from holdfast.core.rights import ORDER, RIGHTS, Operation, Right, Role
from holdfast.core.token import TokenKind
from holdfast.gateway.rest.route import Route
from holdfast.gateway.rest.sync_v2 import PREFIX, ROUTES
from tests.integration.gateway.support import ADMIN, Site, open_site
from tests.integration.gateway.test_rights import KIND_OF

NODE = "plugin-a"
BODIES: dict[str, dict[str, Any]] = {
    "/nodes/register": {"nodeId": NODE, "projectId": "web"},
    "/nodes/{node_id}/heartbeat": {},
    "/handshake/{project}": {"nodeId": NODE},
    "/push/{project}": {"nodeId": NODE, "tasks": []},
    "/pull/{project}": {"nodeId": NODE},
    "/tasks/{task_id}/claim": {"nodeId": NODE},
    "/tasks/{task_id}/heartbeat": {"nodeId": NODE},
    "/tasks/{task_id}/release": {"nodeId": NODE},
    "/tasks/{task_id}/output": {"nodeId": NODE, "start": 0, "text": "x"},
    "/tasks/{task_id}/checkpoints": {"nodeId": NODE, "checkpointId": "ckp_1", "type": "plan"},
    "/intervene": {"type": "PAUSE", "taskId": "t", "reason": "r"},
    "/fix-expired-locks": {"projectId": "web"},
}


async def send(
    site: Site, route: Route, token: str | None, project: str = "web", node: str = NODE
) -> Any:
    path = route.path.replace("{node_id}", NODE).replace("{task_id}", "t")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    sent: dict[str, Any] = {"headers": headers}
    if route.body is not None:
        sent["json"] = BODIES[route.path]
        if route.path == "/nodes/register":
            sent["json"] = {**BODIES[route.path], "nodeId": node}
    return await site.client.request(
        route.method, PREFIX + path.replace("{project}", project), **sent
    )


async def post(site: Site, path: str, token: str, **body: Any) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return await site.client.post(PREFIX + path, json=body, headers=headers)


async def prepare(site: Site) -> str:
    """A node of the project `web` with one task. Returns its credential."""
    made = await post(site, "/nodes/register", ADMIN, nodeId=NODE, projectId="web")
    credential: str = made.json()["credential"]
    item = {"id": "t", "expectedVersion": 0}
    pushed = await post(site, "/push/web", credential, tasks=[item])
    assert pushed.json()["results"][0]["success"]
    return credential


def test_every_route_names_its_operation() -> None:
    assert [route.path for route in ROUTES if not route.operation] == []
    assert {route.path for route in ROUTES if route.body is not None} == set(BODIES)


@pytest.mark.parametrize("role", [role for role in ORDER if role in KIND_OF])
async def test_each_cell_of_the_table(role: Role) -> None:
    """A cell that denies answers 403 with an error name; every other answers neither 401, 403 nor 404."""
    async with open_site("sqlite://") as site:
        await prepare(site)
        kind = KIND_OF[role]
        node = NODE if kind is TokenKind.NODE else None
        secret = await site.token(role.value, kind=kind, node_id=node, projects=["web"])
        # A registration starts an incarnation; it goes last.
        for route in sorted(ROUTES, key=lambda route: route.path == "/nodes/register"):
            # A join token makes new nodes only.
            new = "another" if role is Role.JOIN else NODE
            answer = await send(site, route, secret, node=new)
            if RIGHTS[role, Operation(route.operation)] is Right.DENIED:
                assert answer.status_code == 403, (route.path, answer.text)
                assert answer.json()["error"] == "FORBIDDEN", route.path
            else:
                assert answer.status_code in (200, 409), (route.path, answer.text)


async def test_without_a_token_nothing_is_answered(memory_site: Site) -> None:
    for route in ROUTES:
        answer = await send(memory_site, route, None)
        assert (answer.status_code, answer.json()["error"]) == (401, "UNAUTHENTICATED"), route.path


@pytest.mark.parametrize("role", ["viewer", "operator", "approver"])
async def test_a_role_without_a_node_does_not_speak_for_one(role: str) -> None:
    """The same answer, whether the body names a node or not."""
    async with open_site("sqlite://") as site:
        await prepare(site)
        secret = await site.token(role, projects=["web"])
        for path in ("/push/web", "/pull/web", "/handshake/web", "/tasks/t/claim"):
            given: dict[str, Any] = {"tasks": []} if path == "/push/web" else {}
            assert (await post(site, path, secret, **given)).status_code == 403, path
            named = await post(site, path, secret, nodeId=NODE, **given)
            assert named.status_code == 403, path


async def test_force_needs_the_role_of_an_administrator(memory_site: Site) -> None:
    await prepare(memory_site)
    secret = await memory_site.token("operator", projects=["web"])
    body = {"type": "FORCE_STATUS", "taskId": "t", "reason": "r", "args": {"status": "failed"}}
    assert (await post(memory_site, "/intervene", secret, **body)).status_code == 403


async def test_projects_are_isolated(site: Site) -> None:
    """What belongs to a foreign project looks like what does not exist, for people and for nodes."""
    await prepare(site)
    made = await post(site, "/nodes/register", ADMIN, nodeId="stranger", projectId="shop")
    stranger = made.json()["credential"]
    operator = await site.token("operator", projects=["shop"])
    admin = await site.token("admin", projects=["shop"])
    for route in ROUTES:
        for secret in (operator, admin):
            answer = await send(site, route, secret)
            assert answer.status_code in (403, 404), (route.path, answer.text)
        own = {**BODIES.get(route.path, {}), "nodeId": "stranger"}
        if route.body is None or route.path in ("/nodes/register", "/fix-expired-locks"):
            continue
        path = route.path.replace("{node_id}", NODE).replace("{task_id}", "t")
        answer = await post(site, path.replace("{project}", "web"), stranger, **own)
        assert answer.status_code in (403, 404), (route.path, answer.text)
    for path in ("/status/web", "/log/web", "/nodes/web", "/interventions/t"):
        headers = {"Authorization": f"Bearer {operator}"}
        absent = path.replace("web", "none").replace("/t", "/none")
        foreign = await site.client.get(PREFIX + path, headers=headers)
        missing = await site.client.get(PREFIX + absent, headers=headers)
        assert (foreign.status_code, missing.status_code) == (404, 404), path
        assert foreign.json()["code"] == missing.json()["code"] == "not-found"
    foreign = await post(site, "/push/shop", admin, nodeId=NODE, tasks=[])
    missing = await post(site, "/push/shop", admin, nodeId="none", tasks=[])
    assert foreign.status_code == missing.status_code == 404
    assert foreign.json()["error"] == missing.json()["error"] == "NODE_UNKNOWN"
    assert foreign.json()["detail"].replace(NODE, "none") == missing.json()["detail"]
    task = (await site.ask("GET", "/tasks", q="project:web")).json()["items"][0]
    assert (task["status"], task["fence"]) == ("queued", 0)


async def test_a_name_stands_for_the_task_of_the_node_s_own_project(site: Site) -> None:
    """Two projects use one name."""
    first = await prepare(site)
    made = await post(site, "/nodes/register", ADMIN, nodeId="stranger", projectId="shop")
    second = made.json()["credential"]
    item = {"id": "t", "expectedVersion": 0, "payload": "shop"}
    assert (await post(site, "/push/shop", second, tasks=[item])).json()["results"][0]["success"]
    claimed = (await post(site, "/tasks/t/claim", second)).json()
    assert (claimed["task"]["projectId"], claimed["task"]["payload"]) == ("shop", "shop")
    pulled = (await post(site, "/pull/web", first)).json()["tasks"]
    assert [(task["status"], task["projectId"]) for task in pulled] == [("queued", "web")]


async def test_a_node_sees_itself_only(site: Site) -> None:
    credential = await prepare(site)
    await post(site, "/nodes/register", ADMIN, nodeId="plugin-b", projectId="web")
    headers = {"Authorization": f"Bearer {credential}"}
    page = (await site.client.get(f"{PREFIX}/nodes/web", headers=headers)).json()
    assert [node["nodeId"] for node in page["nodes"]] == [NODE]
