"""A secret that a user puts where it does not belong: no event, preview, error, audit row or log has it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import websockets

from holdfast.cli.logs import RedactingFormatter
from holdfast.core.redaction import Redaction
from holdfast.core.worker import wire
from tests.integration.worker.served import ADMIN, Site, open_site

CANARY = "Zx9canaryZx9"
LEAKS = f"login postgresql://ann:{CANARY}@db/x, password={CANARY}, card {CANARY}-IBAN"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(
        f"sqlite:///{tmp_path}/holdfast.db",
        redact_fields=("iban",),
        redact_patterns=(r"\S+-IBAN",),
    ) as made:
        yield made


async def failed_task(site: Site) -> str:
    """A dead task whose payload, error and history have secrets."""
    payload = {"db_password": CANARY, "n": [{"token": CANARY, "iban": CANARY}]}
    async with site.client() as client:
        new = {"type": "work", "payload": payload}
        task_id: str = (await client.post("/api/v1/tasks", json=new)).json()["task"]["id"]
        reason = {"payload": {**payload, "n": 1}, "reason": f"secret={CANARY}"}
        patched = await client.patch(f"/api/v1/tasks/{task_id}", json=reason)
        assert patched.status_code == 200, patched.text
    _, secret = await site.node_token("w1")
    async with site.grpc(secret) as worker:
        welcome = await worker.hello()
        await worker.send(wire.Ask(claim_id="c", slots=1))
        (task,) = (await worker.expect(wire.Offer)).tasks
        assert CANARY in task.task_json, "a worker gets its payload as it is"
        failure = wire.FailureReport(message=LEAKS, traceback=LEAKS, final=True)
        change = wire.TaskChange(
            task_id=task_id, fence=task.fence, status="failed", failure=failure
        )
        changes = wire.Changes(task=(change,))
        await worker.send(
            wire.SyncMessage(sequence=1, incarnation=welcome.incarnation, changes=changes)
        )
        assert (await worker.expect(wire.SyncAck)).refused == ()
    return task_id


async def test_no_listing_event_error_or_audit_row_has_a_secret(site: Site) -> None:
    task_id = await failed_task(site)
    async with site.client() as client:
        for path in (
            "/tasks",
            "/dead-letters",
            "/dead-letters/groups",
            "/events",
            f"/tasks/{task_id}/history",
            "/audit",
            f"/nodes/password={CANARY}",
        ):
            answer = await client.get(f"/api/v1{path}")
            assert CANARY not in answer.text, path
            assert "***" in answer.text, path
        whole = (await client.get(f"/api/v1/tasks/{task_id}")).json()
        assert whole["payload"]["db_password"] == CANARY, "the owner reads what it wrote"
        assert CANARY not in json.dumps(whole["failure"]).replace(f"{CANARY}-IBAN", "")
        verified = (await client.get("/api/v1/audit/verify")).json()
        assert verified["ok"] is True


async def test_no_frame_of_the_feed_has_a_secret(site: Site) -> None:
    task_id = await failed_task(site)
    async with site.client() as client:
        start = (await client.get("/api/v1/events", params={"limit": 1})).json()
    epoch = start["head"].partition(":")[0]
    url = site.listening.url.replace("http", "ws") + "/api/v1/ws"
    async with websockets.connect(
        url,
        additional_headers={"Authorization": f"Bearer {ADMIN}"},
        subprotocols=[websockets.Subprotocol("holdfast.v1")],
        proxy=None,
    ) as socket:
        frames = [str(await socket.recv())]
        # Events of the last moment come after the mark that says that the subscription is live.
        for id, position, last in (
            ("replayed", f"{epoch}:0", '"kind":"task.dead"'),
            ("snapshot", None, '"live":true'),
        ):
            wish = {"type": "subscribe", "channel": f"task:{task_id}", "id": id}
            await socket.send(json.dumps({**wish, "position": position} if position else wish))
            while last not in frames[-1]:
                frames.append(str(await socket.recv()))
            frames.append("")
        wrong = {"type": "subscribe", "channel": f"x:token={CANARY}", "id": "wrong"}
        await socket.send(json.dumps(wrong))
        frames.append(str(await socket.recv()))
    everything = "".join(frames)
    for kind in ("task.enqueued", "task.edited", "snapshot", '"error"'):
        assert kind in everything
    assert CANARY not in everything


def test_a_log_line_and_its_traceback_have_no_secret() -> None:
    formatter = RedactingFormatter(Redaction(secrets=[ADMIN]))
    try:
        raise ValueError(LEAKS.partition(", card")[0])
    except ValueError as error:
        record = logging.LogRecord(
            "holdfast", 40, "x.py", 1, "%s %s", (ADMIN, LEAKS[:40]), (ValueError, error, None)
        )
    line = formatter.format(record)
    assert "ValueError" in line
    assert CANARY not in line
    assert ADMIN not in line


async def test_interventions_are_shown_without_secrets(site: Site) -> None:
    async with site.client() as client:
        made = await client.post("/api/v1/tasks", json={"type": "work", "delay_seconds": 900})
        path = f"/api/v1/tasks/{made.json()['task']['id']}/interventions"
        wish = {"type": "PAUSE", "reason": f"password={CANARY}"}
        issued = await client.post(path, json=wish)
        assert issued.status_code in (200, 201), issued.text
        one = f"/api/v1/interventions/{issued.json()['intervention']['id']}"
        listed = (await client.get(path)).json()["items"]
        shown = [issued.json()["intervention"], *listed, (await client.get(one)).json()]
        assert CANARY not in json.dumps(shown)
        assert ["password=" in row["reason"] for row in shown] == [True] * 3


async def test_the_reason_of_a_pause_is_shown_without_secrets(site: Site) -> None:
    async with site.client() as client:
        new = {"type": "work", "payload": {"db_password": "mine"}}
        path = (
            f"/api/v1/tasks/{(await client.post('/api/v1/tasks', json=new)).json()['task']['id']}"
        )
        wish = {"type": "PAUSE", "reason": LEAKS}
        queue = "/api/v1/queues/default"
        answers = [
            await client.post(f"{path}/interventions", json=wish),
            await client.post(f"{queue}/pause", json={"reason": LEAKS}),
            *[await client.get(f"{path}{part}") for part in ("", "/why", "/interventions")],
            *[await client.get(where) for where in ("/api/v1/tasks", "/api/v1/queues", queue)],
        ]
        for answer in answers:
            assert answer.status_code < 300, answer.text
            assert CANARY not in answer.text, answer.url
        whole = (await client.get(path)).json()
        assert "login" in whole["held_by"]
        assert whole["payload"] == {"db_password": "mine"}, "a caller gets the body as it is"


async def test_workers_count_for_the_connections_of_a_gateway(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.gateway.connections.GATEWAY_CONNECTIONS_MAX", 1)
    async with site.websocket(ADMIN) as worker:
        hello = {"type": "hello", "workerId": "w2", "types": ["work"], "queues": ["default"]}
        assert (await worker.ask(hello))["type"] == "welcome"
        async with site.client() as client:
            refused = await client.get("/api/v1/stream", params={"topics": "system:events"})
            assert refused.status_code == 429
        async with site.websocket(ADMIN) as another:
            assert await another.closed() == 4429
