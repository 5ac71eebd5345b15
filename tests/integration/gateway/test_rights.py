"""The table of roles and operations over REST, cell by cell."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.rights import ORDER, RIGHTS, ROLES_OF, Operation, PrincipalKind, Right, Role
from holdfast.core.token import TokenKind
from holdfast.gateway.rest.route import Route
from holdfast.gateway.rest.v1 import ROUTES
from tests.integration.gateway.support import Site, open_site, problem

KIND_OF: dict[Role, TokenKind] = {
    role: TokenKind(kind.value)
    for kind, roles in ROLES_OF.items()
    for role in roles
    if kind is not PrincipalKind.WEBHOOK
}
NODE = "node-1"
BODIES: dict[str, Any] = {
    "/tasks": {"type": "mail"},
    "/tasks/batch": {"tasks": [{"type": "mail"}]},
    "/tasks/{task_id}": {"payload": {"n": 2}},
    "/tasks/{task_id}/interventions": {"type": "PAUSE", "reason": "r"},
    "/decisions/{decision_id}": {"choice": 1},
    "/operations": {"action": "replay", "ids": []},
    "/schedules/{name}": {"spec": "0 3 * * *", "type": "mail"},
    "/schedules/{name}/backfill": {"since": "2020-08-01"},
    "/conflicts/{conflict_id}/settle": {"take": "server"},
    "/projects": {"id": "web"},
    "/task-groups": {"tasks": [{"type": "mail"}]},
    "/types/{name}/weights": {"key": "a", "weight": 2},
    "/types": {"definitions_json": "[]"},
    "/tokens": {"name": "x", "roles": ["viewer"]},
    "/hosts": {"name": "web-1"},
    "/hosts/import": {"hosts": []},
    "/groups": {"name": "front", "selector": "*"},
    "/groups/{group}": {"selector": "*"},
    "/blocks": {"selector": "*", "reason": "r"},
    "/webhooks": {"name": "ci"},
    "/presets/{kind}/{name}": {"body": {"q": ""}},
    "/jobs": {"command_type": "noop", "selector": "*"},
    "/webhook/jobs": {"command_type": "noop", "selector": "*"},
    "/webhook/jobs/{source}": {"command_type": "noop", "selector": "*"},
    "/jobs/{job_id}/break-glass": {"ticket": "T-1"},
}
QUERIES: dict[str, dict[str, Any]] = {
    "/hosts/select": {"selector": "*"},
    "/presets": {"kind": "view"},
}
NEEDED: dict[str, str] = {"POST /tasks/{task_id}/copy": "tasks.copy"}


def body_of(route: Route) -> Any:
    if route.body is None:
        return None
    return BODIES.get(route.path, {})


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_names_its_operation() -> None:
    assert [name(route) for route in ROUTES if not route.operation] == [
        "GET /about",
        "GET /rights",
        "GET /whoami",
    ]


@pytest.mark.parametrize("role", [role for role in ORDER if role in KIND_OF])
async def test_each_cell_of_the_table(role: Role) -> None:
    """A cell that denies answers 403; every other answers anything but 401 and 403."""
    async with open_site("sqlite://") as site:
        task = (await site.task(payload={"n": 1}))["id"]
        kind = KIND_OF[role]
        node = NODE if kind in (TokenKind.NODE, TokenKind.AGENT) else None
        secret = await site.token(role.value, kind=kind, node_id=node)
        for route in ROUTES:
            path = route.path.replace("{task_id}", task).replace("{node_id}", NODE)
            path = (
                path.replace("{kind}", "view")
                .replace("{name}", "default")
                .replace("{resource}", "r")
            )
            path = path.replace("{token_id}", "tok_none").replace("{decision_id}", "dec_none")
            path = path.replace("{conflict_id}", "con_none").replace("{project}", "default")
            params = QUERIES.get(route.path, {})
            answer = await site.ask(route.method, path, body_of(route), token=secret, **params)
            right = Right.ALLOWED
            if route.operation:
                right = RIGHTS[role, Operation(route.operation)]
            if right is Right.DENIED:
                assert problem(answer) == (403, "forbidden"), name(route)
            else:
                assert answer.status_code not in (401, 403, 500), (name(route), answer.text)


async def test_without_a_token_nothing_is_answered(memory_site: Site) -> None:
    for route in ROUTES:
        answer = await memory_site.ask(route.method, route.path, body_of(route), token=None)
        code = "bad-signature" if route.is_signed else "unauthenticated"
        assert problem(answer) == (401, code), name(route)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic x", "Bearer hf_user_x", "bearer " + "x" * 1000]
)
async def test_a_wrong_header_is_refused(memory_site: Site, header: str) -> None:
    answer = await memory_site.ask("GET", "/tasks", token=None, headers={"Authorization": header})
    assert problem(answer) == (401, "unauthenticated")


async def test_a_token_in_the_url_counts_for_nothing(memory_site: Site) -> None:
    secret = await memory_site.token("admin")
    answer = await memory_site.ask("GET", "/tasks", token=None, token_="x", access_token=secret)
    assert problem(answer) == (401, "unauthenticated")


async def test_scopes_narrow_a_role(memory_site: Site) -> None:
    secret = await memory_site.token("admin", scopes=["tasks.read"])
    assert (await memory_site.ask("GET", "/tasks", token=secret)).status_code == 200
    assert problem(await memory_site.ask("GET", "/queues", token=secret)) == (403, "forbidden")


async def test_a_revoked_token_is_refused_at_once(site: Site) -> None:
    created = (await site.ask("POST", "/tokens", {"name": "ci", "roles": ["viewer"]})).json()
    assert (await site.ask("GET", "/tasks", token=created["token"])).status_code == 200
    rotated = (await site.ask("POST", f"/tokens/{created['id']}/rotate")).json()
    assert (await site.ask("GET", "/tasks", token=created["token"])).status_code == 401
    assert (await site.ask("GET", "/tasks", token=rotated["token"])).status_code == 200
    await site.ask("DELETE", f"/tokens/{created['id']}")
    assert (await site.ask("GET", "/tasks", token=rotated["token"])).status_code == 401


async def test_projects_are_isolated(site: Site) -> None:
    """What belongs to a foreign project looks like what does not exist."""
    ours = await site.token("operator", projects=["web"])
    mine = (await site.ask("POST", "/tasks", {"type": "mail"}, token=ours)).json()["task"]
    assert mine["project"] == "web"
    theirs = (await site.task())["id"]
    for method, path, body in [
        ("GET", f"/tasks/{theirs}", None),
        ("GET", f"/tasks/{theirs}/why", None),
        ("GET", f"/tasks/{theirs}/history", None),
        ("PATCH", f"/tasks/{theirs}", {"payload": 1}),
        ("POST", f"/tasks/{theirs}/copy", {}),
    ]:
        foreign = await site.ask(method, path, body, token=ours)
        absent = await site.ask(method, path.replace(theirs, "x"), body, token=ours)
        assert problem(foreign) == problem(absent) == (404, "not-found")
        assert foreign.json()["detail"].replace(theirs, "x") == absent.json()["detail"]
    rows = (await site.ask("GET", "/tasks", token=ours)).json()["items"]
    assert [row["id"] for row in rows] == [mine["id"]]
    events = (await site.ask("GET", "/events", token=ours)).json()["items"]
    assert {event["task_id"] for event in events} == {mine["id"]}
    made = await site.ask(
        "POST", "/operations", {"action": "abort", "ids": [theirs, "x", mine["id"]]}, token=ours
    )
    # A task of another project is left out like one that does not exist.
    left_out = [{"reason": "not-found", "count": 2}]
    assert (made.json()["total"], made.json()["errors"]) == (3, left_out)
    assert (await site.ask("GET", f"/tasks/{theirs}")).json()["status"] == "queued"
    wrong = await site.ask("POST", "/tasks", {"type": "mail", "project": "other"}, token=ours)
    assert problem(wrong) == (404, "not-found")
    queues = (await site.ask("GET", "/queues", token=ours)).json()["items"]
    assert [queue["counts"] for queue in queues] == [{"aborted": 1}]
    paused = await site.ask("POST", "/queues/default/pause", {}, token=ours)
    assert problem(paused) == (403, "forbidden")
    admin = await site.token("admin", projects=["web"])
    assert problem(await site.ask("GET", "/tokens", token=admin)) == (403, "forbidden")
    assert problem(await site.ask("GET", "/audit", token=admin)) == (403, "forbidden")


async def test_a_token_has_a_rate() -> None:
    async with open_site("sqlite://", rate_per_second=0.001, burst=3) as site:
        secret = await site.token("viewer")
        answers = [await site.ask("GET", "/whoami", token=secret) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert problem(answers[-1]) == (429, "rate-limited")
        assert int(answers[-1].headers["Retry-After"]) > 1
        assert (
            await site.ask("GET", "/whoami", token=await site.token("viewer"))
        ).status_code == 200
        assert (await site.ask("GET", "/whoami")).status_code == 200, "an administrator has none"
