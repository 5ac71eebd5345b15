"""Jobs over the API: creation, reads, orders."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from holdfast.core.task import Task
from holdfast.core.token import TokenKind
from holdfast.gateway.settings import BODY_BYTES
from holdfast.store.script import Script
from holdfast.store.scripts.live import OutputRows, Stream
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import ADMIN, Site, problem

NOOP = {"command_type": "noop", "selector": "*"}


@pytest.fixture
def fleet(memory_site: Site) -> FleetSite:
    return FleetSite(memory_site)


@pytest.fixture
def stored_fleet(site: Site) -> FleetSite:
    """On both stores."""
    return FleetSite(site)


# -- creation ----------------------------------------------------------------------------------------


async def test_a_job_is_made_once(stored_fleet: FleetSite) -> None:
    fleet = stored_fleet
    names = await fleet.hosts(2)
    body = {"external_id": "deploy-42", "command_type": "noop", "hosts": [*names, names[0]]}
    first = await fleet.post(body)
    assert first.status_code == 202
    made = first.json()
    assert made == {
        "job_id": made["job_id"],
        "external_id": "deploy-42",
        "project": "default",
        "status": "NEW",
        "approval_state": "NOT_REQUIRED",
        "hosts": 2,
        "excluded": [],
        "digest": made["digest"],
        "created": True,
        "url": f"/jobs/{made['job_id']}",
        "dry_run": False,
        "folded": "",
        "plan": [],
        "waves": [],
        "approval": None,
        "rollout": {},
        "budget": {},
    }
    second = await fleet.post(body)
    assert second.status_code == 200
    assert second.json() == {**made, "created": False}
    other = await fleet.post({**body, "reason": "another"})
    assert problem(other) == (422, "idempotency-conflict")
    audit = (await fleet.get("/audit"))["items"]
    assert [row["operation"] for row in audit if row["subject"] == made["job_id"]] == [
        "jobs.create"
    ]
    assert (await fleet.get("/jobs/deploy-42"))["id"] == made["job_id"]


async def test_a_hundred_equal_requests_at_once_make_one_job(stored_fleet: FleetSite) -> None:
    fleet = stored_fleet
    await fleet.hosts(3)
    body = {**NOOP, "external_id": "deploy-42"}
    answers = await asyncio.gather(*(fleet.post(body) for _ in range(100)))
    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 99}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert len((await fleet.get("/jobs"))["items"]) == 1


async def test_the_same_calls_stand_without_a_prefix(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    made = await fleet.site.client.post("/webhook/jobs", json=NOOP, headers=headers)
    assert made.status_code == 202
    job = await fleet.site.client.get(made.json()["url"], headers=headers)
    assert job.json()["id"] == made.json()["job_id"]
    assert (await fleet.post(NOOP, path="/jobs")).status_code == 202


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**NOOP, "hosts": ["web-001"]}, (422, "invalid-input")),
        ({"command_type": "noop"}, (422, "invalid-input")),
        ({"command_type": "noop", "hosts": []}, (422, "empty-selection")),
        ({"command_type": "noop", "selector": "role=none"}, (422, "empty-selection")),
        ({"command_type": "noop", "selector": "((("}, (422, "bad-selector")),
        ({**NOOP, "command_type": "none"}, (422, "unknown-command-type")),
        ({**NOOP, "colour": "red"}, (422, "invalid-input")),
        ({**NOOP, "env": {"PATH": "/tmp"}}, (403, "command-refused")),
        ({**NOOP, "project": "A B"}, (422, "invalid-input")),
        ({**NOOP, "parent_job_id": "job_none"}, (422, "invalid-input")),
        ({**NOOP, "priority": "top"}, (422, "unknown-priority")),
        ({**NOOP, "secrets": {"X": {"name": "none"}}}, (403, "command-refused")),
        ({**NOOP, "command_type": "exec", "command": "x" * 70_000}, (413, "too-large")),
        ({**NOOP, "rollout": {"waves": ["x"]}}, (422, "invalid-input")),
    ],
)
async def test_a_wrong_request_is_refused(
    fleet: FleetSite, body: dict[str, Any], expected: tuple[int, str]
) -> None:
    await fleet.hosts(1)
    assert problem(await fleet.post(body)) == expected
    assert (await fleet.get("/jobs"))["items"] == []


async def test_unknown_hosts_are_named(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    answer = await fleet.post({"command_type": "noop", "hosts": ["nope", "web-001", "none"]})
    assert problem(answer) == (422, "unknown-host")
    assert [error["field"] for error in answer.json()["errors"]] == ["hosts[0]", "hosts[2]"]


async def test_a_huge_command_is_not_read(fleet: FleetSite) -> None:
    headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
    content = b'{"command": "' + b"x" * (10 * BODY_BYTES) + b'"}'
    answer = await fleet.site.client.post("/webhook/jobs", content=content, headers=headers)
    assert problem(answer) == (413, "too-large")


async def test_a_dry_run_shows_the_plan_and_writes_nothing(fleet: FleetSite) -> None:
    await fleet.hosts(4)
    await fleet.site.ask("POST", "/blocks", {"host": "web-002", "reason": "disk swap"})
    body = {**NOOP, "dry_run": True, "rollout": {"waves": [1, "rest"], "order": "name"}}
    answer = await fleet.post(body)
    assert (answer.status_code, "etag" in answer.headers) == (200, False)
    plan = answer.json()
    assert (plan["created"], plan["dry_run"], plan["hosts"]) == (False, True, 4)
    assert (plan["folded"], plan["waves"]) == ("web-[001-004]", [1, 3])
    rows = {row["host"]: (row["wave"], row["would_run"]) for row in plan["plan"]}
    assert rows == {
        "web-001": (1, True),
        "web-002": (2, False),
        "web-003": (2, True),
        "web-004": (2, True),
    }
    assert [(each["host"], each["reason"]) for each in plan["excluded"]] == [("web-002", "block")]
    assert (plan["rollout"]["max_in_flight"], plan["budget"]["canary"]["limit"]) == (50, 0)
    asked = (await fleet.post(body | {"command_type": "shell", "command": "true"})).json()
    assert (asked["approval"]["need"], asked["approval"]["have"]) != ({}, {})
    assert asked["approval"]["excluded"] == ["user:admin"]
    assert (await fleet.get("/jobs"))["items"] == []


# -- reads -------------------------------------------------------------------------------------------


async def test_a_job_shows_its_counts_and_executions(stored_fleet: FleetSite) -> None:
    fleet = stored_fleet
    await fleet.hosts(4)
    made = await fleet.job(rollout={"waves": [2, "rest"], "order": "name", "budget": {"failed": 4},
                                    "canary_budget": 4})  # fmt: skip
    job = await fleet.get(f"/jobs/{made['job_id']}")
    assert (job["counts"]["NEW"], job["waves_total"], job["drift"]) == (4, 2, None)
    assert [wave["state"] for wave in job["waves"]] == ["pending", "pending"]
    await fleet.run_out(made, failing="web-002")
    answer = await fleet.site.ask("GET", f"/jobs/{made['job_id']}", drift="true")
    job = answer.json()
    assert answer.headers["etag"] == f'"v{job["version"]}"'
    assert (job["status"], job["counts"]["SUCCESS"], job["counts"]["FAILED"]) == ("PARTIAL", 3, 1)
    assert job["kinds"] == {"failed": 1, "succeeded": 3}
    assert [(wave["size"], wave["state"]) for wave in job["waves"]] == [
        (2, "closed"),
        (2, "closed"),
    ]
    assert job["budget"]["failed"] == {"used": 1, "limit": 4}
    assert (job["drift"]["new_count"], job["drift"]["gone_count"]) == (0, 0)

    path = f"/jobs/{made['job_id']}/executions"
    failed = (await fleet.get(path, status="FAILED"))["items"]
    assert [(row["host"], row["kind"], row["wave"]) for row in failed] == [("web-002", "failed", 1)]
    one = await fleet.get(f"{path}/{failed[0]['id']}")
    assert one == failed[0] == await fleet.get(f"{path}/web-002")
    why = await fleet.get(f"{path}/web-002/why")
    assert [reason["code"] for reason in why["reasons"]] == ["ended"]
    found, after = [], None
    while True:
        params: dict[str, Any] = {"limit": 3} | ({} if after is None else {"after": after})
        body = await fleet.get(path, **params)
        found += [row["host"] for row in body["items"]]
        after = body["next"]
        if after is None:
            break
    assert found == [f"web-{n:03}" for n in range(1, 5)]
    plan = (await fleet.get(f"/jobs/{made['job_id']}/plan", limit=2))["items"]
    assert [(row["host"], row["wave"], row["would_run"]) for row in plan] == [
        ("web-001", 1, False),
        ("web-002", 1, False),
    ]


async def write(fleet: FleetSite, run: Task, data: bytes) -> None:
    def script(_dialect: object, _ids: object, now: float) -> Script[None]:
        rows, stream = OutputRows(), Stream(run.id, run.fence, "stdout")
        yield from rows.load({stream})
        yield from rows.add(stream, 0, data)
        yield from rows.save(now)

    await fleet.site.services.store.run(script)


async def test_the_output_of_hosts(fleet: FleetSite) -> None:
    await fleet.hosts(3)
    made = await fleet.job()
    await fleet.bench.plan(made["job_id"])
    task = (await fleet.bench.queued(made["job_id"]))[0]
    run = await fleet.bench.start(task)
    await write(fleet, run, b"ok \xc3\xa9\n")
    path = f"/jobs/{made['job_id']}/executions/{run.id}/logs"
    page = await fleet.get(path)
    assert (page["text"], page["next"], page["complete"]) == ("ok é\n", 6, False)
    raw = await fleet.site.ask("GET", path, headers={"Accept": "text/plain"})
    assert (raw.content, raw.headers["Holdfast-Output-Next"]) == (b"ok \xc3\xa9\n", "6")
    assert problem(await fleet.site.ask("GET", path, stream="x")) == (422, "invalid-input")
    folded = await fleet.get(f"/jobs/{made['job_id']}/output")
    assert (folded["groups"], folded["missing"]) == ([], "web-[001-003]")


async def test_lists_of_jobs_are_filtered(fleet: FleetSite) -> None:
    names = await fleet.hosts(2)
    first = await fleet.job(hosts=[names[0]])
    second = await fleet.job(hosts=[names[1]], parent_job_id=first["job_id"])
    await fleet.run_out(first)

    async def ids(**params: Any) -> list[str]:
        return [row["id"] for row in (await fleet.get("/jobs", **params))["items"]]

    assert await ids() == [second["job_id"], first["job_id"]]
    assert await ids(status="SUCCESS") == [first["job_id"]]
    assert await ids(q="status:NEW host:web-002") == [second["job_id"]]
    assert await ids(host="web-001") == [first["job_id"]]
    assert await ids(parent=first["job_id"]) == [second["job_id"]]
    assert await ids(limit=1) == [second["job_id"]]
    page = await fleet.get("/jobs", limit=1)
    assert await ids(limit=1, after=page["next"]) == [first["job_id"]]
    row = (await fleet.get("/jobs"))["items"][1]
    assert (row["ended"], row["status"]) == ({"SUCCESS": 1}, "SUCCESS")
    bad: tuple[dict[str, Any], ...] = ({"q": "colour:red"}, {"status": "GREEN"}, {"after": "x"})
    for params in bad:
        wrong = await fleet.site.ask("GET", "/jobs", **params)
        assert problem(wrong) == (422, "invalid-input")


# -- orders ------------------------------------------------------------------------------------------


async def test_orders_to_a_job(stored_fleet: FleetSite) -> None:
    fleet = stored_fleet
    await fleet.hosts(4)
    made = await fleet.job(rollout={"waves": [1, "rest"], "gate": "ask", "order": "name"})
    paused = await fleet.do("pause", made)
    assert (paused.json()["job"]["status"], paused.json()["repeated"]) == ("PAUSED", False)
    assert paused.headers["etag"] == f'"v{paused.json()["job"]["version"]}"'
    assert (await fleet.do("pause", made)).json()["repeated"] is True
    stale = await fleet.site.ask(
        "POST", f"/jobs/{made['job_id']}/resume", {}, headers={"If-Match": '"v1"'}
    )
    assert problem(stale) == (412, "precondition-failed")
    assert (await fleet.do("resume", made)).json()["job"]["halt"] is None
    await fleet.run_out(made)
    job = await fleet.get(f"/jobs/{made['job_id']}")
    assert [wave["state"] for wave in job["waves"]] == ["closed", "asked"]
    assert (await fleet.do("promote", made)).status_code == 200
    await fleet.bench.plan(made["job_id"])
    aborted = await fleet.do("abort", made, mode="kill")
    assert aborted.json()["job"]["halt"]["mode"] == "abort"
    job = await fleet.get(f"/jobs/{made['job_id']}")
    assert (job["counts"]["SUCCESS"], job["counts"]["CANCELLED"]) == (1, 3)
    late = await fleet.do("pause", made)
    assert problem(late) == (409, "illegal-transition")
    assert problem(await fleet.do("abort", made, mode="x")) == (422, "invalid-input")


async def test_a_rollout_is_changed_while_it_runs(fleet: FleetSite) -> None:
    await fleet.hosts(4)
    made = await fleet.job(rollout={"max_in_flight": 2})
    body = {"max_in_flight": 4, "budget": {"failed": 1}, "reason": "slow"}
    changed = await fleet.site.ask("PATCH", f"/jobs/{made['job_id']}", body)
    assert changed.status_code == 200, changed.text
    job = await fleet.get(f"/jobs/{made['job_id']}")
    assert (job["rollout"]["max_in_flight"], job["budget"]["failed"]["limit"]) == (4, 1)
    wrong = await fleet.site.ask("PATCH", f"/jobs/{made['job_id']}", {"max_in_flight": 0})
    assert problem(wrong) == (422, "invalid-input")
    asked = await fleet.asked()
    raised = await fleet.site.ask("PATCH", f"/jobs/{asked['job_id']}", {"max_in_flight": 60})
    assert problem(raised) in ((409, "approval-void"), (422, "invalid-input")), raised.text


async def test_what_failed_is_tried_again(fleet: FleetSite) -> None:
    await fleet.hosts(3)
    made = await fleet.job()
    assert problem(await fleet.do("retry", made)) == (409, "illegal-transition")
    await fleet.run_out(made, failing="web-002")
    again = await fleet.do("retry", made, only="failed,lost", external_id="again")
    assert (again.status_code, again.json()["hosts"]) == (202, 1)
    job = await fleet.get("/jobs/again")
    assert (job["parent_job_id"], job["hosts"]) == (made["job_id"], 1)
    repeat = await fleet.do("retry", made, only=["failed", "lost"], external_id="again")
    assert (repeat.status_code, repeat.json()["job_id"]) == (200, again.json()["job_id"])
    none = await fleet.do("retry", made, only="timeout")
    assert problem(none) == (422, "empty-selection")
    assert problem(await fleet.do("retry", made, only="x")) == (422, "invalid-input")


# -- rights ------------------------------------------------------------------------------------------


async def test_jobs_of_a_foreign_project_look_missing(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    made = await fleet.job(external_id="deploy")
    [execution] = await fleet.bench.executions(made["job_id"])
    token = await fleet.site.token("operator", "approver", projects=("web",))
    for method, path, body in (
        ("GET", "/jobs/{id}", None),
        ("GET", "/jobs/{id}/plan", None),
        ("GET", "/jobs/{id}/executions", None),
        ("GET", f"/jobs/{{id}}/executions/{execution.task_id}", None),
        ("GET", f"/jobs/{{id}}/executions/{execution.task_id}/logs", None),
        ("GET", "/jobs/{id}/output", None),
        ("POST", "/jobs/{id}/pause", {}),
        ("POST", "/jobs/{id}/approve", {"reason": "r"}),
        ("POST", "/jobs/{id}/retry", {}),
        ("PATCH", "/jobs/{id}", {"max_in_flight": 1}),
    ):
        for name in (made["job_id"], "deploy"):
            foreign = await fleet.site.ask(method, path.format(id=name), body, token=token)
            absent = await fleet.site.ask(method, path.format(id="job_none"), body, token=token)
            assert problem(foreign) == problem(absent) == (404, "not-found"), path
            assert foreign.json()["detail"].replace(name, "job_none") == absent.json()["detail"]
    assert (await fleet.get("/jobs", token=token))["items"] == []
    listed = await fleet.site.ask("GET", "/jobs", token=token, project="default")
    assert problem(listed) == (404, "not-found")
    refused = await fleet.post({**NOOP, "project": "default"}, token=token)
    assert problem(refused) == (404, "not-found")


async def test_the_project_of_a_job_is_that_of_the_token(fleet: FleetSite) -> None:
    token = await fleet.site.token("operator", projects=("web",))
    await fleet.site.ask("POST", "/hosts", {"name": "w"}, token=token)
    made = (await fleet.post(NOOP, token=token)).json()
    assert made["project"] == "web"
    body = {**NOOP, "external_id": "x"}
    one = (await fleet.post({**body, "project": "web"}, token=token)).json()
    same = (await fleet.post(body, token=token)).json()
    assert (same["job_id"], same["created"]) == (one["job_id"], False)


async def test_an_external_id_of_two_projects(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    await fleet.site.ask("POST", "/hosts", {"name": "w", "project": "web"})
    ours = await fleet.job(external_id="x")
    theirs = await fleet.job(external_id="x", project="web")
    assert (await fleet.get("/jobs/x", project="web"))["id"] == theirs["job_id"]
    assert (await fleet.get("/jobs/x", project="default"))["id"] == ours["job_id"]
    ambiguous = await fleet.site.ask("GET", "/jobs/x")
    assert problem(ambiguous) == (409, "ambiguous-id")


async def test_an_agent_reads_the_jobs_of_its_host(fleet: FleetSite) -> None:
    await fleet.hosts(2)
    host = await fleet.get("/hosts/web-001")
    ours = await fleet.job()
    theirs = await fleet.job(hosts=["web-002"])
    token = await fleet.site.token("agent", kind=TokenKind.AGENT, node_id=host["id"])
    rows = (await fleet.get("/jobs", token=token))["items"]
    assert [row["id"] for row in rows] == [ours["job_id"]]
    hidden = await fleet.site.ask("GET", f"/jobs/{theirs['job_id']}", token=token)
    assert problem(hidden) == (404, "not-found")
    path = f"/jobs/{ours['job_id']}/executions"
    assert [row["host"] for row in (await fleet.get(path, token=token))["items"]] == ["web-001"]
    plan = (await fleet.get(f"/jobs/{ours['job_id']}/plan", token=token))["items"]
    assert [row["host"] for row in plan] == ["web-001"]
    for suffix in ("/executions/web-002", "/executions/web-002/logs", "/output"):
        other = await fleet.site.ask("GET", f"/jobs/{ours['job_id']}{suffix}", token=token)
        assert problem(other) == (404, "not-found"), suffix


async def test_an_agent_learns_no_names_of_other_hosts(fleet: FleetSite) -> None:
    await fleet.hosts(3)
    [own, left_out] = [await fleet.get(f"/hosts/web-00{n}") for n in (1, 2)]
    body = {"host": left_out["name"], "command_type": "*", "reason": "disk"}
    await fleet.site.ask("POST", "/blocks", body)
    made = await fleet.job()
    await fleet.site.ask("DELETE", "/hosts/web-003", reason="sold")
    path = f"/jobs/{made['job_id']}?drift=true"
    whole = await fleet.get(path)
    assert (whole["excluded"][0]["host"], whole["drift"]["gone"]) == ("web-002", ["web-003"])
    token = await fleet.site.token("agent", kind=TokenKind.AGENT, node_id=own["id"])
    seen = await fleet.get(path, token=token)
    assert (seen["excluded"], seen["drift"]) == ([], None)
    assert "web-00" not in str(seen)
    for template in ("/hosts/select?selector={}", "/hosts?selector={}", "/hosts/{}"):
        there, not_there = [
            await fleet.site.ask("GET", template.format(name), token=token)
            for name in ("web-002", "web-009")
        ]
        assert problem(there) == problem(not_there)
        texts = [
            answer.json()["detail"].replace("web-002", "web-009") for answer in (there, not_there)
        ]
        assert texts[0] == texts[1]
    selected = await fleet.get("/hosts/select", selector="*", token=token)
    assert selected["hosts"] == ["web-001"]


async def test_failed_executions_are_no_dead_letters(fleet: FleetSite) -> None:
    """They are not counted, not listed and not offered for a replay; `retry` of the job is the way."""
    await fleet.hosts(2)
    made = await fleet.job()
    await fleet.run_out(made, failing="web-002")
    assert (await fleet.get("/stats"))["dead_letter_count"] == 0
    assert (await fleet.get("/dead-letters"))["items"] == []
    assert (await fleet.get("/dead-letters/groups"))["items"] == []
    failed = (await fleet.get("/tasks", q="status:failed"))["items"]
    assert [task["type"] for task in failed] == ["fleet.run"]
    why = await fleet.get(f"/tasks/{failed[0]['id']}/why")
    assert "retry its job" in str(why)
