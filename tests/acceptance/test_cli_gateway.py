"""Every verb, against a store and through a gateway of the same store: the same output and exit code.

A verb that reads runs twice with the same arguments. A verb that changes something runs on twins: `{side}` in
its arguments is `s` for the store and `g` for the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import httpx2
import pytest

from holdfast import Context, Task, TaskQueue, __version__
from holdfast.bus.local import LocalBus
from holdfast.cli.session import actor
from holdfast.cli.tree import BY_PATH, VERBS
from holdfast.cli.verb import Kind
from holdfast.client import Client, Node
from holdfast.core.exchange.item import Item
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.speaking import Voice
from holdfast.errors import BadConfig
from holdfast.fleet.blocks.blocks import NewBlock
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.pipeline import Pipeline
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.tokens import NewToken, Tokens
from holdfast.sync.exchange.exchange import Exchange
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.projects import Projects
from tests.acceptance.cli_support import Done, run_inside
from tests.integration.gateway.processes import TLS, Process, started

ADMIN = "hf_admin_" + "a" * 40
SIDES = ("s", "g")
STORE, GATEWAY = SIDES
WORKER = "worker"
"""Runs its tasks through the gateway; tests/integration/remote runs it."""
AGENT = "agent"
"""Runs commands through the gateway; tests/integration/agent runs it."""
LOCAL = {verb.path for verb in VERBS if verb.local}


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


CASES: dict[str, list[str]] = {
    "enqueue": ["add a=1 b=2 --id enqueued-{side} --priority high --metadata n=1"],
    "task list": [
        "",
        "--status failed --limit 2",
        "--type add --queue default",
        "--after later",
        "-q type:boom -n 2",
    ],
    "task show": ["done", "child", "dead-1", "@last", "no-such-task"],
    "task why": ["later", "child", "done"],
    "task history": ["done", "dead-1"],
    "task interventions": ["done", "no-such-task"],
    "task output": ["wrote", "wrote --stream stderr", "wrote --start 2", "done", "no-such-task"],
    "task checkpoints": ["wrote", "done"],
    "task watch": ["done", "dead-1"],
    "task edit": [
        "changed-{side} a=9 --reason typo",
        "changed-{side} --metadata ticket=42",
        "changed-{side} --expect-version 99 a=1",
        "changed-{side}",
    ],
    "task copy": ["done --reason again", "done a=7", "no-such-task"],
    "task cancel": ["cancelled-{side}", "done", "cancelled-{side} no-such-task"],
    "task pause": ["paused-{side} --dry-run", "paused-{side} --reason maintenance"],
    "task resume": ["paused-{side}", "paused-{side}"],
    "task abort": ["aborted-{side} --reason wrong", "aborted-{side} --reason wrong"],
    "task retry": [
        "retried-{side} --reason again --expect-version 99",
        "retried-{side} --reason again",
    ],
    "task reassign": ["moved-{side} --to a --reason data", "moved-{side} --to nowhere --reason x"],
    "task release": ["later --reason hangs"],
    "task force": [
        "forced-{side} --status queued --reason short",
        "forced-{side} --status failed",
        "forced-{side} --status paused --reason checked-by-hand",
    ],
    "task-group enqueue": ["no-such-file.jsonl"],
    "task-group show": ["group-s", "no-such-group"],
    "task-group wait": ["ended", "group-s --timeout 0s"],
    "task-group cancel": ["group-{side} --dry-run", "group-{side} --reason wrong"],
    "decision list": ["", "--state all"],
    "decision show": ["decision-s", "dec_none"],
    "decision answer": ["decision-{side} maybe", "decision-{side} yes --reason green"],
    "dlq list": ["", "--type boom --limit 1", "--after dead-1"],
    "dlq groups": [""],
    "dlq show": ["dead-1", "done"],
    "dlq replay": [
        "replayed-{side} --delay 1h --json {} --reason fixed",
        "done",
        "--type boom --rate 5 --dry-run",
        "--queue bulk-{side} --yes",
    ],
    "dlq discard": ["discarded-{side}", "--type no_such_type --yes"],
    "dlq edit": [
        "edited-{side} a=9",
        "edited-{side} --replace c={{}}",
        'edited-{side} b={"x":null}',
        "done a=1",
    ],
    "queue list": [""],
    "queue show": ["line-s", "no-such-queue"],
    "queue pause": ["line-{side} --reason outage", "no-such-queue"],
    "queue resume": ["line-{side}"],
    "type list": ["", "-q add"],
    "weight set": ["add key-{side} 3", "none key 2", "add key 0"],
    "weight list": ["add", "none", "add -q key-s"],
    "events tail": ["--after start --limit 0", "--limit 3", "--after no-position", "--task done"],
    "schedule list": [""],
    "schedule add": ["hourly-{side} @hourly add a=1 --queue line-{side}", "bad notcron add"],
    "schedule show": ["hourly-{side}", "none"],
    "schedule pause": ["hourly-{side} --reason partner", "none"],
    "schedule resume": ["hourly-{side}"],
    "schedule run": ["hourly-{side} --reason missed", "none"],
    "schedule remove": ["hourly-{side}", "none"],
    "lock list": ["", "--limit 1", "--after lock-g"],
    "lock show": ["lock-x", "never-held"],
    "lock revoke": ["lock-{side} --reason gone", "lock-{side}"],
    "node list": [""],
    "node show": ["a", "none"],
    "node register": [
        "new-{side} --project web --capability fence --label zone=1",
        "new-{side}",
        "new-{side} --project web --rotate",
        "bad --kind king",
    ],
    "node join-token": [
        "--project web --uses 2 --expires 1d",
        "--kind agent --uses 2",
        "--project none",
    ],
    "node cordon": ["node-{side} --reason disk"],
    "node uncordon": ["node-{side}"],
    "node drain": ["node-{side}"],
    "node quarantine": ["node-{side}"],
    "node revoke": ["node-{side}", "none"],
    "conflict list": ["", "--project web --state all"],
    "conflict show": ["conflict-s", "con_none"],
    "conflict settle": ["conflict-{side} none", "conflict-{side} client --reason newer"],
    "op run": [
        "abort -q type:no_such_type --dry-run",
        "pause -q type:no_such_type --reason none",
        "pause -q x:y",
        "fly -q type:boom",
    ],
    "op list": ["--limit 1"],
    "op show": ["op_none"],
    "op stop": ["op_none"],
    "op resume": ["op_none"],
    "run": [
        "uptime --hosts fixed-1,fixed-3 --external-id ran-{side} --order name --waves 1,rest --plan",
        "uptime --hosts fixed-1,fixed-3 --external-id ran-{side} --order name --waves 1,rest",
        "uptime --hosts fixed-1,fixed-3 --external-id ran-{side} --order name --waves 1,rest",
        "other --hosts fixed-1 --external-id ran-{side}",
        "x --type shell --hosts role=web --external-id asked-job-{side} -m try --env A=1 --timeout 5s",
        "--type noop --hosts fixed-1 --rate 2 --max-in-flight 1 --not-after 1h --metadata n=1",
        "x --hosts fixed-9",
        "x --hosts role=nothing",
        "x --type unknown --hosts fixed-1",
        "x --hosts fixed-1 --waves 0",
        "x --hosts fixed-1 --rate fast",
        "x --hosts fixed-1 --env A",
    ],
    "rehearse": [
        "uptime --hosts fixed-1,fixed-3 --order name --waves 1,rest --seed 7 --loss 10% --crash 2%",
        "uptime --hosts fixed-1 --fail 100% --takes 2",
        "x --hosts fixed-9",
        "x --hosts fixed-1 --loss many",
    ],
    "approve": [
        "foreign -m fine --expect-digest d1:other",
        "foreign -m fine --dry-run",
        "no-such-job -m fine",
        "foreign-{side} -m fine",
        "foreign-{side} -m fine",
    ],
    "withdraw": ["voted-{side} -m oops", "no-such-job"],
    "reject": ["foreign -m bad --dry-run", "rejected-{side} -m bad", "rejected-{side} -m bad"],
    "approval list": ["", "--limit 1", "--project web -q rule:default"],
    "job list": [
        "",
        "--status WAIT_APPROVAL --limit 1",
        "--host fixed-2",
        "-q status:NEW",
        "-q x:y",
    ],
    "job show": ["foreign", "foreign --drift", "job_none", "no-such-job"],
    "job plan": ["foreign", "foreign --limit 1"],
    "job executions": ["foreign", "foreign --status NEW --limit 1", "foreign --host fixed-2"],
    "job output": ["foreign", "foreign --stream stderr"],
    "job why": ["foreign fixed-1", "foreign fixed-3", "no-such-job fixed-1"],
    "job pause": ["order-{side} --dry-run", "order-{side} -m odd", "order-{side} -m odd"],
    "job resume": ["order-{side} --expect-version 99", "order-{side}"],
    "job promote": ["order-{side}"],
    "job set": [
        "order-{side}",
        "order-{side} --max-in-flight 1 --max-lost 0 --rate 2",
        "order-{side} --max-in-flight none",
    ],
    "job break-glass": ["order-{side} --ticket INC-7 -m down", "foreign --ticket I -m x --dry-run"],
    "job review": ["order-{side} -m seen"],
    "job abort": ["order-{side} --mode kill -m wrong", "order-{side}"],
    "job cancel": ["cancelled-job-{side}"],
    "job retry": ["foreign", "foreign --dry-run", "foreign --only nothing"],
    "job retry-failed": ["foreign"],
    "webhook list": ["", "--direction out"],
    "webhook show": ["hook-s", "whk_none"],
    "webhook add": [
        "new-{side} --dry-run",
        "new-{side} --reason ci",
        "new-{side}",
        "out-{side} --to https://hooks.example/x --kind job.*",
        "bad --to ftp://x --kind job.*",
        "keyless --signature ed25519",
    ],
    "webhook edit": [
        "hook-{side}",
        "hook-{side} --state disabled --expect-version 99",
        "hook-{side} --state disabled",
        "hook-{side} --state active",
    ],
    "webhook rotate": ["hook-{side} -m leaked", "hook-{side} --public-key whpk_x", "whk_none"],
    "webhook retire": ["hook-{side}"],
    "webhook test": ["hook-{side} -m try", "whk_none"],
    "webhook deliveries": ["hook-s", "whk_none"],
    "webhook resend": ["hook-{side} 999"],
    "webhook remove": ["hook-{side} --dry-run", "hook-{side} whk_none -m done"],
    "host list": [
        "",
        "role=web --limit 1",
        "--state gone",
        "--query 1 --project web",
        "-q state:active",
        "role=web -q -driver:ssh",
        "-q labels.role:web",
        "-q x:y",
        "role= --limit 2",
        "--after x",
    ],
    "host select": ["role=web", "fixed-*", "fixed-9", "("],
    "host show": ["fixed-1", "no-such-host"],
    "host add": [
        "one-{side} --label role=new --label zone=eu --address 10.0.0.1 --dry-run",
        "one-{side} --label role=new --driver ssh --address 10.0.0.1 --reason new",
        "one-{side}",
        "one-{side} --dry-run",
        "bad --label role",
    ],
    "host edit": [
        "one-{side} --state cordoned --label zone=us --label role- --dry-run",
        "one-{side} --state cordoned --label zone=us --label role- -m swap",
        "one-{side} --state active --expect-version 99",
        "one-{side}",
        "none --state active",
    ],
    "host label": ["role=side-{side} rack=1", "one-{side} rack=1 --dry-run", "one-{side} rack=1"],
    "host import": [
        "hosts-{side}.txt --dry-run",
        "hosts-{side}.txt --reason more",
        "hosts-{side}.txt",
        "missing.txt",
        "hosts.yaml",
    ],
    "host remove": [
        "one-{side} no-such-host --dry-run",
        "one-{side} --expect-version 99",
        "one-{side} no-such-host -m sold",
    ],
    "group list": ["", "--project web"],
    "group show": ["fixed", "none"],
    "group add": ["new-{side} role=web --dry-run", "new-{side} role=web", "new-{side} role=web"],
    "group edit": [
        "new-{side} role=db --expect-version 9",
        "new-{side} role=db -m moved",
        "none *",
        "new-{side} role=db --dry-run",
    ],
    "group remove": ["new-{side} --dry-run", "new-{side}", "new-{side}"],
    "block list": ["", "--host fixed-1", "--lifted", "--host none"],
    "block show": ["block-s", "blk_none"],
    "block add": [
        "--host fixed-2 -m swap --expires 2h --dry-run",
        "--host fixed-2 -m swap --expires 2h --owner ann",
        "--hosts role=none -m x --effect hold --on-lift drop --type r*",
        "--host fixed-2 --hosts role=web -m x",
        "--host none -m x",
        "--host fixed-2 -m x --window FREQ=DAILY",
        "--host fixed-2 -m x --window FREQ=DAILY --window-length 1h --timezone Europe/Prague",
    ],
    "block edit": [
        "block-{side} --expires 1h --expect-version 99",
        "block-{side} --expires 1h --dry-run",
        "block-{side} --expires 1h -m longer",
        "block-{side} --expires never --effect hold",
        "block-{side}",
    ],
    "block lift": ["block-{side} --dry-run", "block-{side} -m done", "block-{side} blk_none"],
    "block remove": ["other-{side} --reason done"],
    "sync status": ["web"],
    "sync log": ["web", "web --node a --limit 1", "web --after 1"],
    "sync verify": ["folder-of-node", "no-such-folder"],
    "sync fix-expired-locks": ["--dry-run", "--project web"],
    "project list": [""],
    "project show": ["web", "no-such-project"],
    "project create": ["made-{side} --strategy manual --override set=merge", "Bad"],
    "project set": [
        "made-{side} --strategy merge --expect-version 77",
        "made-{side} --strategy merge",
    ],
    "token list": [""],
    "token create": [
        "ci-{side} --role operator --expires 90d --reason ci",
        "bad --role king",
        "join-{side} --kind join --uses 3 --project web --expires 2d",
        "bad --kind join --role viewer",
        "bad --uses 2",
    ],
    "token rotate": ["token-{side} --reason leaked", "tok_none"],
    "token revoke": ["token-{side} --reason leaked", "tok_none"],
    "audit list": ["--limit 5"],
    "audit verify": [""],
    "audit export": ["", "--since 3"],
    "watch": [
        "done",
        "dead-1",
        "-q x:y",
        "done -q type:add",
        "later --timeout 10ms",
        "foreign --timeout 10ms",
        "rejected-job --progress plain",
        "job_none",
    ],
    "top": ["", "--every 0"],
    "wait": [
        "foreign --timeout 10ms",
        "foreign --for status=WAIT_APPROVAL",
        "rejected-job",
        "rejected-job --for status=success",
        "foreign --for status=nothing",
        "done",
        "done --for status=aborted",
        "dead-1 --for status=failed,paused",
        "later --timeout 10ms",
        "later --for status=none",
        "later --for done",
    ],
    "logs": [
        "wrote",
        "wrote --stream log --follow",
        "no-such-task",
        "foreign",
        "foreign --host fixed-1",
        "foreign --host none",
        "foreign --follow",
    ],
    "api": [
        "POST /queues/line-{side}/pause reason=outage",
        "GET /tasks limit=2 q=type:boom",
        "GET /api/v2/sync/status/web?x=1",
        "GET /nothing",
        "GET tasks",
        "FLY /tasks",
    ],
    "openapi": [""],
    "asyncapi": [""],
    "stats": [""],
}
"""The arguments with which each verb is compared. Verbs of one noun run in this order."""


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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path, str]]:
    folder = tmp_path_factory.mktemp("gateway")
    url = f"sqlite:///{folder}/holdfast.db"
    with started(folder, "--url", url, "--no-loops", HOLDFAST_ADMIN_TOKEN=ADMIN) as process:
        yield process, folder, url


@pytest.fixture(scope="module")
def world(server: tuple[Process, Path, str]) -> World:
    process, folder, url = server
    names = asyncio.run(fill(url))
    asyncio.run(fill_node(folder / "folder-of-node"))
    for side in SIDES:
        text = f"imported-{side}-[1-3] role=imported\nwrong line\n"
        (folder / f"hosts-{side}.txt").write_text(text)
    with contextlib.closing(apsw.Connection(f"{folder}/holdfast.db")) as connection:
        connection.execute(KEEP_LIVE)
    subprocess.run([sys.executable, "-c", HOLDER, url], check=True)
    return World(folder, url, process.url.replace("http://", "holdfast://"), names)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_URL", "HOLDFAST_GATEWAY", "HOLDFAST_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_every_verb_has_an_entry() -> None:
    """A new verb is compared, or says why it does not go through a gateway."""
    assert set(CASES) | LOCAL | {WORKER, AGENT, "doctor", "ui", "version"} == set(BY_PATH)
    assert not set(CASES) & LOCAL


@pytest.mark.parametrize("noun", sorted({path.split()[0] for path in CASES}))
def test_the_store_and_the_gateway_answer_alike(world: World, noun: str) -> None:
    for path, texts in CASES.items():
        if path.split()[0] == noun:
            acts = [act for text in texts for act in compare(world, path, text.split())]
            assert bool(acts) == (not is_read(path) and path not in NOT_AUDITED), path


def compare(world: World, path: str, options: list[str]) -> list[str]:
    """Returns the audit rows that the verb has left."""
    args = [*path.split(), *options]
    if BY_PATH[path].kind is Kind.WRITE:
        compare_dry_runs(world, args)
    acts: list[list[str]] = [[], []]
    for output in ("table", "json") if is_read(path) else ("json",):
        sides: list[tuple[int, Any, Any]] = []
        for side, left in zip(SIDES, acts, strict=True):
            before = len(audited(world))
            sides.append(normal(world.run(side, *args, "-o", output), output))
            left += [words(act) for act in audited(world)[before:]]
        assert [*differences(sides[0], sides[1])] == [], f"{args} -o {output}"
        codes = [code for found in sides[0][2] for code in found]
        assert "internal" not in codes, f"{args} -o {output}"
    assert acts[0] == acts[1], args
    return acts[0]


def compare_dry_runs(world: World, args: list[str]) -> None:
    """A dry run is judged like the change, and leaves the whole store as it was."""
    dry = args if "--dry-run" in args else [*args, "--dry-run"]
    sides = []
    for side in SIDES:
        before = dumped(world)
        done = world.run(side, *dry, "-o", "json")
        sides.append(normal(done, "json"))
        # A revoke of a lock that is not held notes when it has looked, as every look at a lock does.
        is_free = done.code != 0 and dry[0] == "lock"
        assert is_free or dumped(world) == before, f"{dry} has changed the store"
    assert [*differences(sides[0], sides[1])] == [], dry


def dumped(world: World) -> list[str]:
    """All rows of the store, but for signs of life and for what any reader derives from the events."""
    with contextlib.closing(sqlite3.connect(world.url.removeprefix("sqlite:///"))) as connection:
        lines = list(connection.iterdump())
    return [line for line in lines if not line.startswith(DERIVED)]


DERIVED = (
    "DELETE FROM",
    'INSERT INTO "sqlite_sequence"',
    'INSERT INTO "holdfast_node"',
    'INSERT INTO "holdfast_counter"',
    'INSERT INTO "holdfast_feed_head"',
)


def audited(world: World) -> list[str]:
    """The operation and the subject of each audit row, in order."""
    connection = apsw.Connection(
        world.url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY
    )
    with contextlib.closing(connection):
        return [" ".join(row) for row in connection.execute(AUDITED)]


AUDITED = "SELECT operation, subject FROM holdfast_audit ORDER BY seq"
NOT_AUDITED = {
    "task-group enqueue": "it is an act of a producer, and the tasks are their record",
    "enqueue": "it is an act of a producer, and the task itself is its record",
    "task reassign": "its node does not run here, so it is refused",
    "task release": "its task has no runner, so it is refused",
    "op stop": "there is no such operation, so it is refused",
    "op resume": "there is no such operation, so it is refused",
    "job promote": "no wave waits for a person",
    "job break-glass": "the job needs no approval, so it is refused",
    "job review": "the job did not skip its approval, so it is refused",
    "job retry": "the job has not ended, so it is refused",
    "job retry-failed": "the job has not ended, so it is refused",
    "webhook resend": "there is no such delivery, so it is refused",
    "sync fix-expired-locks": "no lock has expired in this world, so it changes nothing",
}
"""Verbs that change something and leave no audit row, and why."""


def differences(store: Any, gateway: Any, place: str = "") -> Iterator[str]:
    """The places where two answers differ."""
    if isinstance(store, dict) and isinstance(gateway, dict):
        for key in {**store, **gateway}:
            yield from differences(store.get(key), gateway.get(key), f"{place}.{key}")
    elif (
        isinstance(store, list | tuple)
        and isinstance(gateway, list | tuple)
        and len(store) == len(gateway)
    ):
        for n, pair in enumerate(zip(store, gateway, strict=True)):
            yield from differences(*pair, f"{place}[{n}]")
    elif store != gateway:
        yield f"{place}: {store!r} != {gateway!r}"


def is_read(path: str) -> bool:
    return path.rsplit(maxsplit=1)[-1] in READING


READING = {"list", "show", "why", "history", "groups", "tail", "status", "log", "verify", "stats",
           "interventions", "output", "checkpoints", "watch", "top", "wait", "logs", "export", "select",
           "plan", "executions", "deliveries", "rehearse",
           "openapi", "asyncapi"}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
LENGTH = re.compile(r"\b\d+(\.\d+)? ?(ms|s|m|h|d)\b( \d+[smh]\b)?")
SECRET = re.compile(r"hf_(?:user|join|node)_[\w-]+|whsec_[\w+/=]+")
ACTOR = re.compile(r"\bcli:\w+|user:admin")
CODE = re.compile(r'error\[([\w-]+)\]|"code": "([\w-]+)"')
"""The code of an error. Its text may differ: a gateway does not say whether a thing exists elsewhere."""
HEX = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b")
MADE = re.compile(r"\b(tok|int|req|con|dec|op|ckp|hst|blk|job|apr|whk|msg)_\w+")


def normal(done: Done, output: str) -> tuple[int, object, object]:
    """The result without what differs from run to run: times, actors, ids that the store made."""
    out: object = done.out
    if output == "json" and done.out:
        out = plain(json.loads(done.out))
    shown = out if output == "json" else words(done.out).splitlines()
    return (
        done.code,
        shown,
        [code for line in done.said.splitlines() for code in CODE.findall(line)],
    )


FLEETING = ("_at", "_at_iso", "at", "at_iso", "_seconds", "seconds_ago", "seconds")


def plain(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            return {key: plain(item, key) for key, item in value.items() if key not in LEFT_OUT}
        case list():
            return [plain(item, name) for item in value]
        case str():
            return words(value)
        case int() | float() if name == "id" or name.endswith(FLEETING):
            return "number"
    return value


LEFT_OUT = {
    "position",
    "cursor",
    "hash",
    "prev",
    "prev_hash",
    "head",
    "digest",
    "seed",
    "before_version",
    "after_version",
}


def words(text: str) -> str:
    text = HEX.sub("ID", text)  # first: a part of an id may look like a length
    for pattern, stand_in in ((TIME, "TIME"), (LENGTH, "LENGTH"), (SECRET, "SECRET")):
        text = pattern.sub(stand_in, text)
    text = MADE.sub(r"\1_id", ACTOR.sub("actor", text))
    return re.sub(r"-[sg]\b", "-side", re.sub(r" {2,}", "  ", text))


# -- what differs on purpose ------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(LOCAL))
def test_a_command_without_a_gateway_says_so(world: World, path: str) -> None:
    done = world.run(GATEWAY, *path.split())
    assert (done.code, done.out) == (2, "")
    assert f"holdfast {path} does not go through a gateway: " in done.said


def test_a_database_command_is_not_led_astray_by_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GATEWAY", world.gateway)
    for args in (["migrate"], ["new-epoch", "--yes"]):
        done = run_inside(world.folder, "db", *args)
        assert done.code == 2
        assert "HOLDFAST_GATEWAY names a gateway: give --url" in done.said
    assert run_inside(world.folder, "db", "migrate", "--url", world.url).code == 0


def test_the_environment_names_the_gateway_and_a_flag_counts_more(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_GATEWAY", world.gateway)
    monkeypatch.setenv("HOLDFAST_TOKEN", ADMIN)
    assert "default" in run_inside(tmp_path, "queue", "list").out
    other = f"sqlite:///{tmp_path}/other.db"
    assert run_inside(tmp_path, "queue", "list", "--url", other).code == 10
    for args in (["--gateway", ""], ["--gateway", world.gateway, "--url", other]):
        assert run_inside(tmp_path, "queue", "list", *args).code == 2
    assert run_inside(tmp_path, "queue", "list", "--gateway", other).code == 2


def test_a_token_without_a_gateway_is_refused(world: World) -> None:
    done = run_inside(world.folder, "queue", "list", "--url", world.url, "--token", ADMIN)
    assert done.code == 2
    assert "--token is for a gateway" in done.said


def test_the_pages_open_with_a_link_for_the_token(world: World) -> None:
    viewer = world.names["secret of viewer"]
    link = json.loads(world.run(GATEWAY, "ui", "--no-browser", "-o", "json", token=viewer).out)
    with httpx2.Client() as client:
        answer = client.get(link["url"])
        assert (answer.status_code, viewer in answer.headers["set-cookie"]) == (303, True)
    without = world.run(STORE, "ui")
    assert (without.code, "a store has no pages" in without.said) == (2, True)


def test_tokens_that_do_not_open(world: World) -> None:
    wrong = world.run(GATEWAY, "queue", "list", token="hf_user_" + "x" * 43)
    assert (wrong.code, wrong.out) == (4, "")
    assert "error[unauthenticated]" in wrong.said
    assert "hf_user_" not in wrong.said
    missing = run_inside(world.folder, "queue", "list", "--gateway", world.gateway)
    assert missing.code == 2
    assert "HOLDFAST_TOKEN" in missing.said
    expired = made_token(world, "--role", "viewer", "--expires", "1ms")
    done = world.run(GATEWAY, "queue", "list", token=expired)
    assert (done.code, "error[unauthenticated]" in done.said) == (4, True)
    revoked = made_token(world, "--role", "viewer")
    assert world.run(GATEWAY, "queue", "list", token=revoked).code == 0


def made_token(world: World, *options: str) -> str:
    done = world.run(STORE, "token", "create", "made", *options, "-o", "name")
    assert done.code == 0, done
    return done.out.strip()


def test_a_missing_right_changes_nothing(world: World) -> None:
    viewer = world.names["secret of viewer"]
    assert world.run(GATEWAY, "task", "show", "later", token=viewer).code == 0
    for args in (
        "task cancel later",
        "queue pause default",
        "dlq discard dead-2",
        "dlq replay --all --yes",
        "token list",
        "audit list",
        "project create stolen",
        "enqueue add a=1",
        "lock revoke lock-x",
    ):
        done = world.run(GATEWAY, *args.split(), token=viewer)
        assert (done.code, done.out) == (4, ""), args
        assert "error[forbidden]: user:viewer may not do" in done.said, args
    assert json.loads(world.run(STORE, "task", "show", "later", "-o", "json").out)["version"] == 1


def test_a_gateway_that_does_not_answer(world: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"holdfast://127.0.0.1:{taken.getsockname()[1]}"
        done = run_inside(world.folder, "stats", "--gateway", away, "--token", ADMIN)
        checked = run_inside(world.folder, "doctor", "--gateway", away, "--token", ADMIN)
    assert done.code == 10
    assert "error[gateway-unavailable]: no gateway answers at" in done.said
    assert checked.code == 1
    assert "fail: gateway: [gateway-unavailable]" in checked.said


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    tls = ("--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(TLS / "key.pem"))
    url = f"sqlite:///{tmp_path}/holdfast.db"
    with started(tmp_path, "--url", url, "--no-loops", *tls, HOLDFAST_ADMIN_TOKEN=ADMIN) as process:
        command = ("queue", "list", "--token", ADMIN, "--gateway")
        done = run_inside(tmp_path, *command, process.url)
        trusted = run_inside(tmp_path, *command, f"{process.url}?ca={TLS / 'cert.pem'}")
        for scheme in ("holdfasts", "grpcs"):
            asyncio.run(_finds_the_certificate(process.url.replace("https", scheme)))
    assert done.code == 2
    assert f"the certificate of gateway {process.url} is not trusted" in done.said
    assert "?ca=FILE" in done.said
    assert trusted.code == 0, trusted


async def _finds_the_certificate(url: str) -> None:
    """A worker, and a watch, do not wait for a gateway that they will never trust."""
    queue = TaskQueue(url, token=ADMIN)
    queue.register_handler("mail", print)
    with pytest.raises(BadConfig, match=r"the certificate of gateway .* is not trusted"):
        await queue.start()
    await queue.stop()
    async with Client(url, token=ADMIN) as client, client.watch("project:default") as items:
        with pytest.raises(BadConfig, match=r"the certificate of gateway .* is not trusted"):
            await anext(aiter(items))


@pytest.mark.parametrize("answers", ["nothing", "a page"])
def test_doctor_names_a_server_that_is_no_gateway(tmp_path: Path, answers: str) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if answers == "nothing" else 200)
            self.end_headers()
            self.wfile.write(b"<html>welcome</html>")

        def log_message(self, *_: object) -> None:
            """Keeps quiet."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run_inside(tmp_path, "doctor", "--gateway", url, "--token", ADMIN)
        server.shutdown()
        thread.join()
    assert done.code == 1
    assert "is not a gateway of Holdfast" in done.said


