"""Interventions and decisions over REST."""

from __future__ import annotations

from typing import Any

from holdfast.core import decision as rules
from holdfast.core.claiming import ClaimRequest
from holdfast.core.command import Instruction, Report
from holdfast.core.task import Task
from holdfast.store.decisions import Asked
from tests.integration.gateway.support import ADMIN, Site, problem

LONG = "a reason that is long enough"


async def claimed(site: Site, lease_seconds: float = 60.0) -> Task:
    """A new task, claimed by a node."""
    await site.task(payload={"n": 1})
    claim = ClaimRequest(
        node="node-1", queues=("default",), types=("mail",), limit=1, lease_seconds=lease_seconds
    )
    return (await site.services.store.claim(claim)).tasks[0]


async def asking(site: Site, **fields: Any) -> tuple[Task, str]:
    task = await claimed(site)
    question = rules.make_question("Go?", key="go", options=["yes", "no"], **fields)
    answer = await site.services.store.decisions.ask(task.id, task.fence, question)
    assert isinstance(answer, Asked)
    return task, answer.decision.id


async def test_an_intervention_and_its_ladder(site: Site) -> None:
    task = await claimed(site)
    path = f"/tasks/{task.id}/interventions"
    body = {"type": "PAUSE", "reason": "wait", "requested_by": "ann", "dry_run": True}
    foreseen = (await site.ask("POST", path, body)).json()
    assert foreseen["effect"] == {"from": "running", "to": "paused", "fence": task.fence + 1}
    assert (foreseen["runner"], foreseen["dry_run"]) == ("node-1", True)
    assert (await site.ask("GET", path)).json()["items"] == []
    answer = await site.ask("POST", path, body | {"dry_run": False})
    made = answer.json()["intervention"]
    assert (made["state"], made["actor"], made["claimed_by"]) == ("issued", "user:admin", "ann")
    assert answer.json()["task"]["status"] == "paused"
    await site.services.store.interventions.deliver("node-1")
    shown = (await site.ask("GET", f"/interventions/{made['id']}")).json()
    assert shown["state"] == "delivered"
    assert [row["id"] for row in (await site.ask("GET", path)).json()["items"]] == [made["id"]]
    audit = (await site.ask("GET", "/audit")).json()["items"][0]
    assert (audit["operation"], audit["subject"]) == ("tasks.intervene", task.id)


async def test_a_repeated_request_gets_the_same_answer(site: Site) -> None:
    task = await claimed(site)
    path = f"/tasks/{task.id}/interventions"
    body = {"type": "RELEASE_LOCK", "reason": "again", "intervention_id": "my-1"}
    first = await site.ask("POST", path, body)
    second = await site.ask("POST", path, body)
    assert first.json()["intervention"] == second.json()["intervention"]
    keyed = {"Idempotency-Key": "k-1"}
    body = {"type": "PAUSE", "reason": "hold"}
    first = await site.ask("POST", path, body, headers=keyed)
    second = await site.ask("POST", path, body, headers=keyed)
    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len((await site.ask("GET", path)).json()["items"]) == 2


async def test_bad_interventions_are_refused(site: Site) -> None:
    task = await site.task()
    path = f"/tasks/{task['id']}/interventions"
    for body, expected in (
        ({"type": "NAP", "reason": "x"}, (422, "invalid-input")),
        ({"type": "PAUSE", "reason": ""}, (422, "invalid-input")),
        ({"type": "PAUSE", "reason": "x", "args": {"nap": 1}}, (422, "invalid-input")),
        ({"type": "REASSIGN", "reason": "x"}, (422, "invalid-input")),
        (
            {"type": "REASSIGN", "reason": "x", "args": {"to_node": "gone"}},
            (422, "invalid-input"),
        ),
        (
            {"type": "FORCE_STATUS", "reason": "short", "args": {"status": "failed"}},
            (422, "invalid-input"),
        ),
        ({"type": "RELEASE_LOCK", "reason": "x"}, (409, "not-locked")),
        ({"type": "RESUME", "reason": "x"}, (409, "illegal-transition")),
        ({"type": "PAUSE", "reason": "x", "expected_version": 9}, (409, "version-conflict")),
    ):
        assert problem(await site.ask("POST", path, body)) == expected, body
    force = {"type": "FORCE_STATUS", "reason": LONG, "args": {"status": "queued"}}
    operator = await site.token("operator")
    assert problem(await site.ask("POST", path, force, token=operator)) == (403, "forbidden")
    missing = await site.ask("POST", "/tasks/none/interventions", force)
    assert problem(missing) == (404, "not-found")


