"""Who speaks for a node over REST: its incarnation, its state, its credential, a join token."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.claim_by_id import ClaimById
from holdfast.core.decision import make_question
from holdfast.core.task import Task
from holdfast.core.token import TokenKind
from holdfast.gateway.connections import CONNECTIONS_MAX, Door
from holdfast.gateway.worker.door import WorkerDoor
from holdfast.store.decisions import Asked
from holdfast.sync.names import find_task
from tests.integration.gateway.forge import Forge, joined
from tests.integration.gateway.support import ADMIN, Site

HUGE = 10**400


async def restarted(site: Site, name: str, boot: str, **fields: Any) -> dict[str, Any]:
    admin = Forge(site, name, ADMIN)
    answer = await admin.post(
        "/nodes/register", nodeId=name, projectId="proj", bootId=boot, **fields
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_late_request_of_the_old_process_changes_nothing(site: Site) -> None:
    node = await joined(site, "n1", bootId="b1")
    await node.create("a")
    await restarted(site, "n1", "b2")
    lock = (await node.claim("a", incarnation=2))["lock"]
    for path, body in (
        ("/tasks/a/release", {}),
        ("/tasks/a/heartbeat", {}),
        ("/tasks/a/claim", {}),
        ("/tasks/a/output", {"start": 0, "text": "x"}),
        ("/tasks/a/checkpoints", {"checkpointId": "c", "type": "plan"}),
        ("/nodes/n1/heartbeat", {}),
        ("/push/proj", {"tasks": [{"id": "a", "expectedVersion": 1, "status": "completed"}]}),
    ):
        answer = await node.post(path, incarnation=1, **body)
        assert (answer.status_code, answer.json()["error"]) == (409, "NODE_FENCED"), path
        assert not answer.json().get("warnings")
    again = (await node.claim("a", incarnation=2))["lock"]
    assert again["fence"] == lock["fence"]
    released = await node.post("/tasks/a/release", incarnation=2)
    assert released.json()["released"] is True


async def test_the_holder_repeats_its_claim_after_a_restart(site: Site) -> None:
    node = await joined(site, "n1", bootId="b1")
    await node.create("a")
    fence = (await node.claim("a"))["lock"]["fence"]
    answer = await restarted(site, "n1", "b2", resume=[{"taskId": "a", "fence": fence}])
    assert [run["taskId"] for run in answer["resumed"]] == ["a"]
    assert (await node.claim("a"))["lock"]["fence"] == fence


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tasks/a/claim", {"lockDuration": HUGE}),
        ("/tasks/a/heartbeat", {"lockDuration": HUGE}),
        ("/tasks/a/release", {"incarnation": HUGE}),
        ("/intervene", {"type": "PAUSE", "taskId": "a", "reason": "x", "expiresInMs": HUGE}),
        (
            "/intervene",
            {"type": "RETRY", "taskId": "a", "reason": "x", "args": {"delayMs": HUGE}},
        ),
        (
            "/intervene",
            {
                "type": "REASSIGN",
                "taskId": "a",
                "reason": "x",
                "args": {"toNode": "n1", "fallbackMs": HUGE},
            },
        ),
    ],
)
async def test_a_huge_number_is_refused(memory_site: Site, path: str, body: dict[str, Any]) -> None:
    node = await joined(memory_site, "n1")
    await node.create("a")
    admin = Forge(memory_site, "n1", ADMIN)
    answer = await admin.post(path, nodeId="n1", **body)
    assert answer.status_code == 422, answer.text


async def join_token(site: Site, uses: int = 1) -> str:
    return await site.token("join", kind=TokenKind.JOIN, projects=["proj"], uses=uses)


async def join(site: Site, secret: str, node: str, boot: str, **fields: Any) -> Any:
    return await Forge(site, node, secret).post(
        "/nodes/register", nodeId=node, projectId="proj", bootId=boot, **fields
    )


async def test_a_join_token_never_takes_over_a_node(site: Site) -> None:
    node = await joined(site, "n1", bootId="b1")
    secret = await join_token(site, uses=10)
    for boot in ("b1", "b2"):
        for rotate in (False, True):
            await node.post("/nodes/n1/heartbeat")
            answer = await join(site, secret, "n1", boot, rotate=rotate)
            assert answer.status_code == 403, answer.text
            assert "credential" not in answer.json()
    beat = await node.post("/nodes/n1/heartbeat", incarnation=1)
    assert beat.status_code == 200, "it was not fenced"


async def test_a_registration_whose_answer_was_lost_is_repeated(site: Site) -> None:
    secret = await join_token(site)
    await join(site, secret, "n1", "b1")
    answer = await join(site, secret, "n1", "b1")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["incarnation"] == 1
    node = Forge(site, "n1", body["credential"])
    assert (await node.post("/nodes/n1/heartbeat")).status_code == 200
    assert (await join(site, secret, "n1", "b1")).status_code == 403, "it has its credential"
    assert (await join(site, secret, "n2", "b1")).status_code == 401, "the token is used up"


async def test_another_join_token_pays_for_the_repeat(site: Site) -> None:
    first, second = await join_token(site), await join_token(site)
    await join(site, first, "n1", "b1")
    answer = await join(site, second, "n1", "b1")
    assert "credential" in answer.json(), answer.text
    assert (await join(site, second, "n2", "b2")).status_code == 401, "its use is spent"


async def test_a_quarantined_node_reads_its_state_and_nothing_else(site: Site) -> None:
    node = await joined(site, "n1")
    await node.create("a")
    old = node.token
    rotated = await node.post("/nodes/register", nodeId="n1", projectId="proj", rotate=True)
    node = Forge(site, "n1", rotated.json()["credential"])
    await site.ask("POST", "/nodes/n1/quarantine", {"reason": "odd"})
    for token in (old, node.token):
        for method, path, body in (
            ("GET", "/tasks", None),
            ("GET", "/events", None),
            ("POST", "/tasks", {"type": "mail", "project": "proj"}),
            ("GET", "/decisions", None),
        ):
            answer = await site.ask(method, path, body, token=token)
            assert (answer.status_code, answer.json()["code"]) == (409, "node-fenced"), path
        assert (await site.ask("GET", "/nodes/n1", token=token)).status_code == 200
    assert (await node.post("/pull/proj")).status_code == 409
    await site.ask("POST", "/nodes/n1/revoke", {"reason": "gone"})
    for token in (old, node.token):
        assert (await site.ask("GET", "/nodes/n1", token=token)).status_code == 401


async def test_a_node_reads_the_decisions_that_its_runs_asked(site: Site) -> None:
    secrets = {}
    ids = {}
    for name in ("n1", "n2"):
        answer = await Forge(site, name, ADMIN).post(
            "/nodes/register", nodeId=name, projectId="default"
        )
        secrets[name] = answer.json()["credential"]
        task_id = (await site.task())["id"]
        store = site.services.store
        task = await store.by_id.claim(ClaimById(task_id, name, "c", 60.0))
        assert isinstance(task, Task)
        question = make_question("Deploy?", key="k", options=["yes", "no"], data={"by": name})
        asked = await store.decisions.ask(task_id, task.fence, question)
        assert isinstance(asked, Asked)
        ids[name] = asked.decision.id
    for name, other in (("n1", "n2"), ("n2", "n1")):
        listed = await site.ask("GET", "/decisions", token=secrets[name])
        assert [row["id"] for row in listed.json()["items"]] == [ids[name]]
        own = await site.ask("GET", f"/decisions/{ids[name]}", token=secrets[name])
        assert own.status_code == 200
        foreign = await site.ask("GET", f"/decisions/{ids[other]}", token=secrets[name])
        assert foreign.status_code == 404
    assert len((await site.ask("GET", "/decisions")).json()["items"]) == 2


async def test_a_worker_that_joined_counts_for_its_node(memory_site: Site) -> None:
    site, number = memory_site, CONNECTIONS_MAX + 5
    secret = await join_token(site, uses=100)
    door = WorkerDoor(Door(site.gateway), site.gateway.auth)
    admitted = []
    for n in range(number):
        one = await door.by_secret(secret, f"10.0.0.{n}")
        one.joined(f"w{n}")
        admitted.append(one)
    assert site.gateway.opened == {f"node:w{n}": 1 for n in range(number)}
    for one in admitted:
        one.close()
    assert not site.gateway.opened


async def test_only_the_node_that_held_a_fence_sends_its_late_result(site: Site) -> None:
    holder, other = await joined(site, "n1"), await joined(site, "n2")
    await holder.create("a")
    fence = (await holder.claim("a"))["lock"]["fence"]
    admin = Forge(site, "n1", ADMIN)
    await admin.post("/intervene", type="RELEASE_LOCK", taskId="a", reason="it hangs")
    late = {"id": "a", "expectedVersion": 1, "status": "completed", "result": "r"}
    for named in ({"fence": fence}, {"claimId": "guessed"}):
        forged = await other.one(**late, **named)
        assert (forged["success"], forged["error"], forged.get("late")) == (
            False,
            "NOT_RUNNER",
            None,
        )
    result = await holder.one(**late, fence=fence)
    assert (result["error"], result["late"]) == ("LOCK_LOST", True)
    found = await find_task(site.services.store, "a", project="proj", projects={"proj"})
    events = [
        event.data
        for event in await site.services.store.feed.history(found.task_id)
        if event.kind == "task.late"
    ]
    assert [(data["node"], data["fence"], data["result"]) for data in events] == [
        ("n1", fence, "r")
    ]
