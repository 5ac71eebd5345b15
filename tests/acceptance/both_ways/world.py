"""A store with one of everything, and a gateway in front of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from holdfast import Context, Task, TaskQueue
from holdfast.bus.local import LocalBus
from holdfast.cli.session import actor
from holdfast.client import Node
from holdfast.core.exchange.item import Item
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.speaking import Voice
from holdfast.fleet.blocks.blocks import NewBlock
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.pipeline import Pipeline
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.tokens import NewToken, Tokens
from holdfast.sync.exchange.exchange import Exchange
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.projects import Projects
from tests.acceptance.both_ways.cases import GATEWAY, SIDES, STORE
from tests.acceptance.cli_support import Done, run_inside

ADMIN = "hf_admin_" + "a" * 40


class World(NamedTuple):
    """A store, its gateway, and what is in it."""

    folder: Path
    url: str
    gateway: str
    names: dict[str, str]

    def run(self, side: str, *args: str, token: str = ADMIN) -> Done:
        to = ["--url", self.url]
        if side == GATEWAY:
            to = ["--gateway", self.gateway, "--token", token]
        return run_inside(self.folder, *(self.named(arg, side) for arg in args), *to)

    def named(self, text: str, side: str) -> str:
        """The argument with the side, and with the ids of what the store made."""
        text = text.replace("{side}", side)
        return self.names.get(text, text)


async def _add(a: int = 0, b: Any = 0) -> Any:
    return a + b


async def _boom(n: int = 0) -> None:
    raise ValueError("boom")


async def _write(_: Task, ctx: Context) -> None:
    await ctx.output("one\ntwo\n")
    await ctx.output(b"\xff", "stderr")
    await ctx.checkpoint("half", {"n": 1}, note="so far")


async def _ask(_: Task, ctx: Context) -> str:
    decision = await ctx.decide("Deploy?", options=["yes", "no"], data={"hosts": 3})
    return str(decision.choice)


async def fill(url: str) -> dict[str, str]:
    """Fills a store. Returns the ids that the store made, by name."""
    queue = TaskQueue(url)
    queue.task(name="add", priority="high")(_add)
    queue.task(name="boom", max_attempts=1)(_boom)
    queue.register_handler("ask", _ask)
    queue.register_handler("write", _write)
    for side in SIDES:
        queue.task(name=f"bulk-{side}", queue=f"bulk-{side}", max_attempts=1)(_boom)
    names: dict[str, str] = {}
    async with queue:
        await _make_tasks(queue)
        store = (await queue.open()).store
        for decision in await queue.parts.decisions.list():
            names[f"decision-{decision.task_id[-1]}"] = decision.id
        await Projects(store).create("web", By("test"), strategy="manual")
        nodes, exchange = Nodes(store), Exchange(store)
        for name in ("a", "b", "node-s", "node-g"):
            await nodes.register(Registration(node=name, project="web"), By("test"))
        for side in SIDES:
            for name, version, n in (("a", 0, 1), ("a", 1, 2), ("b", 1, 3)):
                item = Item(id=f"t-{side}", expected_version=version, payload={"n": n})
                answer = await exchange.push(Voice(name), "web", [item])
                names[f"conflict-{side}"] = answer.pushed.results[0].conflict_id or ""
            issued = await Tokens(store).create(
                NewToken(name=f"t-{side}", roles=["viewer"]), By("test")
            )
            names[f"token-{side}"] = issued.token.id
        names |= await fill_fleet(store)
        viewer = NewToken(name="viewer", roles=["viewer"])
        names["secret of viewer"] = (await Tokens(store).create(viewer, By("test"))).secret
    return names


async def fill_fleet(store: Store) -> dict[str, str]:
    """Hosts, a group, and blocks that nothing but the blocks' own verbs change."""
    fleet = Fleet(store)
    by = By("test")
    for number in (1, 2, 3):
        labels = {"role": "web" if number < 3 else "db"}
        await fleet.hosts.add("default", HostEntry(name=f"fixed-{number}", labels=labels), by)
    await fleet.groups.add("default", "fixed", "role=web", by)
    names = {}
    for name in ("block", "other"):
        for side in SIDES:
            block = await fleet.blocks.add("default", NewBlock(reason=name, host="fixed-3"), by)
            names[f"{name}-{side}"] = block.id
    for side in SIDES:
        url = f"https://hooks.example/of-{side}"
        made = await fleet.webhooks.add_endpoint(
            "default", url, by, kinds=["job.*"], name=f"n-{side}"
        )
        names[f"hook-{side}"] = made.webhook.id
    kinds = {"foreign": "shell", "rejected": "shell", "voted": "shell", "order": "exec"}
    kinds["cancelled-job"] = "exec"
    jobs = [(f"{name}-{side}", kind) for name, kind in kinds.items() for side in SIDES]
    for name, kind in [("foreign", "shell"), ("rejected-job", "shell"), *jobs]:
        request = JobRequest(command_type=kind, command="x", selector="role=web", external_id=name)
        job = (await fleet.jobs.create(request, By("user:ann"))).job
        if name == "rejected-job":
            person = Person("user:bob", frozenset({"role:admin"}))
            await fleet.approvals.reject(job.id, person, By("user:bob", "bad"))
            await Pipeline(store, fleet.rules, LocalBus(), owner="test").plan_job(job.id)
        if name.startswith("voted"):
            voter = actor() if name.endswith(STORE) else "user:admin"
            person = Person(voter, frozenset({"role:admin"}))
            await fleet.approvals.approve(job.id, person, By(voter, "fine"))
    return names