async def test_a_late_result_is_adopted_by_its_position(site: Site) -> None:
    task = await claimed(site)
    path = f"/tasks/{task.id}/interventions"
    await site.ask("POST", path, {"type": "RELEASE_LOCK", "reason": "too slow"})
    from holdfast.core.command import Complete, Instruction

    await site.services.store.apply([Instruction(task.id, Complete('"late"'), fence=task.fence)])
    events = (await site.ask("GET", f"/tasks/{task.id}/history")).json()["items"]
    late = next(event for event in events if event["kind"] == "task.late")
    args = {"status": "completed", "evidence": late["position"]}
    body = {"type": "FORCE_STATUS", "reason": LONG, "args": args}
    answer = await site.ask("POST", path, body)
    assert answer.json()["task"]["result"] == "late"
    wrong = body | {"args": args | {"evidence": events[0]["position"]}}
    assert problem(await site.ask("POST", path, wrong)) == (422, "invalid-input")


async def test_a_decision_without_data_shows_what_its_task_has_saved(site: Site) -> None:
    task = await claimed(site)
    saved = Instruction(task.id, Report(checkpoint_json='{"done":3}'), fence=task.fence)
    await site.services.store.apply([saved])
    question = rules.make_question("Go?", key="go", options=["yes", "no"])
    answer = await site.services.store.decisions.ask(task.id, task.fence, question)
    assert isinstance(answer, Asked)
    shown = (await site.ask("GET", f"/decisions/{answer.decision.id}")).json()
    assert shown["checkpoint"]["data"] == {"done": 3}
    assert (await site.ask("GET", f"/tasks/{task.id}")).json()["checkpoint"] == {"done": 3}


async def test_an_answer_to_another_version_of_a_decision(site: Site) -> None:
    _, id = await asking(site)
    current = {"state": "open", "version": 1}
    body = {"choice": "yes", "expected_version": 9}
    stale = await site.ask("POST", f"/decisions/{id}", body)
    assert problem(stale) == (409, "version-conflict")
    assert stale.json()["current"] == current
    matched = await site.ask(
        "POST", f"/decisions/{id}", {"choice": "yes"}, headers={"If-Match": '"v9"'}
    )
    assert problem(matched) == (412, "precondition-failed")
    assert matched.json()["current"] == current


async def test_a_decision_is_listed_read_and_answered(site: Site) -> None:
    task, id = await asking(site, data={"hosts": 14}, assignees=["role:approver"])
    approver, viewer = await site.token("approver"), await site.token("viewer")
    listed = await site.ask("GET", "/decisions", token=approver, q="state:open assignee:me")
    assert [row["id"] for row in listed.json()["items"]] == [id]
    mine = await site.ask("GET", "/decisions", token=viewer, q="state:open assignee:me")
    assert mine.json()["items"] == []
    shown = await site.ask("GET", f"/decisions/{id}", token=viewer)
    assert shown.json()["checkpoint"]["data"] == {"hosts": 14}
    assert shown.headers["ETag"] == '"v1"'
    body = {"choice": "yes", "reason": "green"}
    assert problem(await site.ask("POST", f"/decisions/{id}", body, token=viewer)) == (
        *(403, "forbidden"),
    )
    assert problem(await site.ask("POST", f"/decisions/{id}", body)) == (403, "forbidden")
    wrong = await site.ask("POST", f"/decisions/{id}", {"choice": "perhaps"}, token=approver)
    assert problem(wrong) == (422, "invalid-input")
    answer = await site.ask("POST", f"/decisions/{id}", body, token=approver)
    assert (answer.json()["state"], answer.json()["by"]) == ("decided", "user:approver")
    again = await site.ask("POST", f"/decisions/{id}", body, token=approver)
    assert again.json() == answer.json()
    other = await site.ask("POST", f"/decisions/{id}", {"choice": "no"}, token=approver)
    assert problem(other) == (409, "already-decided")
    assert other.json()["current"]["choice"] == "yes"
    assert (await site.ask("GET", f"/tasks/{task.id}")).json()["status"] == "queued"
    assert problem(await site.ask("GET", "/decisions", q="nap:1")) == (422, "invalid-input")
    assert problem(await site.ask("GET", "/decisions/dec_none")) == (404, "not-found")