def test_doctor_checks_the_way_to_the_gateway(world: World) -> None:
    done = world.run(GATEWAY, "doctor", "-o", "json")
    checks = {item["name"]: item for item in json.loads(done.out)}
    of_store = json.loads(world.run(STORE, "doctor", "-o", "json").out)
    assert list(checks) == ["gateway", "version", "token", "clock skew"] + [
        item["name"] for item in of_store
    ]
    assert "(from --gateway): reachable" in checks["gateway"]["text"]
    assert checks["version"]["text"] == f"{__version__}, as this command"
    assert "of user:admin: admin; projects: all" in checks["token"]["text"]
    assert checks["clock skew"]["level"] == "ok"
    token = made_token(world, "--role", "viewer", "--project", "web")
    narrow = json.loads(world.run(GATEWAY, "doctor", "-o", "json", token=token).out)
    assert narrow[-1]["name"] == "store"
    assert "the token may not see the checks of the store" in narrow[-1]["text"]


def test_a_change_through_a_gateway_is_an_intervention_of_its_principal(world: World) -> None:
    assert world.run(GATEWAY, "enqueue", "add", "--id", "watched", "--delay", "1h").code == 0
    token = made_token(world, "--role", "operator")
    assert world.run(GATEWAY, "task", "pause", "watched", "--reason", "look", token=token).code == 0
    history = json.loads(world.run(STORE, "task", "history", "watched", "-o", "json").out)
    made = [event for event in history if event["kind"].startswith("intervention.")]
    assert made
    assert {event["data"]["actor"] for event in made if "actor" in event["data"]} == {"user:made"}
    acts = json.loads(world.run(STORE, "audit", "list", "--limit", "1", "-o", "json").out)
    fields = ("operation", "subject", "actor", "reason")
    assert [tuple(act[name] for name in fields) for act in acts] == [
        ("tasks.intervene", "watched", "user:made", "look")
    ]


def test_the_figures_of_a_token_are_those_of_its_projects(world: World) -> None:
    token = made_token(world, "--role", "viewer", "--project", "web")
    figures = json.loads(world.run(GATEWAY, "stats", "-o", "json", token=token).out)
    assert figures["dead_letter_count"] == 0
    waiting = sum(figures[name] for name in ("queued", "blocked", "paused"))
    assert waiting == sum(sum(counts.values()) for counts in figures["by_queue"].values()) == 2


@pytest.mark.parametrize("side", SIDES)
def test_a_prefix_of_a_decision_or_a_conflict_is_enough(world: World, side: str) -> None:
    for noun in ("decision", "conflict"):
        whole = world.names[f"{noun}-s"]
        item = json.loads(world.run(side, noun, "show", whole[:30], "-o", "json").out)
        assert item["id"] == whole
        others = world.run(side, noun, "show", whole[:6])
        assert others.code == 2
        assert "start with" in others.said
