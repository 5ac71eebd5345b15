"""The offline node against the gateway's own application."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.client.node.claim import RENEWAL, Claim
from holdfast.client.node.identity import read_identity, write_identity
from holdfast.client.node.node import Node
from holdfast.core.errors import AlreadyLocked
from holdfast.core.token import TokenKind
from holdfast.errors import (
    BadConfig,
    Conflict,
    HoldfastError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)
from holdfast.gateway.rest.app import make_app
from tests.feed_support import WAIT_SECONDS
from tests.integration.gateway.support import Site, open_site
from tests.unit.client.client_support import QuickClock


class Link(httpx2.AsyncBaseTransport):
    """The way to the gateway. It can be cut, and can lose answers of requests that were carried out."""

    def __init__(self, app: Any) -> None:
        self._inner = httpx2.ASGITransport(app=app)
        self.is_cut = False
        self.loses: Callable[[str], bool] = lambda path: False
        self.paths: list[str] = []
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_cut:
            raise httpx2.ConnectError("no network")
        self.paths.append(request.url.path)
        self.bodies.append(await request.aread())
        answer = await self._inner.handle_async_request(request)
        if self.loses(request.url.path):
            await answer.aread()
            raise httpx2.ReadError("the answer was lost")
        return answer


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site("sqlite://") as made:
        yield made


class Lab:
    """Nodes of one gateway."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self.links: dict[str, Link] = {}
        self.nodes: list[Node] = []

    async def node(self, name: str, **options: Any) -> Node:
        link = self.links.setdefault(name, Link(make_app(self.site.gateway)))
        if "join_token" not in options:
            options["join_token"] = await self.site.token(
                "join", kind=TokenKind.JOIN, projects=["proj"], uses=1
            )
        options = {"clock": QuickClock(), **options}
        node = await Node.open(
            self.folder / name / ".holdfast", gateway="http://gateway", project="proj", node_id=name,
            transport=link, **options,
        )  # fmt: skip
        self.nodes.append(node)
        return node


@pytest.fixture
async def lab(site: Site, tmp_path: Path) -> AsyncIterator[Lab]:
    made = Lab(site, tmp_path)
    yield made
    for node in made.nodes:
        await node.close()


def states(node: Node) -> dict[str, tuple[Any, ...]]:
    return {
        task.id: (task.status, task.payload, task.metadata, task.labels, task.version)
        for task in node.tasks()
    }


async def test_a_node_works_offline_and_registers_when_it_syncs(lab: Lab) -> None:
    node = await lab.node("a")
    assert node.incarnation is None
    node.create("task-1", payload={"n": 1}, metadata={"k": 1}, labels=["x"])
    node.edit("task-1", metadata={"k": 2}, add_labels=["y"], remove_labels=["x"])
    task = node.get("task-1")
    assert task is not None
    assert (task.payload, task.metadata, task.labels, task.version) == (
        {"n": 1},
        {"k": 2},
        ["y"],
        0,
    )
    assert lab.links["a"].paths == []
    report = await node.sync()
    assert (report.pushed, report.refused, node.pending()) == (1, 0, 0)
    task = node.get("task-1")
    assert task is not None
    assert (task.payload, task.metadata, task.labels) == ({"n": 1}, {"k": 2}, ["y"])
    assert task.version == 1
    assert not task.is_dirty
    path = lab.folder / "a" / ".holdfast" / "node-identity.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    identity = read_identity(path.parent)
    assert identity is not None
    assert identity.credential is not None
    assert "hf_node" not in repr(identity)


async def test_three_nodes_diverge_and_converge(lab: Lab) -> None:
    a, b, c = [await lab.node(name) for name in "abc"]
    a.create("task-1", payload={"n": 0}, metadata={"by": "a"})
    for node in (a, b, c):
        await node.sync()
    a.edit("task-1", metadata={"a": 1}, add_labels=["red"])
    b.edit("task-1", metadata={"b": 2}, add_labels=["blue"])
    b.edit("task-1", payload={"n": "b"})
    c.edit("task-1", payload={"n": "c"})
    b.create("task-2", payload="new")
    for node in (a, b, c, a, b, c):
        await node.sync()
    assert states(a) == states(b) == states(c)
    task = a.get("task-1")
    assert task is not None
    assert (task.metadata, task.labels) == ({"by": "a", "a": 1, "b": 2}, ["blue", "red"])
    assert task.payload == {"n": "b"}, "the first that the server saw"
    [refused] = c.conflicts()
    assert (refused.error, refused.change) == ("VERSION_CONFLICT", {"payload": {"n": "c"}})
    assert refused.conflict_id is not None
    assert a.conflicts() == b.conflicts() == []


