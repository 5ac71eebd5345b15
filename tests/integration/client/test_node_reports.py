"""Output and checkpoints of an offline node's claims, through a gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.client.node.journal import SCHEMA, Journal
from holdfast.client.node.node import Node
from holdfast.client.node.report_log import HeldClaim
from holdfast.errors import Conflict, InvalidInput, LeaseLost, StoreUnavailable
from tests.feed_support import WAIT_SECONDS
from tests.integration.client.test_node import Lab, Link, lab, site

__all__ = ["lab", "site"]


async def shown(lab: Lab, path: str) -> dict[str, Any]:
    answer = await lab.site.ask("GET", path, project="proj")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def output(lab: Lab, name: str = "task-1", stream: str = "stdout") -> str:
    answer = await lab.site.ask("GET", f"/tasks/{name}/output", stream=stream)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


async def points(lab: Lab, name: str = "task-1") -> list[tuple[str, str, Any]]:
    rows = (await lab.site.ask("GET", f"/tasks/{name}/checkpoints")).json()["items"]
    return [(row["id"], row["type"], row["data"]) for row in rows]


def sent(link: Link, call: str) -> asyncio.Event:
    """Set when the gateway has answered such a call."""
    arrived = asyncio.Event()

    def notice(path: str) -> bool:
        if path.endswith(call):
            arrived.set()
        return False

    link.loses = notice
    return arrived


async def node_with_task(lab: Lab, name: str = "a") -> Node:
    node = await lab.node(name)
    node.create("task-1")
    await node.sync()
    return node


async def reopened(lab: Lab, node: Node) -> Node:
    await node.close()
    lab.nodes.remove(node)
    return await lab.node(node.node_id)


async def test_output_and_checkpoints_are_sent_while_the_claim_runs(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1") as claim:
        arrived = sent(lab.links["a"], "/checkpoints")
        await claim.output("one\n")
        await claim.output(b"two\n", "stderr")
        point = await claim.checkpoint("plan-ready", {"pages": 3}, note="short")
        await arrived.wait()
        assert (await output(lab), await output(lab, stream="stderr")) == ("one\n", "two\n")
        assert await points(lab) == [(point, "plan-ready", {"pages": 3})]
        await claim.output("three\n")
        await claim.complete()
    assert await output(lab) == "one\nthree\n"
    assert node.conflicts() == []


async def test_what_was_written_without_a_connection_arrives_before_the_result(lab: Lab) -> None:
    node, link = await node_with_task(lab), lab.links["a"]
    claim = await node.claim("task-1")
    link.is_cut = True
    await claim.output("written offline\n")
    point = await claim.checkpoint("half", 0.5)
    await claim.complete({"pages": 12})
    # The process ends, too: a later one has the log only.
    again = await reopened(lab, node)
    link.is_cut = False
    report = await again.sync()
    assert (report.refused, again.conflicts()) == (0, [])
    task = again.get("task-1")
    assert task is not None
    assert (task.status, task.result) == ("completed", {"pages": 12})
    assert await output(lab) == "written offline\n"
    assert await points(lab) == [(point, "half", 0.5)]


async def test_a_claim_that_goes_on_after_a_restart_continues_its_streams(lab: Lab) -> None:
    node, link = await node_with_task(lab), lab.links["a"]
    claim = await node.claim("task-1")
    await claim.output("one ")
    await node.sync()
    link.is_cut = True
    await claim.output("two ")
    again = await reopened(lab, node)
    link.is_cut = False
    claim = await again.claim("task-1")
    await claim.output("three")
    await claim.complete()
    assert await output(lab) == "one two three"
    assert again.conflicts() == []


async def test_lost_answers_repeat_nothing(lab: Lab) -> None:
    node, link = await node_with_task(lab), lab.links["a"]
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1") as claim:
        seen: list[str] = []

        def loses(path: str) -> bool:
            is_first = path not in seen and path.endswith(("/output", "/checkpoints"))
            seen.append(path)
            return is_first

        link.loses = loses
        await claim.output("once")
        await claim.checkpoint("plan")
        await claim.complete()
    assert await output(lab) == "once"
    assert len(await points(lab)) == 1


async def test_a_lost_claim_keeps_what_it_wrote(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1") as claim:
        answer = await lab.site.client.post(
            "/api/v2/sync/intervene",
            json={"type": "ABORT", "taskId": "task-1", "projectId": "proj", "reason": "stop now"},
            headers={"Authorization": f"Bearer {await lab.site.token('operator')}"},
        )
        assert answer.status_code == 200, answer.text
        await claim.output("too late")
        await claim.lost.wait()
        assert claim.lost_reason == "aborted"
        with pytest.raises(LeaseLost, match="aborted"):
            await claim.output("more")
    [kept] = node.conflicts()
    assert (kept.error, kept.task_id) == ("LOCK_LOST", "task-1")
    assert kept.change["output"]["start"] == 0
    assert node.dismiss() == 1


async def test_a_released_claim_has_sent_what_it_wrote(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with await node.claim("task-1") as claim:
        await claim.output("partial")
        await claim.checkpoint("half", 1)
    assert await output(lab) == "partial"
    assert node.conflicts() == []
    again = await node.claim("task-1")
    await again.output("new run")
    await again.complete()
    assert await output(lab) == "new run"
    with pytest.raises(Conflict, match="has ended"):
        await again.output("more")


async def test_a_release_without_a_connection_asks_once(lab: Lab) -> None:
    node, link = await node_with_task(lab), lab.links["a"]
    claim = await node.claim("task-1")
    link.is_cut = True
    await claim.output("kept here")
    assert not await claim.release()
    assert node.reports.is_waiting("task-1")
    link.is_cut = False
    await node.sync()
    assert (await output(lab), node.conflicts()) == ("kept here", [])


async def test_wrong_reports_are_refused_here(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with await node.claim("task-1") as claim:
        for data, stream in (("x", "none"), (1, "stdout"), ("\ud800", "stdout")):
            with pytest.raises(InvalidInput):
                await claim.output(data, stream)  # type: ignore[arg-type]
        points: list[tuple[str, object]] = [("auto", 1), ("", 1), ("plan", object())]
        for type, value in points:
            with pytest.raises(InvalidInput):
                await claim.checkpoint(type, value)
        await claim.output("")
        assert not node.reports.is_waiting("task-1")


async def test_a_result_of_an_ended_process_counts(lab: Lab) -> None:
    """The run ended offline, and the process died before it was sent: the next start keeps the claim."""
    node, link = await node_with_task(lab), lab.links["a"]
    claim = await node.claim("task-1")
    link.is_cut = True
    await claim.complete("kept")
    again = await reopened(lab, node)
    with pytest.raises(StoreUnavailable):
        await again.sync()
    link.is_cut = False
    await again.sync()
    task = again.get("task-1")
    assert task is not None
    assert (task.status, task.result, again.conflicts()) == ("completed", "kept", [])


def test_a_folder_of_the_earlier_schema_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    Journal(path).close()
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE report; DROP TABLE stream_end; PRAGMA user_version=1")
    db.close()
    journal = Journal(path)
    journal.reports.append_output(HeldClaim("t", "c", 1), "stdout", [b"x"])
    journal.close()
    db = apsw.Connection(str(path))
    assert db.execute("PRAGMA user_version").fetchall() == [(SCHEMA,)]
    db.close()
