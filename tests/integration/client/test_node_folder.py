"""What a node remembers in its folder: its gateway, its project, the changes that were refused."""

from __future__ import annotations

import pytest

from holdfast.client.node.identity import read_identity
from holdfast.client.node.node import Node
from holdfast.errors import BadConfig, InvalidInput
from tests.integration.client.test_node import Lab, lab, site
from tests.unit.client.client_support import QuickClock

__all__ = ["lab", "site"]


async def test_the_gateway_of_the_last_registration_is_remembered(lab: Lab) -> None:
    folder = lab.folder / "a" / ".holdfast"
    async with await Node.open(folder, gateway="http://wrong", project="proj", node_id="a"):
        pass
    node = await lab.node("a")
    await node.sync()
    await node.close()
    identity = read_identity(folder)
    assert identity is not None
    assert identity.gateway == "http://gateway"
    link = lab.links["a"]
    async with await Node.open(folder, clock=QuickClock(), transport=link) as again:
        assert (await again.sync()).refused == 0
        assert again._http.urls == ["http://gateway"]


async def test_a_folder_stays_in_its_project(lab: Lab) -> None:
    node = await lab.node("a")
    await node.close()
    with pytest.raises(BadConfig, match="belongs to project proj, not 'web'"):
        await Node.open(lab.folder / "a" / ".holdfast", project="web")


async def test_refused_changes_are_dismissed(lab: Lab) -> None:
    a, b = await lab.node("a"), await lab.node("b")
    for name in ("task-1", "task-2", "task-3"):
        a.create(name)
    await a.sync()
    await b.sync()
    for name in ("task-1", "task-2", "task-3"):
        b.set_status(name, "completed", result=1)
    await b.sync()
    first, *others = b.conflicts()
    assert b.dismiss(first.mutation_id) == 1
    assert b.dismiss(first.mutation_id) == 0
    assert b.conflicts() == others
    assert b.dismiss() == 2
    assert b.conflicts() == []


async def test_a_typed_task_is_for_workers_and_one_without_a_type_is_not(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("for-workers", type="crunch", payload={"n": 1})
    node.create("in-queue", type="crunch", queue="slow")
    node.create("for-nodes")
    await node.sync()
    rows = (await lab.site.ask("GET", "/tasks")).json()["items"]
    assert sorted((row["type"], row["queue"]) for row in rows) == [
        ("crunch", "default"),
        ("crunch", "slow"),
        ("external", "external"),
    ]


async def test_a_payload_that_is_not_json_is_refused_by_its_type(lab: Lab) -> None:
    node = await lab.node("a")
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        node.create("bad", payload=object())
    assert node.pending() == 0