async def test_an_answer_that_was_lost_is_asked_for_with_the_same_mutation(lab: Lab) -> None:
    node = await lab.node("a")
    await node.sync()
    node.create("task-1", payload=1)
    link = lab.links["a"]
    link.loses = lambda path: "push" in path
    with pytest.raises(StoreUnavailable):
        await node.sync()
    await node.close()
    again = await lab.node("a")
    again.edit("task-1", payload=2)
    assert again.pending() == 2, "what was sent is not joined with what came later"
    link.loses = lambda path: False
    report = await again.sync()
    assert (report.pushed, report.refused) == (2, 0)
    task = again.get("task-1")
    assert task is not None
    assert (task.payload, task.version) == (2, 2)
    sent = [
        json.loads(body)["tasks"][0]
        for path, body in zip(link.paths, link.bodies, strict=True)
        if "push" in path
    ]
    assert len({item["mutationId"] for item in sent}) == 2
    assert all(item == sent[0] for item in sent if item["mutationId"] == sent[0]["mutationId"])


async def test_a_registration_whose_answer_was_lost_is_repeated(lab: Lab) -> None:
    token = await lab.site.token("join", kind=TokenKind.JOIN, projects=["proj"], uses=9)
    node = await lab.node("a", join_token=token)
    lab.links["a"].loses = lambda path: "register" in path
    with pytest.raises(StoreUnavailable):
        await node.sync()
    await node.close()
    lab.links["a"].loses = lambda path: False
    again = await lab.node("a", join_token=token)
    await again.sync()
    assert again.incarnation is not None


async def test_each_start_is_an_incarnation(lab: Lab) -> None:
    node = await lab.node("a")
    await node.sync()
    assert node.incarnation == 1
    with pytest.raises(Conflict, match="one node at a time"):
        await lab.node("a")
    await node.close()
    again = await lab.node("a", join_token=None)
    await again.sync()
    assert again.incarnation == 2


async def test_local_mistakes_are_refused(lab: Lab) -> None:
    node = await lab.node("a", join_token=None)
    with pytest.raises(NotFound):
        node.edit("missing", payload=1)
    with pytest.raises(BadConfig, match="join token"):
        await node.sync()
    node.create("task-1")
    with pytest.raises(Conflict):
        node.create("task-1")
    with pytest.raises(BadConfig, match="nothing is changed"):
        node.edit("task-1")
    with pytest.raises(InvalidInput, match="'finished' is not a status: give "):
        node.set_status("task-1", "finished")
    assert node.pending() == 1
    await node.close()
    with pytest.raises(BadConfig, match="belongs to node a"):
        await Node.open(lab.folder / "a" / ".holdfast", node_id="other")


async def test_a_status_without_a_claim_is_refused_and_adopted(lab: Lab) -> None:
    a, b = await lab.node("a"), await lab.node("b")
    a.create("task-1")
    await a.sync()
    await b.sync()
    b.set_status("task-1", "completed", result=1)
    report = await b.sync()
    assert report.refused == 1
    task = b.get("task-1")
    assert task is not None
    assert (task.status, task.result) == ("queued", None)
    assert b.conflicts()[0].error == "NOT_RUNNER"


async def test_a_claim_runs_and_completes(lab: Lab) -> None:
    a, b = await lab.node("a"), await lab.node("b")
    a.create("task-1", payload=1)
    await a.sync()
    async with await a.claim("task-1") as claim:
        assert isinstance(claim, Claim)
        assert claim.fence > 0
        with pytest.raises(AlreadyLocked) as raised:
            await b.claim("task-1")
        assert raised.value.details["lockedBy"] == "a"
        claim.progress(0.5, phase="half", iteration=3)
        await claim.complete({"answer": 42})
    await b.sync()
    task = b.get("task-1")
    assert task is not None
    assert (task.status, task.result) == ("completed", {"answer": 42})
    # The last progress of a run reaches the server before its end.
    shown = (await lab.site.ask("GET", "/tasks/task-1")).json()
    assert (shown["progress"]["phase"], shown["progress"]["iteration"]) == ("half", 3)


