"""What a node remembers in its folder: its gateway, its project, the changes that were refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.client.node.identity import read_identity
from holdfast.client.node.journal import Journal
from holdfast.client.node.node import Node
from holdfast.errors import BadConfig, Conflict, DiskFull, InvalidInput, NotRunning
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


async def test_a_full_disk_is_a_typed_error_and_loses_nothing(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1")
    database = node._journal._db
    [(pages,)] = database.execute("PRAGMA page_count").fetchall()
    database.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(DiskFull, match="is full and nothing was written: free some space"):
        node.create("task-3", payload="x" * 100_000)
    database.execute("PRAGMA max_page_count=1000000")
    node.create("task-2")
    assert (await node.sync()).refused == 0
    assert (await lab.site.ask("GET", "/tasks/task-1")).status_code == 200
    assert (await lab.site.ask("GET", "/tasks/task-2")).status_code == 200


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


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    """Its writes would be lost: the parent has the file open and does not see them."""
    journal = Journal(tmp_path / "node.db")
    journal.append("m-1", "task-1", 0, None, {"payload": 1})
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        try:
            journal.append("m-2", "task-2", 0, None, {"payload": 2})
            os.write(write, b"written")
        except Conflict as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"belongs to the process that was forked" in os.read(read, 1_000)
    journal.append("m-3", "task-3", 0, None, {"payload": 3})
    journal.close()
    again = Journal(tmp_path / "node.db")
    assert [each.mutation_id for each in again.log()] == ["m-1", "m-3"]
    again.close()


def test_the_database_is_for_its_owner_only(tmp_path: Path) -> None:
    Journal(tmp_path / "node.db").close()
    assert stat.S_IMODE((tmp_path / "node.db").stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "node.db").write_bytes(b"something else " * 100)
    with pytest.raises(BadConfig, match=r"node\.db is not the database of a node"):
        Journal(tmp_path / "node.db")


async def test_a_closed_node_says_so(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1")
    await node.sync()
    claim = await node.claim("task-1")
    await node.close()
    await node.close()
    for call in (node.tasks, node.pending, node.conflicts, node.dismiss):
        with pytest.raises(NotRunning, match="the node is closed: open its folder again"):
            call()
    with pytest.raises(NotRunning, match="the node is closed"):
        node.create("task-2")
    for later in (node.sync(), node.claim("task-2"), claim.output("late"), claim.complete()):
        with pytest.raises(NotRunning, match="the node is closed"):
            await later
