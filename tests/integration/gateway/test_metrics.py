"""The figures of the hub: each is seen to move by the act that it counts."""

from __future__ import annotations

import pytest

from holdfast.core.claim_by_id import ClaimById
from holdfast.core.decision import make_question
from holdfast.core.intervention import AckOutcome
from holdfast.core.task import Task
from holdfast.core.worker.wire import Changes, TaskChange
from holdfast.engine import meters
from holdfast.gateway import figures
from holdfast.gateway.feed import metrics as feed_metrics
from holdfast.metrics import Family, Metrics
from holdfast.store.scripts.decisions import Asked
from holdfast.sync.worker.messages import Inbound
from holdfast.sync.worker.receivers import Start, hello
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.integration.gateway.forge import Forge, a, admin, b, joined
from tests.integration.gateway.support import Site

__all__ = ["a", "admin", "b", "joined"]


async def scraped(site: Site) -> str:
    response = await site.client.get("/metrics")
    assert response.status_code == 200, response.text
    return response.text


async def task_of(site: Site) -> str:
    task_id: str = (await site.ask("GET", "/tasks", q="project:proj")).json()["items"][0]["id"]
    return task_id


async def test_interventions_are_counted_and_timed(site: Site, a: Forge, admin: Forge) -> None:
    await a.create()
    await a.claim()
    body = {"type": "ABORT", "taskId": "task-1", "reason": "wrong", "projectId": "proj"}
    issued = (await admin.post("/intervene", **body)).json()["intervention"]
    value = site.services.metrics.value
    assert value(figures.INTERVENTIONS, type="ABORT", state="issued") == 1
    for _ in range(2):  # a repeated acknowledgement counts once
        await site.services.store.interventions.acknowledge(issued["id"], AckOutcome.DONE)
    assert value(figures.INTERVENTIONS, type="ABORT", state="applied") == 1
    assert value(figures.INTERVENTION_SECONDS, type="ABORT", state="applied") == 1


async def test_decisions_are_counted_and_timed(site: Site, a: Forge) -> None:
    await a.create()
    lock = (await a.claim())["lock"]
    question = make_question("Go?", key="go", options=("yes", "no"))
    asked = await site.services.store.decisions.ask(await task_of(site), lock["fence"], question)
    assert isinstance(asked, Asked)
    assert "holdfast_decisions_open 1\n" in await scraped(site)
    path = f"/decisions/{asked.decision.id}"
    for _ in range(2):  # a repeat counts once
        assert (await site.ask("POST", path, {"choice": "yes"})).status_code == 200
    assert site.services.metrics.value(figures.DECISION_SECONDS, outcome="decided") == 1
    assert "holdfast_decisions_open 0\n" in await scraped(site)


async def test_conflicts_and_late_results_are_counted(site: Site, a: Forge, b: Forge) -> None:
    await a.create()
    lock = (await a.claim())["lock"]
    refused = await b.one(id="task-1", expectedVersion=1, status="completed", result=1)
    assert refused["error"] == "NOT_RUNNER"
    value = site.services.metrics.value
    assert value(figures.CONFLICTS, state_type="status", resolution="REJECT") == 1
    await a.post("/tasks/task-1/release")
    late = await a.one(
        id="task-1", expectedVersion=2, status="completed", result=1, fence=lock["fence"]
    )
    assert late["resolution"] == "LATE"
    assert value(meters.LATE, kind="plugin") == 1
    assert value(figures.CONFLICTS, state_type="status", resolution="LATE") == 1


async def test_a_late_result_of_a_worker_is_counted(site: Site) -> None:
    task = await site.task()
    services = site.services
    sync = WorkerSync(services.store, services.clock, gather_seconds=0.0, meter=services.metrics)
    await hello(services.store, Start("w1", 1, "", registered=1))
    claimed = await services.store.by_id.claim(ClaimById(task["id"], "w1", "c1", 60.0))
    assert isinstance(claimed, Task)
    body = {"type": "RELEASE_LOCK", "reason": "it hangs"}
    await site.ask("POST", f"/tasks/{task['id']}/interventions", body)
    done = TaskChange(task_id=task["id"], fence=claimed.fence, status="completed", result_json="1")
    changes = Changes(task=(done,))
    (answer,) = await sync.apply([Inbound("w1", 1, 1, changes, "default")])
    await sync.close()
    assert answer.ack.refused
    assert services.metrics.value(meters.LATE, kind="worker") == 1


async def test_the_lag_of_nodes_is_sampled(site: Site, a: Forge) -> None:
    await a.create()
    await a.create("task-2")
    await a.post("/nodes/plugin-a/heartbeat", cursor=f"{await epoch(site)}:1")
    await site.services.figures.sample()
    assert site.services.metrics.value(figures.LAG_EVENTS, kind="plugin") == 1
    assert site.services.metrics.value(figures.LAG_SECONDS, kind="plugin") == 1
    text = await scraped(site)
    assert 'holdfast_sync_lag_events_bucket{kind="plugin",le="0"} 0\n' in text
    assert 'holdfast_sync_lag_events_bucket{kind="plugin",le="+Inf"} 1\n' in text


async def epoch(site: Site) -> str:
    return (await site.services.store.feed.head()).epoch


async def test_the_scrape_shows_waiting_tasks_hints_and_the_build(site: Site) -> None:
    await site.task(queue="mails")
    async with site.services.figures.running():
        site.services.wake()
        text = await scraped(site)
    assert 'holdfast_queue_oldest_seconds{queue="mails"}' in text
    assert 'holdfast_bus_mode{mode="p' in text
    assert 'holdfast_build_info{version="' in text
    for topic in ("work", "feed"):
        assert site.services.metrics.value(meters.HINTS, topic=topic) >= 1


def test_the_latency_of_the_feed_has_the_buckets_of_its_target() -> None:
    metrics = Metrics(feed_metrics.FAMILIES)
    labels = {"source": "operator", "target": "ws", "state_type": "critical"}
    metrics.observe("holdfast_sync_latency_seconds", 0.2, **labels)
    lines = [line for line in metrics.render().splitlines() if "_bucket" in line]
    bounds = [line.partition('le="')[2].partition('"')[0] for line in lines]
    assert bounds == ["0.01", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "+Inf"]
    assert [line.rpartition(" ")[2] for line in lines] == [*"000111111"]


@pytest.mark.parametrize("family", figures.FAMILIES, ids=lambda family: family.name)
def test_no_label_names_a_task_node_or_person(family: Family) -> None:
    allowed = {"state_type", "resolution", "kind", "type", "state", "outcome", "topic"}
    assert set(family.labels) <= allowed | {"version", "python", "backend"}
