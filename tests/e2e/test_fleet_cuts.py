"""Ten agents and two gateways on one PostgreSQL, as processes, on a network with cuts, while agents and
gateways are killed: each command starts once, and each host has its one true outcome.

The network is one of namespaces of the kernel, or of proxies where those are not allowed (`fleet_networks`).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

from holdfast.clock import SystemClock
from holdfast.core.fleet.model import Job, JobStatus
from holdfast.core.fleet.rules import RULES
from holdfast.core.rights import Operation
from holdfast.core.token import TokenKind
from holdfast.fleet.jobs.outputs import JobOutputs
from holdfast.fleet.jobs.reads import JobReads
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.tokens import NewToken, Tokens
from proof.lab.servers import Postgres
from tests.conformance.fleet.agent_support import slot_of
from tests.e2e.fleet_networks import Network, open_network
from tests.integration.fleet.fleet_site import Site, site
from tests.launcher import Child, launcher

AGENTS: Final = 10
GATEWAYS: Final = 2
JOBS: Final = 6
SEED: Final = 7
FAULTS: Final = {"cut": 9, "heal": 7, "disturb": 5, "kill an agent": 6, "kill a gateway": 2}
"""How often each happens, in an order that the seed draws. A cut without an earlier heal stays to the end."""
FAULT_SECONDS: Final = 0.15
"""The time between two faults."""
ADMIN: Final = "hf_admin_" + "e" * 40


class Processes:
    """The gateways and the agents. What is killed is started again at once."""

    def __init__(self, network: Network, folder: Path, url: str) -> None:
        self._network = network
        self._folder = folder
        self._url = url
        self.join = ""
        """The token of new agents."""
        self._env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        self._children: dict[str, Child] = {}
        self._outputs: dict[str, IO[str]] = {}
        self._is_ready: set[str] = set()

    def gateway(self, n: int) -> None:
        options = [*self._network.gateway_options(n), "--grpc-port", "-1", "--url", self._url]
        env = self._env | {"HOLDFAST_ADMIN_TOKEN": ADMIN}
        self._start(f"gateway-{n}", ["server", *options], env, self._network.gateway_network())

    def agent(self, n: int) -> None:
        options = ["--gateway", self._network.addresses(n), "--token", self.join]
        state = str(self._folder / f"state-{n}")
        transport = ("http", "websocket")[n % 2]
        args = [
            "agent",
            *options,
            "--state",
            state,
            "--name",
            f"host-{n}",
            "--transport",
            transport,
        ]
        self._start(f"agent-{n}", args, self._env, self._network.agent_network(n))

    def kill(self, name: str) -> None:
        """kill -9, and another start."""
        child = self._children.pop(name)
        child.kill()
        assert child.wait() == -signal.SIGKILL, self.log(name)
        kind, _, number = name.partition("-")
        start = self.gateway if kind == "gateway" else self.agent
        start(int(number))

    async def ready(self) -> None:
        """Waits for the first line of each."""
        for name in [name for name in self._children if name not in self._is_ready]:
            self._is_ready.add(name)
            line = await asyncio.to_thread(self._outputs[name].readline)
            assert line, self.log(name)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def _start(self, name: str, args: list[str], env: dict[str, str], network: str) -> None:
        reading, writing = os.pipe()
        with (self._folder / f"{name}.log").open("a") as log, Path(os.devnull).open() as stdin:
            streams = (stdin, writing, log)
            self._children[name] = launcher().start(args, self._folder, env, streams, network)
        os.close(writing)
        if name in self._outputs:
            self._outputs[name].close()
        self._outputs[name] = os.fdopen(reading)

    def end(self) -> None:
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)
        for child in self._children.values():
            child.wait(30)
        for output in self._outputs.values():
            output.close()


class Storm:
    """Faults, drawn from a seed."""

    def __init__(self, network: Network, processes: Processes, seed: int) -> None:
        self._network = network
        self._processes = processes
        self._random = random.Random(seed)
        self._is_cut: list[int] = []
        self.met: Counter[str] = Counter()

    def faults(self) -> Iterator[str]:
        """Causes one fault after another."""
        faults = list(Counter(FAULTS).elements())
        self._random.shuffle(faults)
        for fault in faults:
            self._cause(fault)
            self.met[fault] += 1
            yield fault

    def _cause(self, fault: str) -> None:
        agent = self._random.choice([n for n in range(AGENTS) if n not in self._is_cut])
        match fault:
            case "cut":
                self._network.cut(agent)
                self._is_cut.append(agent)
            case "heal" if self._is_cut:
                self._network.heal(self._is_cut.pop(0))
            case "disturb":
                self._network.disturb(agent)
            case "kill an agent":
                self._processes.kill(f"agent-{agent}")
            case "kill a gateway":
                self._processes.kill(f"gateway-{self.met[fault] % GATEWAYS}")

    def end(self) -> None:
        for agent in self._is_cut:
            self._network.heal(agent)
        self._is_cut.clear()


async def join_token(store: Store) -> str:
    new = NewToken(
        name="join",
        roles=("join",),
        projects=("default",),
        scopes=(Operation.AGENTS_ENROL.value,),
        kind=TokenKind.JOIN,
        uses=AGENTS,
        expires_in_seconds=3_600.0,
    )
    return (await Tokens(store).create(new, By("test"))).secret


@contextmanager
def database() -> Iterator[str]:
    """The address of a new PostgreSQL that every network namespace reaches."""
    with Postgres(unix_socket_directories=".") as server:
        yield server.socket_dsn()


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[tuple[Site, Network, Processes]]:
    with database() as url:
        async with open_network(AGENTS, folder) as network:
            processes = Processes(network, folder, url)
            try:
                for n in range(GATEWAYS):
                    processes.gateway(n)
                await processes.ready()  # the first one has made the store
                async with site(url, RULES, folder) as fleet:
                    processes.join = await join_token(fleet.store)
                    for n in range(AGENTS):
                        processes.agent(n)
                    await processes.ready()
                    yield fleet, network, processes
            finally:
                await asyncio.to_thread(processes.end)


@pytest.mark.timeout(120)
async def test_each_host_has_one_true_outcome(tmp_path: Path) -> None:
    clock, ends = SystemClock(), tmp_path / "ends"
    async with stage(tmp_path) as (fleet, network, processes):
        hosts = [f"host-{n}" for n in range(AGENTS)]
        script = f"echo begin; sleep 0.3; echo end; echo $HOLDFAST_EXECUTION >> {ends}"
        jobs = [await fleet.create(hosts, script) for _ in range(JOBS)]
        await fleet.until(lambda: len(fleet.starts()) >= AGENTS // 2)
        storm = Storm(network, processes, SEED)
        for _ in storm.faults():
            await clock.wait(asyncio.Event(), FAULT_SECONDS)
        storm.end()
        finished = [await fleet.finished(job.id) for job in jobs]
        assert [job.status for job in finished] == [JobStatus.SUCCESS] * JOBS
        executions = [row for job in finished for row in await outcomes(fleet, job, hosts)]
        once = dict.fromkeys(executions, 1)
        assert fleet.starts() == once
        assert Counter(ends.read_text().split()) == once
        await fleet.until(lambda: slots_are_free(fleet.store, finished))
    assert storm.met == FAULTS


async def outcomes(fleet: Site, job: Job, hosts: list[str]) -> list[str]:
    """The executions of a job: one for each host, with the whole output and without a late result."""
    reads, outputs = JobReads(fleet.store, RULES), JobOutputs(fleet.store)
    page = await reads.executions(job)
    assert sorted(view.execution.host for view in page.items) == hosts
    for view in page.items:
        assert (view.shown.kind, view.execution.exit_code) == ("succeeded", 0)
        assert view.execution.late_json is None
        log = await outputs.log(view)
        assert (log.data, log.complete, log.gaps) == (b"begin\nend\n", True, [])
    return [view.execution.task_id for view in page.items]


async def slots_are_free(store: Store, jobs: list[Job]) -> bool:
    rows = [row for job in jobs for row in (await JobReads(store, RULES).executions(job)).items]
    held = [await slot_of(store, row.execution.host_id) for row in rows[:AGENTS]]
    return all(holder is None for _, holder in held)
