"""Conflicts, projects, nodes and the exchange on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import TaskQueue
from holdfast.core.codec import dumps
from holdfast.core.exchange.item import Item
from holdfast.core.speaking import Voice
from holdfast.errors import NotFound
from holdfast.queue.by import By
from holdfast.sync.exchange.exchange import Exchange
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.projects import Projects
from tests.acceptance.cli_support import Cli
from tests.backends import SHARED, url_of


async def prepare(url: str) -> str:
    """A project with two nodes that wrote another payload on one base. Returns the conflict's id."""
    queue = TaskQueue(url)
    try:
        store = (await queue.open()).store
        by = By("test")
        await Projects(store).create("web", by, strategy="manual")
        nodes, exchange = Nodes(store), Exchange(store)
        conflict = None
        for name, version, n in (("a", 0, 1), ("a", 1, 2), ("b", 1, 3)):
            if (name, n) != ("a", 2):
                await nodes.register(Registration(node=name, project="web"), by)
            item = Item(id="t", expected_version=version, payload={"n": n})
            answer = await exchange.push(Voice(name), "web", [item])
            conflict = answer.pushed.results[0].conflict_id
        assert conflict is not None
        return conflict
    finally:
        await queue.stop()


@pytest.fixture(params=SHARED)
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Cli:
    return Cli(tmp_path, url_of(request.param, request, tmp_path))


