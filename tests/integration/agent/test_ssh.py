"""Hosts without an agent, over SSH on loopback: the real driver, the real rules of the server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.agent.link import HostGone
from holdfast.clock import SystemClock
from holdfast.core.command import Abort, Instruction
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.jobs.spec import check_request, stored
from holdfast.core.fleet.rules import RULES
from holdfast.core.task import Status, Task
from holdfast.errors import BadConfig
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.ssh import driver as ssh_driver
from holdfast.fleet.ssh.channel import SshHost
from holdfast.fleet.ssh.driver import SshDriver
from holdfast.fleet.ssh.rows import orphans
from holdfast.fleet.ssh.target import SshTarget, read_target
from holdfast.queue.by import By
from holdfast.store.backends import secret_ids
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import add_job, get_task, slot_of
from tests.integration.agent.ssh_site import SshSite, ssh_site
from tests.integration.agent.waiting import until
from tests.integration.worker.served import open_site

ENDED = (Status.COMPLETED, Status.FAILED, Status.ABORTED)


class Fleet:
    """A store with hosts that the driver reaches."""

    def __init__(self, store: Store, site: SshSite, door: AgentDoor) -> None:
        self.store, self.site, self.door = store, site, door
        self.driver = SshDriver(store, door, SystemClock(), secret_ids(), site.options)

    async def hosts(self, *names: str, user: str | None = None) -> list[str]:
        """`user`: of the machine. None: each host is another machine."""
        entries = [
            HostEntry(name=name, driver="ssh", address=self.site.address(user or name))
            for name in names
        ]
        added = [await Hosts(self.store).add("default", entry, By("test")) for entry in entries]
        return [host.id for host in added]

    async def job(self, hosts: list[str], command: str) -> list[str]:
        request = JobRequest(command_type="exec", command=command, hosts=["x"])
        spec = check_request(request, RULES.command_types, RULES)
        return await add_job(self.store, hosts, spec_json=stored(spec))

    async def task(self, execution: str) -> Task:
        return await get_task(self.store, execution)

    async def drive(self, execution: str) -> Task:
        await self.driver(execution)
        return await self.task(execution)


@asynccontextmanager
async def fleet(url: str, folder: Path) -> AsyncIterator[Fleet]:
    async with open_site(url) as served, ssh_site(folder / "ssh") as site:
        door = AgentDoor(Agents(served.store), SystemClock())
        running = asyncio.create_task(door.run())
        try:
            made = Fleet(served.store, site, door)
            async with made.driver.running():
                yield made
        finally:
            await door.close()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def exists(path: Path) -> None:
    await until(lambda: asyncio.to_thread(path.exists))


@pytest.mark.timeout(100)
async def test_a_command_runs_on_a_host_without_an_agent(url: str, tmp_path: Path) -> None:
    async with fleet(url, tmp_path) as made:
        [host] = await made.hosts("web-1")
        for nth, (command, status) in enumerate(
            [("sh -c 'echo $HOME; echo x >> mark'", Status.FAILED), ("true", Status.COMPLETED)], 1
        ):
            # The first one may not write into `/` if it is not root; so only its end counts.
            [execution] = await made.job([host], command)
            task = await made.drive(execution)
            assert task.status in (status, Status.COMPLETED)
            assert await slot_of(made.store, host) == (nth, None)
        state = made.site.home("web-1") / ".local/state/holdfast-ssh" / host
        assert [path.name for path in (state / "journal").glob("*.log")] == [f"{2:016d}.log"]


@pytest.mark.timeout(100)
async def test_a_lost_session_is_looked_at_later(tmp_path: Path) -> None:
    async with fleet(f"sqlite:///{tmp_path}/x.db", tmp_path) as made:
        [host] = await made.hosts("web-1")
        go = tmp_path / "go"
        mark = tmp_path / "mark"
        [execution] = await made.job(
            [host], f"sh -c 'echo x >> {mark}; while [ ! -e {go} ]; do sleep 0.05; done; exit 3'"
        )
        driving = asyncio.create_task(made.driver(execution))
        await exists(mark)
        logins = made.site.logins
        made.site.cut()
        await asyncio.to_thread(go.touch)
        await driving
        task = await made.task(execution)
        assert made.site.logins > logins
        assert task.status is Status.FAILED
        assert task.failure_json is not None
        assert "exit code 3" in task.failure_json
        assert mark.read_text() == "x\n"


@pytest.mark.timeout(100)
async def test_two_hosts_that_are_one_machine_and_user_keep_their_results(tmp_path: Path) -> None:
    """As those of two stores are: no two hosts have one id."""
    async with fleet(f"sqlite:///{tmp_path}/x.db", tmp_path) as made:
        one, two = await made.hosts("web-1", "web-1-alias", user="box")
        go, mark = tmp_path / "go", tmp_path / "mark"
        [first] = await made.job(
            [one], f"sh -c 'echo x >> {mark}; while [ ! -e {go} ]; do sleep 0.05; done'"
        )
        driving = asyncio.create_task(made.driver(first))
        await exists(mark)
        logins = made.site.logins
        [second] = await made.job([two], "true")
        assert (await made.drive(second)).status is Status.COMPLETED
        await asyncio.to_thread(go.touch)
        await driving
        assert (await made.task(first)).status is Status.COMPLETED
        assert made.site.logins == logins + 1
        assert mark.read_text() == "x\n"


@pytest.mark.timeout(100)
async def test_a_run_without_a_driver_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet(f"sqlite:///{tmp_path}/x.db", tmp_path) as made:
        [host] = await made.hosts("web-1")
        mark = tmp_path / "mark"
        go = tmp_path / "go"
        [execution] = await made.job(
            [host], f"sh -c 'echo x >> {mark}; while [ ! -e {go} ]; do sleep 0.05; done'"
        )
        async with made.driver.running():
            driving = asyncio.create_task(made.driver(execution))
            await exists(mark)
        await asyncio.gather(driving, return_exceptions=True)
        assert (await made.task(execution)).status not in ENDED
        await asyncio.to_thread(go.touch)
        assert await made.store.read(lambda: orphans(made.store.now() + 1)) == [host]
        monkeypatch.setattr(ssh_driver, "ORPHAN_SECONDS", -1.0)
        async with made.driver.running():

            async def is_completed() -> bool:
                return (await made.task(execution)).status is Status.COMPLETED

            await until(is_completed)
        assert mark.read_text() == "x\n"


@pytest.mark.timeout(100)
async def test_an_abort_ends_the_command(tmp_path: Path) -> None:
    async with fleet(f"sqlite:///{tmp_path}/x.db", tmp_path) as made:
        [host] = await made.hosts("web-1")
        mark = tmp_path / "mark"
        [execution] = await made.job([host], f"sh -c 'echo $$ > {mark}; sleep 600'")
        driving = asyncio.create_task(made.driver(execution))
        await exists(mark)
        await made.store.apply([Instruction(execution, Abort("user:ann", "wrong"))])
        made.door.wake([host])
        await driving
        assert await slot_of(made.store, host) == (1, None)


@pytest.mark.timeout(100)
async def test_a_host_that_is_away_keeps_its_work(tmp_path: Path) -> None:
    async with fleet(f"sqlite:///{tmp_path}/x.db", tmp_path) as made:
        [host] = await made.hosts("web-1")
        made.site.is_open = False
        [execution] = await made.job([host], "true")
        assert (await made.drive(execution)).status is Status.QUEUED
        made.site.is_open = True
        assert (await made.drive(execution)).status is Status.COMPLETED


@pytest.mark.timeout(110)
async def test_fifty_hosts(tmp_path: Path) -> None:
    async with fleet(f"sqlite:///{tmp_path}/x.db", tmp_path) as made:
        hosts = await made.hosts(*(f"web-{n:02}" for n in range(50)))
        executions = await made.job(hosts, f"sh -c 'echo x >> {tmp_path}/mark'")
        await asyncio.gather(*(made.driver(execution) for execution in executions))
        tasks = [await made.task(execution) for execution in executions]
        assert {task.status for task in tasks} == {Status.COMPLETED}
        assert (tmp_path / "mark").read_text() == "x\n" * 50


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("", SshTarget("web-1")),
        ("10.0.0.7", SshTarget("10.0.0.7")),
        ("ann@h.example:2222", SshTarget("h.example", 2222, "ann")),
        ("ssh://ann@h", SshTarget("h", 22, "ann")),
        ("ann@[::1]:2222", SshTarget("::1", 2222, "ann")),
    ],
)
def test_addresses(address: str, target: SshTarget) -> None:
    assert read_target(address, "web-1") == target


@pytest.mark.parametrize("address", ["a b", "h:0", "h:99999", "h:x", "@h", "ftp://h", "a@b@c"])
def test_wrong_addresses(address: str) -> None:
    with pytest.raises(BadConfig, match=r"write \[user@\]host"):
        read_target(address, "web-1")


SILENT_SECONDS = 2.0
"""Time to answer of a host that never will: the test waits for its end."""


@pytest.mark.parametrize(
    ("shell", "is_reached"),
    [
        ('echo Welcome to web-1; echo; exec {python} "$@"', True),
        ("exec 1>&-; read line", False),
        ("echo nothing else; exec 1>&-; read line", False),
    ],
)
async def test_a_login_shell_that_speaks_does_not_hang(
    tmp_path: Path, shell: str, is_reached: bool
) -> None:
    async with ssh_site(tmp_path / "ssh") as site:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{shell.format(python=sys.executable)}\n")
        python.chmod(0o755)
        limit = site.options.connect_seconds if is_reached else SILENT_SECONDS
        options = msgspec.structs.replace(site.options, python=str(python), connect_seconds=limit)
        host = SshHost(SshTarget("127.0.0.1", site.port, "web-1"), options, "s1")
        try:
            if is_reached:
                await host.open()
                assert host.boot_id
            else:
                with pytest.raises(HostGone):
                    await host.open()
        finally:
            await host.close()