async def fill_node(folder: Path) -> None:
    """The folder of a node that has worked without a connection."""
    async with await Node.open(folder, gateway="http://gone", project="web", node_id="a") as node:
        node.create("offline-task", payload={"n": 1})


async def _make_tasks(queue: TaskQueue) -> None:
    dead = ["dead-1", "dead-2"]
    for side in SIDES:
        dead += [f"{name}-{side}" for name in ("retried", "replayed", "discarded")]
        dead.append(f"bulk-{side}")
    ended = [await queue.enqueue("add", {"a": 1, "b": 2}, id="done", metadata={"by": "test"})]
    ended.append(await queue.enqueue("write", id="wrote"))
    for name in dead:
        kind = name if name.startswith("bulk") else "boom"
        ended.append(await queue.enqueue(kind, {"n": 1}, id=name))
    for handle in ended:
        await handle.wait(30)
    await (await queue.enqueue_group([{"type": "boom"}], id="ended")).wait(30)
    later = await queue.enqueue("add", {"a": 3}, id="later", delay=3600, timeout=5)
    await queue.enqueue("add", {"a": 5}, id="child", depends_on=[later])
    for side in SIDES:
        for name in ("cancelled", "paused", "aborted", "moved", "forced", "edited", "changed"):
            await queue.enqueue("add", {"a": 1, "b": {"x": 1}}, id=f"{name}-{side}", delay=3600)
        late = [{"type": "add", "payload": {"a": 1}, "delay": 3600}]
        await queue.enqueue_group(late * 2, id=f"group-{side}")
        await queue.enqueue("add", {"a": 1}, id=f"line-{side}", queue=f"line-{side}", delay=3600)
        asked = await queue.enqueue("ask", id=f"asked-{side}")
        async for event in queue.events():
            if event.kind == "checkpoint.hitl_required" and event.task_id == asked.id:
                break


HOLDER = """
import asyncio, os, sys
from holdfast.locks import Locks

async def main():
    locks = Locks.connect(sys.argv[1], owner="host-1")
    for name in ("lock-s", "lock-g", "lock-x"):
        await locks.acquire(name, ttl=3600)
    os._exit(0)

asyncio.run(main())
"""
"""Locks that stay held: their process dies."""


KEEP_LIVE = "UPDATE holdfast_node SET seen_at = seen_at + 3600"
"""A node that falls silent between two commands is a difference, though both are right."""