def read(cli: Cli, *args: str) -> Any:
    done = cli.run(*args, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_task_is_found_by_the_name_that_a_node_gave(cli: Cli) -> None:
    asyncio.run(prepare(cli.env["HOLDFAST_URL"]))
    task = read(cli, "task", "show", "t")
    assert (task["client_id"], task["project"]) == ("t", "web")
    assert read(cli, "task", "why", "t")["task_id"] == task["id"]
    [event, *_] = read(cli, "events", "tail", "--task", "t")
    assert event["task_id"] == task["id"]
    [paused] = read(cli, "task", "pause", "t", "--reason", "x")
    assert (paused["id"], paused["desired"]) == (task["id"], "paused")
    missing = cli.run("task", "show", "u")
    assert (missing.returncode, "the name 'u'" in missing.stderr) == (5, True)


async def report(url: str, node: str, **info: object) -> None:
    """A process with the database says that it is alive."""
    queue = TaskQueue(url)
    try:
        await (await queue.open()).store.heartbeat(node, dumps(info), [], 60.0)
    finally:
        await queue.stop()


def test_a_process_of_the_store_is_shown_with_what_it_does(cli: Cli) -> None:
    url = cli.env["HOLDFAST_URL"]
    asyncio.run(report(url, "gateway-1"))
    asyncio.run(report(url, "worker-1", types=["mail"], queues=["default"], workers=4, busy=1))
    shown = cli.run("node", "show", "gateway-1").stdout
    assert " ".join(shown.split()[:2]) == "gateway-1 live"
    assert "process with the database" in shown
    assert "none: it runs no tasks" in shown
    assert "capabilities" not in shown
    lines = dict(
        line.split(None, 1) for line in cli.run("node", "show", "worker-1").stdout.splitlines()
    )
    assert (lines["running"], lines["workers"], lines["queues"]) == ("1", "4", "default")
    assert lines["types"] == "mail"
    refused = cli.run("node", "cordon", "gateway-1")
    assert refused.returncode == 5
    assert "process with the database" in refused.stderr


def test_a_project_that_does_not_exist_is_named_with_the_nearest(cli: Cli) -> None:
    assert cli.run("db", "migrate").returncode == 0
    assert cli.run("project", "create", "web").returncode == 0
    for command in (
        ("token", "create", "ci", "--project", "wbe"),
        ("token", "create", "w", "--kind", "join", "--project", "wbe"),
        ("enqueue", "mail", "--project", "wbe"),
        ("sync", "status", "wbe"),
        ("sync", "log", "wbe"),
        ("task", "list", "--project", "wbe"),
        ("task", "list", "--project", "wbe", "-q", "type:mail"),
        ("conflict", "list", "--project", "wbe"),
    ):
        refused = cli.run(*command)
        assert refused.returncode == NotFound.exit_code, refused.stderr
        assert "no project 'wbe': did you mean web?" in refused.stderr
    assert cli.run("token", "create", "ci", "--project", "web").returncode == 0
    late = cli.run("token", "create", "j", "--kind", "join", "--expires", "30d")
    assert late.returncode == 2
    assert "--expires is 30d: a join token lives at most 7d" in late.stderr
    assert cli.run("sync", "status").returncode == 0
    for noun in ("task", "conflict"):
        assert cli.run(noun, "list", "--project", "web").returncode == 0


def test_an_operator_settles_a_conflict_and_shuts_a_node_out(cli: Cli) -> None:
    conflict = asyncio.run(prepare(cli.env["HOLDFAST_URL"]))
    assert [row["id"] for row in read(cli, "conflict", "list", "--project", "web")] == [conflict]
    assert "web" in cli.run("conflict", "list").stdout
    shown = read(cli, "conflict", "show", conflict)
    assert (shown["server"]["payload"], shown["client"]["payload"]) == ({"n": 2}, {"n": 3})
    for given, said in (
        (("merged",), 'the side merged needs its content: give --merged \'{"payload"'),
        (("merged", "--merged", "{bad"), "--merged is not JSON: Expecting property name"),
        (("merged", "--merged", "[1]"), "--merged is [1], not a JSON object: give --merged '{"),
        (
            ("server", "--merged", "{}"),
            "--merged is the content for the side merged, not for server",
        ),
    ):
        refused = cli.run("conflict", "settle", conflict, *given)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    settled = read(cli, "conflict", "settle", conflict, "client", "--reason", "newer")
    assert (settled["state"], settled["resolution"]) == ("settled", "client")
    assert cli.run("conflict", "settle", conflict, "server").returncode == 6
    assert cli.run("conflict", "show", "con_none").returncode == 5

    assert read(cli, "node", "cordon", "a", "--reason", "r")["state"] == "cordoned"
    assert read(cli, "node", "uncordon", "a")["state"] == "live"
    assert read(cli, "node", "drain", "a")["state"] == "draining"
    assert read(cli, "node", "quarantine", "a")["state"] == "quarantined"
    assert read(cli, "node", "revoke", "a")["incarnation"] == 2
    assert "revoked" in cli.run("node", "show", "a").stdout
    assert cli.run("node", "show", "none").returncode == 5
    operations = [row["operation"] for row in read(cli, "audit", "list")]
    assert operations == ["nodes.manage"] * 5 + ["conflicts.settle"]


def test_projects_and_the_exchange_are_shown(cli: Cli) -> None:
    asyncio.run(prepare(cli.env["HOLDFAST_URL"]))
    made = read(
        cli, "project", "create", "shop", "--override", "set=merge", "--override", "map=manual"
    )
    assert made["overrides"] == {"set": "merge", "map": "manual"}
    assert cli.run("project", "create", "shop").returncode == 6
    assert read(cli, "project", "set", "shop", "--strategy", "manual")["strategy"] == "manual"
    assert cli.run("project", "set", "shop").returncode == 2
    assert cli.run("project", "set", "shop", "--override", "set").returncode == 2
    assert [row["id"] for row in read(cli, "project", "list")] == ["default", "shop", "web"]

    status = read(cli, "sync", "status", "web")
    assert (status["tasks"]["queued"], status["sync"]["pushes"]) == (1, 3)
    assert "pushes 3" in cli.run("sync", "status", "web").stdout
    assert len(read(cli, "sync", "log", "web")) == 5
    assert [row["outcome"] for row in read(cli, "sync", "log", "web", "--node", "b")] == [
        "accepted",
        "conflict",
    ]
    assert read(cli, "sync", "fix-expired-locks", "--dry-run") == []
