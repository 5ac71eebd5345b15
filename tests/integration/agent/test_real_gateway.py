"""Real agents at a real gateway, on every store."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from holdfast.agent.settings import TransportKind
from holdfast.core.command import Abort, Admit, Instruction
from holdfast.core.fleet.agents.run_output import StreamState, read_states
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.jobs.spec import check_request, stored
from holdfast.core.fleet.rules import RULES
from holdfast.core.output import HEAD_BYTES, KEPT_BYTES
from holdfast.core.task import ENDED, Status, Task
from holdfast.fleet.hints import wake_hosts
from holdfast.fleet.jobs.waiting import read_execution
from tests.conformance.fleet.agent_support import add_job, get_task, slot_of
from tests.integration.agent.test_agent_process import running, spawn
from tests.integration.agent.waiting import until
from tests.integration.gateway.test_agents import join_token
from tests.integration.worker.served import Site, open_site

NAMES = ("web-1", "web-2", "web-3")


async def start(
    site: Site, folder: Path, name: str, transport: str = "http"
) -> asyncio.subprocess.Process:
    options = ["--gateway", site.listening.url, "--token", await join_token(site)]
    options += ["--transport", transport]
    return await spawn(
        "-m", "holdfast", "agent", *options, "--state", str(folder / name), "--name", name
    )


async def host_id(folder: Path, name: str) -> str:
    """Waits until the host is enrolled."""
    path = folder / name / "identity.json"
    await until(lambda: asyncio.to_thread(path.exists))
    data = await asyncio.to_thread(path.read_bytes)
    identity: dict[str, str] = msgspec.json.decode(data)
    return identity["host_id"]


async def job(site: Site, hosts: list[str], command: str) -> list[str]:
    request = JobRequest(command_type="exec", command=command, hosts=["x"])
    spec = check_request(request, RULES.command_types, RULES)
    executions = await add_job(site.store, hosts, spec_json=stored(spec), is_admitted=False)
    await site.store.apply([Instruction(execution, Admit()) for execution in executions])
    wake_hosts((await site.server._queue.open()).bus, hosts)
    return executions


async def ended(site: Site, execution: str) -> Task:
    async def is_ended() -> bool:
        return (await get_task(site.store, execution)).status in ENDED

    await until(is_ended)
    return await get_task(site.store, execution)


@pytest.mark.timeout(90)
async def test_agents_run_a_job(url: str, tmp_path: Path) -> None:
    async with open_site(url) as site, AsyncExitStack() as stack:
        for name, transport in zip(NAMES, ("http", "websocket", "websocket"), strict=True):
            process = await start(site, tmp_path, name, transport)
            await stack.enter_async_context(running(process))
        hosts = [await host_id(tmp_path, name) for name in NAMES]
        executions = await job(site, hosts, f"sh -c 'echo x >> {tmp_path}/mark; echo hello'")
        tasks = [await ended(site, execution) for execution in executions]
        assert [task.status for task in tasks] == [Status.COMPLETED] * 3
        assert (tmp_path / "mark").read_text() == "x\n" * 3
        for host in hosts:
            fence, execution = await slot_of(site.store, host)
            assert (fence, execution) == (1, None)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("transport", TransportKind)
async def test_an_abort_and_a_killed_agent(url: str, tmp_path: Path, transport: str) -> None:
    async with open_site(url) as site:
        process = await start(site, tmp_path, "web-1", transport)
        host = await host_id(tmp_path, "web-1")
        [execution] = await job(site, [host], f"sh -c 'echo x >> {tmp_path}/mark; sleep 600'")
        await until(lambda: asyncio.to_thread((tmp_path / "mark").exists))
        process.kill()
        await process.communicate()
        async with running(await start(site, tmp_path, "web-1", transport)):
            await site.store.apply([Instruction(execution, Abort("user:ann", "wrong"))])

            async def is_free() -> bool:
                return (await slot_of(site.store, host))[1] is None

            await until(is_free)
        assert (tmp_path / "mark").read_text() == "x\n"


@pytest.mark.timeout(90)
async def test_of_a_flood_the_server_has_all_that_the_host_has_kept(
    url: str, tmp_path: Path
) -> None:
    async with open_site(url) as site, running(await start(site, tmp_path, "web-1")):
        [execution] = await job(
            site, [await host_id(tmp_path, "web-1")], "head -c 3000000 /dev/zero"
        )
        assert (await ended(site, execution)).status is Status.COMPLETED

        async def state() -> StreamState | None:
            found = await site.store.read(lambda: read_execution(execution))
            assert found is not None
            known = read_states(found.output_json).get("stdout")
            return known if known is not None and known.sha256 is not None else None

        async def is_whole() -> bool:
            return await state() is not None

        await until(is_whole)
        kept = await state()
        assert kept is not None
        assert (kept.bytes, kept.kept) == (3_000_000, KEPT_BYTES)
        assert kept.gaps == [(HEAD_BYTES, 3_000_000 - KEPT_BYTES)]
