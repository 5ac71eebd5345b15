"""`sync verify`, `node register`, `node join-token` and `audit export` against a gateway of a real store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client import Client, Node
from tests.acceptance.cli_support import Done, run_inside
from tests.integration.gateway.processes import Process, started

ADMIN = "hf_admin_" + "a" * 40


class Desk:
    """The command line, beside a gateway."""

    def __init__(self, folder: Path, url: str, gateway: str) -> None:
        self.folder = folder
        self.url = url
        self.gateway = gateway

    async def run(self, *args: str) -> Done:
        """In a thread: a command starts an event loop."""
        return await asyncio.to_thread(run_inside, self.folder, *args, "--url", self.url)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder}/holdfast.db"
    with started(folder, "--url", url, "--no-loops", HOLDFAST_ADMIN_TOKEN=ADMIN) as process:
        yield process, folder


@pytest.fixture
def desk(server: tuple[Process, Path]) -> Desk:
    process, folder = server
    return Desk(folder, f"sqlite:///{folder}/holdfast.db", process.url)


async def node_of(desk: Desk, name: str, project: str) -> Node:
    made = await desk.run("node", "join-token", "--project", project, "-o", "name")
    assert made.code == 0, made.said
    return await Node.open(
        desk.folder / name, gateway=desk.gateway, project=project, node_id=name,
        join_token=made.out.strip(),
    )  # fmt: skip


async def states(desk: Desk, folder: str) -> tuple[int, dict[str, str]]:
    done = await desk.run("sync", "verify", folder, "-o", "json")
    assert done.code in (0, 1), done.said
    return done.code, {row["task_id"]: row["state"] for row in json.loads(done.out)}


async def test_a_folder_is_compared_with_the_server(desk: Desk) -> None:
    assert (await desk.run("project", "create", "forge")).code == 0
    a, b = await node_of(desk, "a", "forge"), await node_of(desk, "b", "forge")
    for name in ("same", "behind", "edited", "both"):
        a.create(name)
    await a.sync()
    await b.sync()
    await a.close()
    assert await states(desk, "a") == (0, {})
    b.edit("behind", metadata={"x": 1})
    b.edit("both", metadata={"x": 1})
    b.create("from-b")
    await b.sync()
    a = await Node.open(desk.folder / "a")
    busy = await desk.run("sync", "verify", "a")
    assert (busy.code, "another process" in busy.said) == (6, True)
    a.edit("edited", metadata={"y": 1})
    a.edit("both", metadata={"y": 1})
    a.create("from-a")
    await a.close()
    expected = {
        "behind": "behind",
        "edited": "unsent",
        "both": "diverged",
        "from-a": "unsent",
        "from-b": "new",
    }
    assert await states(desk, "a") == (1, expected)
    assert await states(desk, "a") == (1, expected), "nothing was changed"
    a = await Node.open(desk.folder / "a")
    await a.sync()
    await a.close()
    assert await states(desk, "a") == (0, {})
    await b.close()
    assert (await desk.run("sync", "verify", "nowhere")).code == 5


async def test_a_registered_node_has_a_credential_that_works(desk: Desk) -> None:
    made = await desk.run("node", "register", "laptop", "--label", "zone=1", "-o", "json")
    answer = json.loads(made.out)
    async with Client(desk.gateway, answer["credential"]) as client:
        assert (await client.nodes.get("laptop")).id == "laptop"
    assert (await desk.run("node", "register", "laptop")).code == 6
    rotated = await desk.run("node", "register", "laptop", "--rotate", "-o", "name")
    assert rotated.out.startswith("hf_node_")
    assert rotated.out.strip() != answer["credential"]


async def test_the_audit_is_exported_whole(desk: Desk) -> None:
    for n in range(3):
        assert (await desk.run("project", "create", f"p{n}")).code == 0
    rows = [json.loads(line) for line in (await desk.run("audit", "export")).out.splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["prev_hash"] for row in rows[1:]] == [row["hash"] for row in rows[:-1]]
    later = (await desk.run("audit", "export", "--since", "2", "-o", "name")).out.split()
    assert later == [str(row["seq"]) for row in rows[2:]]