async def test_a_claim_reports_its_totals(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1")
    await node.sync()
    async with await node.claim("task-1") as claim:
        claim.metrics(tokens_used=1200)
        claim.metrics(cost=0.5)
        with pytest.raises(InvalidInput):
            claim.metrics(cost=-1.0)
        await claim.complete()
    token = await lab.site.token("viewer")
    shown = await lab.site.ask("GET", "/tasks/task-1", token=token)
    assert shown.json()["metrics"] == {"tokens_used": 1200, "cost": 0.5}


async def test_a_result_waits_for_the_network(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1")
    await node.sync()
    async with await node.claim("task-1") as claim:
        lab.links["a"].is_cut = True
        await claim.complete("late")
    assert node.pending() == 1
    task = node.get("task-1")
    assert task is not None
    assert (task.status, task.result) == ("completed", "late")
    lab.links["a"].is_cut = False
    assert (await node.sync()).pushed == 1
    task = node.get("task-1")
    assert task is not None
    assert (task.status, task.is_dirty) == ("completed", False)


async def test_a_claim_that_is_left_is_released(lab: Lab) -> None:
    a, b = await lab.node("a"), await lab.node("b")
    a.create("task-1")
    await a.sync()
    async with await a.claim("task-1"):
        pass
    async with await b.claim("task-1") as claim:
        assert claim.fence > 0
        await claim.release("enough")


async def test_a_claim_is_renewed_without_a_block_until_it_ends(lab: Lab) -> None:
    node = await lab.node("a")
    for name in ("task-1", "task-2", "task-3"):
        node.create(name)
    await node.sync()
    ended, left, open_still = [await node.claim(f"task-{n}", 5.0) for n in (1, 2, 3)]
    beats = heartbeats(lab.links["a"])
    for claim in (ended, left):
        claim.progress(0.5)
        async with asyncio.timeout(WAIT_SECONDS):
            await beats.get()
    await ended.complete()
    assert await left.release()
    assert renewals() == 1, "a claim that has ended is not renewed"
    await node.close()
    assert renewals() == 0
    assert not open_still.lost.is_set()


def renewals() -> int:
    return sum(task.get_name() == RENEWAL for task in asyncio.all_tasks() if not task.done())


def heartbeats(link: Link) -> asyncio.Queue[str]:
    """The heartbeats that the gateway answers from now on."""
    beats: asyncio.Queue[str] = asyncio.Queue()

    def notice(path: str) -> bool:
        if path.endswith("/heartbeat"):
            beats.put_nowait(path)
        return False

    link.loses = notice
    return beats


async def test_an_operator_reaches_the_runner(lab: Lab) -> None:
    node = await lab.node("a")
    node.create("task-1")
    await node.sync()
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1", 5.0) as claim:
        answer = await lab.site.client.post(
            "/api/v2/sync/intervene",
            json={"type": "PAUSE", "taskId": "task-1", "projectId": "proj", "reason": "stop now"},
            headers={"Authorization": f"Bearer {await lab.site.token('operator')}"},
        )
        assert answer.status_code == 200, answer.text
        claim.progress(0.1)
        await claim.lost.wait()
        assert claim.lost_reason == "paused"
        command = await claim.next_command()
        assert (command.type, command.reason) == ("PAUSE", "stop now")
        claim.acknowledge(command)
    await node.sync()
    task = node.get("task-1")
    assert task is not None
    assert task.status == "paused"


async def test_the_id_of_an_earlier_plugin_is_kept(tmp_path: Path) -> None:
    forge = tmp_path / ".forge"
    forge.mkdir()
    (forge / "node-identity.json").write_text('{"nodeId": "plugin-old", "nodeType": "plugin"}')
    node = await Node.open(tmp_path / ".holdfast", gateway="http://gateway")
    assert node.node_id == "plugin-old"
    await node.close()
    identity = read_identity(tmp_path / ".holdfast")
    assert identity is not None
    write_identity(tmp_path / ".holdfast", identity)
    assert read_identity(tmp_path / ".holdfast") == identity


async def test_a_lost_answer_to_the_first_registration_is_repeated(lab: Lab) -> None:
    """The join token has one use, and the same process asks again."""
    node = await lab.node("a")
    lost: list[str] = []

    def loses(path: str) -> bool:
        is_first = path.endswith("/register") and not lost
        lost.extend([path] * is_first)
        return is_first

    lab.links["a"].loses = loses
    node.create("task-1")
    assert (await node.sync()).pushed == 1
    assert node.incarnation == 1


async def test_a_node_that_died_before_its_first_answer_joins_later(lab: Lab) -> None:
    first = await lab.node("a")
    lab.links["a"].loses = lambda path: path.endswith("/register")
    first.create("task-1")
    with pytest.raises(HoldfastError):
        await first.sync()
    await first.close()
    lab.nodes.remove(first)
    lab.links["a"].loses = lambda _: False
    again = await lab.node("a")
    assert (await again.sync()).pushed == 1


async def test_every_call_after_the_registration_names_the_incarnation(lab: Lab) -> None:
    """The server refuses a late copy of it after a restart."""
    node, link = await lab.node("a"), lab.links["a"]
    node.create("task-1")
    await node.sync()
    async with await node.claim("task-1"):
        pass
    calls = dict(zip(link.paths, link.bodies, strict=True))
    named = {path.split("/")[-1] for path in calls if b'"incarnation":1' in calls[path]}
    assert {path for path in calls if path.endswith("/register")} == {
        path for path in calls if b'"incarnation":1' not in calls[path]
    }
    assert {"proj", "claim"} <= named
    await node.close()
    lab.nodes.remove(node)
    again = await lab.node("a")
    await again.sync()
    assert b'"incarnation":2' in link.bodies[-1]
