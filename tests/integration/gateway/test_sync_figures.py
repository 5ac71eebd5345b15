"""What `/api/v2/sync` counts, logs and measures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.core.task import RunId
from holdfast.core.worker.wire import Changes
from holdfast.store.script import Script, call, one
from holdfast.store.scripts import retention
from holdfast.sync.rows import own
from holdfast.sync.worker.messages import Inbound
from holdfast.sync.worker.receivers import Start, hello
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.integration.gateway.forge import Forge, a, admin, b, joined
from tests.integration.gateway.support import Site

__all__ = ["a", "admin", "b", "joined"]


async def task_of(site: Site) -> str:
    task_id: str = (await site.ask("GET", "/tasks", q="project:proj")).json()["items"][0]["id"]
    return task_id


async def test_metrics_of_heartbeats_and_pushes_are_kept(site: Site, a: Forge) -> None:
    """A total only rises within an attempt; attempts add up."""
    await a.create()
    await a.claim()
    for tokens in (10.0, 30.0, 20.0):
        await a.post("/tasks/task-1/heartbeat", metrics={"tokens": tokens})
    path = f"/tasks/{await task_of(site)}"
    assert (await site.ask("GET", path)).json()["metrics"] == {"tokens": 30.0}
    await a.post("/tasks/task-1/release")
    lock = (await a.claim())["lock"]
    version = (await site.ask("GET", path)).json()["version"]
    done = await a.one(
        id="task-1",
        expectedVersion=version,
        status="completed",
        result=1,
        fence=lock["fence"],
        metrics={"tokens": 5.0},
    )
    assert done["success"], done
    assert (await site.ask("GET", path)).json()["metrics"] == {"tokens": 35.0}


async def test_a_heartbeat_with_wrong_metrics_is_refused(a: Forge) -> None:
    await a.create()
    await a.claim()
    for metrics in ({"": 1.0}, {"n": -1.0}, {f"m{n}": 1.0 for n in range(101)}):
        answer = await a.post("/tasks/task-1/heartbeat", metrics=metrics)
        assert (answer.status_code, answer.json()["error"]) == (422, "INVALID_INPUT")


async def test_the_status_counts_what_is_open(site: Site, a: Forge, b: Forge, admin: Forge) -> None:
    await a.create()
    await a.claim()
    body = {"type": "ABORT", "taskId": "task-1", "reason": "r", "projectId": "proj"}
    assert (await admin.post("/intervene", **body)).status_code == 200
    shown = (await admin.get("/status/proj")).json()
    assert shown["interventions"] == {"pending": 1}
    assert shown["decisions"] == {"open": 0}
    lost = await a.post("/tasks/task-1/heartbeat")
    assert lost.json()["error"] == "LOCK_LOST"
    command = lost.json()["commands"][0]["id"]
    await a.post("/nodes/plugin-a/heartbeat", acks=[{"id": command, "outcome": "done"}])
    after = (await admin.get("/status/proj")).json()
    assert (after["interventions"], after["sync"]["fenced"]) == ({"pending": 0}, 1)


async def test_the_status_counts_pushes_of_others_and_resets(a: Forge, b: Forge) -> None:
    await a.create()
    lock = (await a.claim())["lock"]
    refused = await b.one(id="task-1", expectedVersion=2, status="completed", fence=lock["fence"])
    assert refused["error"] in ("NOT_RUNNER", "LOCK_LOST")
    reset = (await b.post("/pull/proj", cursor="another:1")).json()["reset"]
    assert reset["reason"] == "epoch"
    figures = (await a.get("/status/proj")).json()["sync"]
    assert (figures["fenced"], figures["resets"]) == (1, 1)


async def test_messages_of_workers_are_counted(site: Site) -> None:
    store = site.services.store
    sync = WorkerSync(store, site.services.clock)
    greeting = await hello(store, Start("w1", 0, "boot"))
    assert greeting.receiver is not None
    incarnation = greeting.receiver.incarnation
    for sequence in (1, 1, 5):
        await sync.apply([Inbound("w1", incarnation, sequence, Changes(), "proj")])
    await sync.apply([Inbound("w1", incarnation - 1, 2, Changes(), "proj")])
    headers = {"Authorization": f"Bearer {await site.token('viewer')}"}
    answer = await site.client.get("/api/v2/sync/status/proj", headers=headers)
    figures = answer.json()["sync"]
    assert [figures[name] for name in ("duplicates", "gaps", "fenced")] == [1, 1, 1]


async def test_a_registration_is_logged(a: Forge) -> None:
    entries = (await a.get("/log/proj")).json()["entries"]
    assert [(entry["op"], entry["nodeId"], entry["outcome"]) for entry in entries] == [
        ("register", "plugin-a", "accepted")
    ]


async def test_the_log_of_a_project_is_bounded(site: Site, a: Forge) -> None:
    for n in range(4):
        await a.create(f"task-{n}")
    gone = await site.services.store.run(lambda _, __, now: retention.forget(now, 100, log_rows=2))
    assert gone == 3, "a registration and four pushes were logged"
    entries = (await a.get("/log/proj")).json()["entries"]
    assert [entry["taskId"] for entry in entries] == ["task-2", "task-3"]


async def test_a_node_learns_of_runs_that_the_server_has_ended(a: Forge, admin: Forge) -> None:
    """A run that the node ended itself is not lost."""
    for name in ("task-1", "task-2", "task-3"):
        await a.create(name)
        await a.claim(name)
    await a.post("/tasks/task-2/release")
    body = {"type": "ABORT", "taskId": "task-1", "reason": "r", "projectId": "proj"}
    assert (await admin.post("/intervene", **body)).status_code == 200
    beat = (await a.post("/nodes/plugin-a/heartbeat")).json()
    assert beat["lost"] == [{"taskId": "task-1", "fence": 1, "reason": "aborted"}]
    assert [run["taskId"] for run in beat["held"]] == ["task-3"]


async def test_a_node_shows_its_lag_and_the_skew_of_its_clock(site: Site, a: Forge) -> None:
    start = (await a.post("/pull/proj")).json()["cursor"]
    [node] = (await a.get("/nodes/proj")).json()["nodes"]
    assert (node["clockSkewMs"], node["lag"]) == (None, {"events": None, "ms": None})
    ahead = int((site.services.now() + 3600) * 1000)
    await a.post("/nodes/plugin-a/heartbeat", cursor=start, timestamp=ahead)
    [node] = (await a.get("/nodes/proj")).json()["nodes"]
    assert 3_590_000 < node["clockSkewMs"] <= 3_600_000
    assert node["lag"] == {"events": 0, "ms": 0}
    await a.create()
    [node] = (await a.get("/nodes/proj")).json()["nodes"]
    status = (await a.get("/status/proj")).json()
    assert node["lag"]["events"] == status["lag"]["events"] == 1
    assert 0 <= node["lag"]["ms"] <= status["lag"]["maxMs"]
    keeps = site.services.queue.settings.keep_events
    assert 0 < status["lag"]["secondsUntilFalloff"] <= keeps
    wrong = await a.post("/nodes/plugin-a/heartbeat", timestamp=-1)
    assert (wrong.status_code, wrong.json()["error"]) == (422, "INVALID_INPUT")


async def test_a_gateway_shows_the_heartbeats_that_it_hears(site: Site, a: Forge) -> None:
    """Heartbeats within a half of the expected time are one interval."""
    await a.post("/nodes/plugin-a/heartbeat")
    shown = (await site.ask("GET", "/nodes/plugin-a")).json()
    assert (shown["heartbeats"], shown["skew_seconds"]) == ([], None)
    assert shown["heartbeat_seconds"] == site.services.rules.heartbeat_seconds
    behind = int((site.services.now() - 90) * 1000)
    await a.post("/nodes/plugin-a/heartbeat", timestamp=behind)
    shown = (await site.ask("GET", "/nodes/plugin-a")).json()
    assert -90.1 < shown["skew_seconds"] < -89.0
    [listed] = (await site.ask("GET", "/nodes")).json()["items"]
    assert listed["heartbeats"] == []


async def test_the_log_has_ends_of_leases_handshakes_and_acts_of_operators(
    site: Site, a: Forge, admin: Forge
) -> None:
    await a.create("task-1")
    await a.create("task-2")
    await a.claim("task-1")
    await a.post("/handshake/proj", taskVersions={})
    body = {"type": "RELEASE_LOCK", "taskId": "task-1", "reason": "r", "projectId": "proj"}
    assert (await admin.post("/intervene", **body)).status_code == 200
    await a.claim("task-2")
    await joined_again(a)
    entries = (await admin.get("/log/proj")).json()["entries"]
    shown = [(entry["op"], entry["nodeId"], entry["taskId"]) for entry in entries]
    assert ("handshake", "plugin-a", None) in shown
    assert ("intervene", "user:admin", "task-1") in shown
    [expired] = [entry for entry in entries if entry["op"] == "expire"]
    assert (expired["nodeId"], expired["taskId"]) == ("plugin-a", "task-2")
    assert expired["toVersion"] == expired["fromVersion"] + 1


async def joined_again(node: Forge) -> None:
    """The node starts again: the claims of its last incarnation end."""
    answer = await node.post("/nodes/register", nodeId=node.name, projectId="proj")
    assert answer.status_code == 200, answer.text


async def test_the_sweeper_logs_what_it_expires(site: Site, a: Forge) -> None:
    await a.create()
    await a.claim()
    store = site.services.store
    [run] = await store.runs.expired(at=store.now() + 400)
    await store.run(lambda _dialect, _ids, now: ended_lease(run, now))
    await store.runs.expire([run])
    [entry] = [e for e in (await a.get("/log/proj")).json()["entries"] if e["op"] == "expire"]
    assert (entry["taskId"], entry["nodeId"], entry["outcome"]) == (
        "task-1",
        "plugin-a",
        "accepted",
    )


def ended_lease(run: RunId, now: float) -> Script[None]:
    yield call(own("extend_lock"), id=run.task_id, fence=run.fence, until=now - 1, seconds=1.0)


async def test_a_dry_run_and_evidence_over_the_sync_api(site: Site, a: Forge, admin: Forge) -> None:
    await a.create()
    lock = (await a.claim())["lock"]
    body = {"type": "REASSIGN", "taskId": "task-1", "reason": "move it there"}
    to = {"toNode": "plugin-a", "fallbackMs": 5_000}
    dry = (await admin.post("/intervene", **body, args=to, dryRun=True)).json()
    assert dry["dryRun"]
    assert dry["effect"] == {"from": "running", "to": "queued", "fence": lock["fence"] + 1}
    assert (dry["runner"], dry["taskId"], dry["task"]["status"]) == (
        "plugin-a",
        "task-1",
        "running",
    )
    assert (await admin.get("/interventions/task-1")).json()["interventions"] == []
    issued = (await admin.post("/intervene", **body, args=to)).json()
    assert issued["intervention"]["args"] == to
    late = await a.one(
        id="task-1", expectedVersion=2, status="completed", result=7, fence=lock["fence"]
    )
    assert late["late"], late
    events = (await site.ask("GET", "/events", kinds="task.late")).json()["items"]
    args = {"status": "completed", "evidence": events[-1]["position"]}
    force = {
        "type": "FORCE_STATUS",
        "taskId": "task-1",
        "reason": "its result is right",
        "args": args,
    }
    done = (await admin.post("/intervene", **force)).json()
    assert (done["task"]["status"], done["task"]["result"]) == ("completed", 7)


async def test_events_of_a_push_name_the_mutation(site: Site, a: Forge, b: Forge) -> None:
    """A node recognises its own change in the feed."""
    await a.create(mutationId="m-1")
    await b.one(id="task-1", expectedVersion=1, metadata={"k": 1}, mutationId="m-2")
    events = (await site.ask("GET", "/events", kinds="task.enqueued,task.edited")).json()["items"]
    assert [
        (event["kind"], payload["client_id"], payload["writer"], payload["mutation_id"])
        for event in events
        if (payload := event.get("payload") or event["data"])
    ] == [
        ("task.enqueued", "task-1", "plugin-a", "m-1"),
        ("task.edited", "task-1", "plugin-b", "m-2"),
    ]


SILENT = """written:UPDATE holdfast_node SET seen_at = seen_at - 3600, lost_at = seen_at"""


async def test_every_request_of_a_node_shows_that_it_lives(
    site: Site, a: Forge, admin: Forge
) -> None:
    """A node that claims and pushes may send no heartbeats."""
    await a.create()
    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: a.post("/handshake/proj", taskVersions={}),
        lambda: a.post("/pull/proj", taskIds=["task-1"]),
        lambda: a.push({"id": "task-1", "expectedVersion": 1, "metadata": {"k": 1}}),
        a.claim,
        lambda: a.post("/tasks/task-1/heartbeat"),
        lambda: a.post("/tasks/task-1/release"),
    ]
    for request in requests:
        await site.services.store.run(lambda *_: one(call(SILENT)))
        assert (await admin.get("/status/proj")).json()["nodes"]["live"] == 0
        await request()
        assert (await admin.get("/status/proj")).json()["nodes"]["live"] == 1
    kinds = [event["kind"] for event in (await site.ask("GET", "/events")).json()["items"]]
    assert kinds.count("node.state") == len(requests), "it is back"
    await site.services.store.run(lambda *_: one(call(SILENT)))
    await admin.post("/pull/proj", nodeId="plugin-a", taskIds=[])
    nodes = (await admin.get("/status/proj")).json()["nodes"]
    assert nodes["live"] == 0, "an administrator who speaks for it is not the node"