async def test_the_submitter_does_not_decide_a_task_with_four_eyes(site: Site) -> None:
    """The server writes the submitter, whatever the request says, and an edit cannot remove it."""
    ann = await site.token("operator", "approver")
    metadata = {"four_eyes": True, "submitted_by": "user:ben"}
    body = {"type": "mail", "metadata": metadata}
    made = (await site.ask("POST", "/tasks", body, token=ann)).json()["task"]
    name = (await site.ask("GET", "/whoami", token=ann)).json()["name"]
    assert made["metadata"]["submitted_by"] == name
    claim = ClaimRequest(
        node="node-1", queues=("default",), types=("mail",), limit=1, lease_seconds=60.0
    )
    task = (await site.services.store.claim(claim)).tasks[0]
    question = rules.make_question("Go?", key="go", options=["yes", "no"])
    asked = await site.services.store.decisions.ask(task.id, task.fence, question)
    assert isinstance(asked, Asked)
    path = f"/decisions/{asked.decision.id}"
    assert problem(await site.ask("POST", path, {"choice": "yes"}, token=ann)) == (
        *(403, "self-approval"),
    )
    patch = {"metadata": {"submitted_by": None}, "reason": "mine"}
    edited = await site.ask("PATCH", f"/tasks/{task.id}", patch, token=ann)
    assert problem(edited) == (422, "invalid-input")
    assert (await site.ask("POST", path, {"choice": "yes"})).json()["state"] == "decided"


async def test_a_task_is_assigned_only_to_a_node_that_can_claim_it(site: Site) -> None:
    for node, project in (("here", "default"), ("there", "shop"), ("gone", "default")):
        body: dict[str, object] = {"nodeId": node, "projectId": project}
        headers = {"Authorization": f"Bearer {ADMIN}"}
        await site.client.post("/api/v2/sync/nodes/register", json=body, headers=headers)
    await site.ask("POST", "/nodes/gone/revoke", {"reason": "stolen"})
    path = f"/tasks/{(await site.task())['id']}/interventions"
    for node in ("there", "gone", "none"):
        for dry_run in (True, False):
            args = {"to_node": node, "fallback_seconds": 0}
            asked = {"type": "REASSIGN", "reason": "move", "args": args, "dry_run": dry_run}
            assert problem(await site.ask("POST", path, asked)) == (422, "invalid-input")
    await site.services.store.heartbeat("gateway", '{"types": []}', [], 60.0)
    args = {"to_node": "gateway"}
    asked = {"type": "REASSIGN", "reason": "move", "args": args}
    assert problem(await site.ask("POST", path, asked)) == (422, "invalid-input"), "it runs no task"
    moved = {"type": "REASSIGN", "reason": "move", "args": {"to_node": "here"}}
    assert (await site.ask("POST", path, moved)).status_code in (200, 201)


async def test_a_version_that_is_not_the_current_one_is_answered_with_it(site: Site) -> None:
    task = await site.task()
    path = f"/tasks/{task['id']}/interventions"
    current = {"status": "queued", "version": task["version"]}
    body = {"type": "PAUSE", "reason": "r"}
    answer = await site.ask("POST", path, {**body, "expected_version": 9})
    assert problem(answer) == (409, "version-conflict")
    assert answer.json()["current"] == current
    answer = await site.ask("POST", path, body, headers={"If-Match": '"v9"'})
    assert problem(answer) == (412, "precondition-failed")
    assert answer.json()["current"] == current
