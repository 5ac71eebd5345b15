"""What a node may write: checked when it is written, split when it is sent, set aside when it is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidInput, PayloadTooLarge
from tests.integration.client.test_node import Lab, states
from tests.integration.gateway.support import open_site


@pytest.fixture
async def lab(shared_url: str, tmp_path: Path) -> AsyncIterator[Lab]:
    async with open_site(shared_url) as site:
        made = Lab(site, tmp_path)
        yield made
        for node in made.nodes:
            await node.close()


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m failure", "x" * 2_500, "\ud800", ""])
async def test_the_error_of_a_block_is_sent_whatever_its_text(lab: Lab, text: str) -> None:
    node = await lab.node("a")
    node.create("task-1")
    await node.sync()
    with pytest.raises(RuntimeError):
        async with await node.claim("task-1"):
            raise RuntimeError(text)
    node.create("later")
    await node.sync()
    assert (node.pending(), node.conflicts()) == (0, [])
    task = node.get("task-1")
    assert task is not None
    assert task.status == "queued"
    assert task.fields["error"]
    assert len(task.fields["error"]) <= 2_000


async def test_what_is_not_valid_is_refused_when_it_is_written(lab: Lab) -> None:
    node = await lab.node("a")
    bad: list[dict[str, Any]] = [
        {"metadata": {"k": "x" * 70_000}},
        {"labels": ["a\nb"]},
        {"labels": [f"l{n}" for n in range(101)]},
        {"payload": "x" * 300_000},
        {"payload": object()},
        {"payload": float("nan")},
        {"type": "@t"},
        {"priority": "now!"},
    ]
    for fields in bad:
        with pytest.raises(InvalidInput):
            node.create("task-1", **fields)
    node.create("task-1", metadata={"k": "x" * 9_000}, labels=[f"l{n}" for n in range(60)])
    with pytest.raises(PayloadTooLarge):
        node.edit("task-1", metadata={"z": "x" * 9_000})
    with pytest.raises(InvalidInput, match="labels"):
        node.edit("task-1", add_labels=[f"m{n}" for n in range(60)])
    with pytest.raises(PayloadTooLarge):
        node.set_status("task-1", "completed", result="x" * 1_100_000)
    assert node.pending() == 1
    report = await node.sync()
    assert (report.pushed, report.refused, node.pending()) == (1, 0, 0)
    async with await node.claim("task-1") as claim:
        with pytest.raises(InvalidInput):
            claim.progress(0.1, phase="a\x00b")
        with pytest.raises(InvalidInput):
            await claim.release("\x1b")
        assert not claim.lost.is_set()
        await claim.complete("x" * 900_000)
    assert node.conflicts() == []


async def test_a_large_log_is_sent_in_requests_that_fit(lab: Lab) -> None:
    a, b = await lab.node("a"), await lab.node("b")
    for n in range(120):
        a.create(f"big-{n:03}", payload="x" * 20_000)
    report = await a.sync()
    assert (report.pushed, report.refused, a.pending()) == (120, 0, 0)
    await b.sync()
    assert states(a) == states(b)
    assert len(states(b)) == 120


async def test_changes_that_do_not_fit_in_one_item_are_sent_one_by_one(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1", labels=[f"l{n:02}" for n in range(90)])
    node.edit("task-1", remove_labels=[f"l{n:02}" for n in range(60)])
    node.edit("task-1", add_labels=[f"m{n:02}" for n in range(60)])
    report = await node.sync()
    assert (report.refused, node.pending()) == (0, 0)
    task = node.get("task-1")
    assert task is not None
    assert len(task.labels) == 90


async def test_a_gateway_that_takes_less_gets_smaller_requests(
    shared_url: str, tmp_path: Path
) -> None:
    async with open_site(shared_url, body_bytes=20_000) as site:
        lab = Lab(site, tmp_path)
        node = await lab.node("a")
        for n in range(30):
            node.create(f"task-{n:02}-" + "n" * 100, payload="x" * 1_000)
        node.create("huge", payload="x" * 30_000)
        node.create("last")
        report = await node.sync()
        assert (report.pushed, report.refused, node.pending()) == (31, 1, 0)
        [left] = node.conflicts()
        assert (left.task_id, left.error) == ("huge", "TOO_LARGE")
        assert node.get("huge") is None
        await node.sync()
        await node.close()


async def test_an_item_that_the_server_refuses_blocks_no_other(lab: Lab) -> None:
    """What another version of the client has written may not be valid here."""
    node = await lab.node("a")
    node.create("ok-1")
    node._journal.append("m-bad", "bad", 0, None, {"labels": {"add": ["a\nb"]}})
    node._journal.append("m-worse", "worse", 0, None, {"metadata": {"k": "x" * 70_000}})
    node.create("ok-2")
    report = await node.sync()
    assert (report.pushed, report.refused, node.pending()) == (2, 2, 0)
    assert [(each.mutation_id, each.error) for each in node.conflicts()] == [
        ("m-bad", "INVALID_INPUT"),
        ("m-worse", "INVALID_INPUT"),
    ]
    assert sorted(states(node)) == ["ok-1", "ok-2"]


async def test_content_beside_a_status_is_never_lost(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1")
    await node.sync()
    await lab.site.ask("PATCH", "/projects/proj", {"strategy": "manual", "reason": "x"})
    async with await node.claim("task-1") as claim:
        change = {"status": "completed", "metadata": {"mine": 1}, "fence": claim.fence}
        node._journal.append("m-1", "task-1", 1, None, change)
        report = await node.sync()
    assert (report.pushed, report.refused) == (1, 1)
    [left] = node.conflicts()
    assert (left.error, left.change) == ("VERSION_CONFLICT", {"metadata": {"mine": 1}})
    [conflict] = (await lab.site.ask("GET", "/conflicts")).json()["items"]
    assert conflict["id"] == left.conflict_id
    assert json.loads(json.dumps(conflict))["state"] == "open"


async def test_a_pull_of_large_tasks_is_cut(lab: Lab) -> None:
    a, b = await lab.node("a"), await lab.node("b")
    for n in range(40):
        a.create(f"big-{n:03}", payload="x" * 250_000)
    await a.sync()
    await b.sync()
    link = lab.links["b"]
    assert sum("pull" in path for path in link.paths) == 2
    assert states(a) == states(b)
