"""One run: servers, processes, load and faults, then quiet, then the evidence for the judge."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from holdfast import TaskQueue
from holdfast.client import Client
from holdfast.client.node.journal import Refused
from proof.hub import app, audience, plugin
from proof.hub.evidence import Evidence, Replica, feed_of, last_offsets
from proof.hub.faults import Faults
from proof.hub.load import Load
from proof.hub.plan import ADMIN, PROJECT, Plan
from proof.hub.site import Kept, module
from proof.lab.report import say
from proof.lab.servers import Postgres, Redis, free_port

POLL_SECONDS = 0.2
ENDED = ("completed", "failed", "aborted")
UNFINISHED = """SELECT id FROM holdfast_task
WHERE project = 'default' AND NOT (status = ANY($1::text[]))"""
HELD = f"{UNFINISHED} AND (status = 'paused' OR held_by IS NOT NULL)"
"""Tasks that operators paused. Others wait for a decision."""


class Run:
    """The processes of one run, and what it observes."""

    def __init__(self, plan: Plan, folder: Path, postgres: Postgres, redis: Redis) -> None:
        self.plan = plan
        self.folder = folder
        self.postgres = postgres
        self.redis = redis
        self.dsn = postgres.dsn()
        self.ports = tuple(free_port() for _ in range(plan.gateways))
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.gateways: list[Kept] = []
        self.workers: list[Kept] = []
        self.audiences: list[Kept] = []
        self.nodes: list[Kept] = []
        self.node_options: list[plugin.Options] = []
        self.watchers: list[audience.Watcher] = []
        self.store = TaskQueue(self.dsn, redis=redis.url)
        for handler in app.queue.definitions.handlers:
            self.store.definitions.handlers.add(handler)
        self.load = Load(plan, self.urls, self.store)
        self._has_ended = False
        self.complaints: list[str] = []
        """Findings of the run itself: what did not come to rest in time."""

    @property
    def all(self) -> list[Kept]:
        return [*self.gateways, *self.workers, *self.nodes, *self.audiences]

    # -- the processes -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts everything and waits until it works."""
        (self.folder / "journal").mkdir()
        env = {"HOLDFAST_ADMIN_TOKEN": ADMIN}
        for nth, port in enumerate(self.ports):
            command = module(
                *("holdfast", "server", "--port", str(port), "--grpc-port", "-1"),
                *("--url", self.dsn, "--redis", self.redis.url),
            )
            name = f"gateway-{nth}"
            kept = Kept(name, command, self.folder, env=env, ready="http://127.0.0.1")
            self.gateways.append(kept)
        await self._start(self.gateways[:1])  # creates the store
        await self._start(self.gateways[1:])
        async with Client(self.urls, ADMIN) as client:
            join = await client.tokens.create_join(uses=1_000, reason="hub")
            await client.projects.create(PROJECT, reason="hub")
            plugins = await client.tokens.create_join(project=PROJECT, uses=1_000, reason="hub")
        self._make_workers(join.token or "")
        await self._start(self.workers)
        self._make_nodes(plugins.token or "")

    async def _start(self, group: Sequence[Kept]) -> None:
        for kept in group:
            kept.start()
        await asyncio.gather(*(kept.ready() for kept in group))

    def _make_workers(self, token: str) -> None:
        env = {app.JOURNAL: str(self.folder / "journal")}
        command = module("holdfast", "worker", "proof.hub.app:queue", "--concurrency", "4")
        direct = env | {app.URL: self.dsn, app.REDIS: self.redis.url}
        for nth in range(self.plan.direct_workers):
            name = f"direct-{nth}"
            self.workers.append(Kept(name, command, self.folder, env=direct, ready="ready: pid"))
        for nth in range(self.plan.remote_workers):
            turned = [*self.ports[nth:], *self.ports[:nth]]
            address = "holdfast://" + ",".join(f"127.0.0.1:{port}" for port in turned)
            remote = env | {"HOLDFAST_GATEWAY": address, "HOLDFAST_TOKEN": token}
            name = f"remote-{nth}"
            self.workers.append(Kept(name, command, self.folder, env=remote, ready="ready: pid"))

    def _make_nodes(self, token: str) -> None:
        for nth in range(self.plan.offline_nodes + 1):
            options = plugin.Options(
                f"node-{nth}", str(self.folder), self.ports, token, f"{self.plan.seed} node {nth}"
            )
            self.node_options.append(options)
        for options in self.node_options[:-1]:  # the last one only reads, at the end
            self.nodes.append(self._with_options(options.name, "proof.hub.plugin", options))

    def _with_options(self, name: str, target: str, options: msgspec.Struct) -> Kept:
        path = self.folder / f"{name}.json"
        path.write_bytes(msgspec.json.encode(options))
        return Kept(name, module(target, path), self.folder)

    async def admit(self, start: str) -> None:
        """Starts the watchers."""
        rng = self.plan.rng("watchers")
        tasks = [
            await self.store.enqueue("slow", {"seconds": 0.5}, delay=rng.uniform(0, 20.0))
            for _ in range(max(1, self.plan.watchers // 10))
        ]
        channels = [f"task:{task.id}" for task in tasks]
        channels += ["project:default", "project:all", f"project:{PROJECT}", "system:events"] * 3
        for nth in range(self.plan.watchers):
            is_late = rng.random() < 0.3
            watcher = audience.Watcher(
                f"watcher-{nth}",
                channels[nth % len(channels)],
                None if rng.random() < 0.2 else start,
                ("task.*",) if rng.random() < 0.2 else (),
                rng.uniform(0, self.plan.seconds) if is_late else 0.0,
            )
            self.watchers.append(watcher)
        for nth in range(self.plan.audiences):
            options = audience.Options(
                f"audience-{nth}",
                str(self.folder),
                self.ports,
                tuple(self.watchers[nth :: self.plan.audiences]),
                -(-self.plan.reconnects // self.plan.audiences),
                self.plan.seconds,
                f"{self.plan.seed} audience {nth}",
            )
            self.audiences.append(self._with_options(options.name, "proof.hub.audience", options))
        await self._start([*self.audiences, *self.nodes])

    async def end(self) -> None:
        """Stops workers and gateways in good order, kills the rest. A second call does nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        await asyncio.gather(*(kept.discard() for kept in [*self.audiences, *self.nodes]))
        await asyncio.gather(*(kept.end() for kept in self.workers))
        await asyncio.gather(*(kept.end() for kept in self.gateways))
        with suppress(Exception):
            await self.load.close()
        await self.store.stop()

    # -- quiet -------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """After the last fault: every task ends, within the bound."""
        await asyncio.gather(*(kept.ready() for kept in [*self.gateways, *self.workers]))
        answering = asyncio.create_task(self.load.answer_decisions())
        try:
            async with asyncio.timeout(self.plan.quiet_seconds):
                await self.load.finish()
                while await self._query(UNFINISHED):
                    await self.load.resume(await self._query(HELD))
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            left = len(await self._query(UNFINISHED))
            self.complaints.append(f"{left} tasks did not end in {self.plan.quiet_seconds} s")
        finally:
            answering.cancel()

    async def _query(self, text: str) -> list[str]:
        """Ids of tasks."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return [row["id"] for row in await connection.fetch(text, ENDED)]
        finally:
            await connection.close()

    async def converge(self) -> list[Replica]:
        """Syncs the offline nodes in turn until none has anything to send, then a new one."""
        for _ in range(2):
            for options in self.node_options[:-1]:
                async with await plugin.open_node(options) as node:
                    await self.load.insist(node.sync)
        replicas = []
        for options in self.node_options:
            async with await plugin.open_node(options) as node:
                await self.load.insist(node.sync)
                replicas.append(
                    Replica(
                        options.name,
                        {task.id: task.fields for task in node.tasks()},
                        node.pending(),
                        refused_labels(node.conflicts()),
                        plugin.made(self.folder / f"{options.name}.made"),
                    )
                )
        return replicas

    async def watched(self, last: dict[str, int]) -> dict[str, dict[str, Any]]:
        """Waits until the watchers have their last event. Returns the reports of the audiences."""
        part = self.folder / "final.part"
        part.write_text(json.dumps(last))
        part.rename(self.folder / "final.json")
        until = time.monotonic() + self.plan.quiet_seconds
        while True:
            reports = {
                kept.name: json.loads(path.read_text())
                for kept in self.audiences
                if (path := self.folder / f"{kept.name}.report").exists()
            }
            done = [name for name, report in reports.items() if report["complete"]]
            if len(done) == len(self.audiences) or time.monotonic() > until:
                return reports
            await asyncio.sleep(POLL_SECONDS)


def refused_labels(refusals: Iterable[Refused]) -> set[str]:
    """The labels of refused changes. A node joins changes before it sends them, so one refusal may have
    several."""
    labels = (refused.change.get("labels") or {} for refused in refusals)
    return {
        label
        for change in labels
        for label in (change.get("add", []) if isinstance(change, dict) else change)
    }


def audit_is_whole(dsn: str) -> str:
    """Empty, or what `holdfast audit verify` said."""
    command = [sys.executable, "-m", "holdfast", "audit", "verify", "--url", dsn]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@asynccontextmanager
async def _site(plan: Plan, folder: Path) -> AsyncIterator[Run]:
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(Postgres(synchronous_commit="on"))
        redis = stack.enter_context(Redis())
        run = Run(plan, folder, postgres, redis)
        stack.push_async_callback(run.end)
        yield run


async def run_plan(plan: Plan, folder: Path) -> Evidence:
    """Runs the plan in an empty folder."""
    async with _site(plan, folder) as run:
        await run.start()
        start = str(await run.store.position())
        await run.admit(start)
        say(f"seed {plan.seed}: {len(run.all)} processes work; {plan.seconds:.0f} s of faults")
        faults = Faults(
            plan,
            gateways=run.gateways,
            workers=run.workers,
            nodes=run.nodes,
            postgres=run.postgres,
            redis=run.redis,
        )
        working = asyncio.create_task(run.load.run())
        await faults.run()
        await asyncio.gather(*(kept.discard() for kept in run.nodes))
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        quiet = time.monotonic()
        await run.settle()
        replicas = await run.converge()
        events = await feed_of(run.store, start)
        reports = await run.watched(last_offsets(events, run.watchers))
        quiet_seconds = time.monotonic() - quiet
        await run.end()
        return Evidence(
            plan=plan,
            start=start,
            events=events,
            watchers=run.watchers,
            folder=folder,
            reports=reports,
            replicas=replicas,
            tasks=await rows(run.dsn),
            answers={key: set(ids) for key, ids in run.load.answers.items()},
            interventions=set(run.load.interventions),
            unexpected=list(run.load.unexpected),
            refusals=dict(run.load.errors),
            retries=run.load.retries,
            faults=dict(faults.count),
            fault_log=faults.log,
            processes=run.all,
            audit=audit_is_whole(run.dsn),
            complaints=run.complaints,
            quiet_seconds=quiet_seconds,
        )


async def rows(dsn: str) -> list[dict[str, Any]]:
    """The tasks at the end."""
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetch("SELECT * FROM holdfast_task")
        return [dict(row) for row in found]
    finally:
        await connection.close()
