"""A real server and a real agent process: jobs from their request to their output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.bus.local import LocalBus
from holdfast.core.command import Abort, Instruction
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.rules import RULES
from holdfast.core.start_once import RunPhase, phase_of
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import InvalidInput
from holdfast.fleet.jobs.create import Created, Jobs
from holdfast.fleet.jobs.outputs import JobOutputs
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.pipeline import Pipeline
from holdfast.queue.by import By
from tests.backends import SHARED, url_of
from tests.conformance.fleet.agent_support import get_execution, get_task, slot_of
from tests.integration.gateway.test_agents import join_token
from tests.integration.worker.served import Site, open_site
from tests.statements import query

ROOT = Path(__file__).parents[3]
SECONDS = 60
EXECUTIONS = "written:-- returns: task_id\nSELECT task_id FROM holdfast_execution ORDER BY task_id"


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def site(url: str) -> AsyncIterator[Site]:
    async with open_site(url) as made:
        yield made


async def until(site: Site, is_so: Callable[[], Awaitable[bool]]) -> None:
    """Waits until it is so. It is looked at after every event, and once a second."""
    async with asyncio.timeout(SECONDS), site.client(timeout=SECONDS) as admin:
        while not await is_so():
            params = {"topic": "project:default", "after": "now", "wait_seconds": "1"}
            (await admin.get("/api/v1/poll", params=params)).raise_for_status()


@asynccontextmanager
async def agent(site: Site, state: Path, join: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """An agent process on the host `web-1`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "agent", "--gateway", _address(site), "--token", join),
        *("--state", str(state), "--name", "web-1"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        _, said = await process.communicate()
        assert b"Traceback" not in said, said.decode()


def _address(site: Site) -> str:
    return site.listening.url.replace("http://", "holdfast://")


async def submit(site: Site, command: str) -> str:
    """Makes and plans a job for `web-1`, once its agent has enrolled. Returns the execution."""
    jobs = Jobs(site.store, RULES, LocalBus())
    request = JobRequest(command_type="exec", command=command, hosts=["web-1"])
    made: list[Created] = []

    async def is_made() -> bool:
        with suppress(InvalidInput):  # the host is not there yet
            made.append(await jobs.create(request, By("user:ann")))
        return bool(made)

    await until(site, is_made)
    [created] = made
    await Pipeline(site.store, RULES, LocalBus(), owner="test").plan_job(created.job.id)
    rows = await query(site.store, EXECUTIONS)
    return str(rows[-1][0])


async def ended(site: Site, execution: str) -> Task:
    """The task of an execution that has ended."""

    async def has_ended() -> bool:
        return (await get_task(site.store, execution)).status in ENDED

    await until(site, has_ended)
    return await get_task(site.store, execution)


async def started(site: Site, execution: str) -> None:
    async def has_started() -> bool:
        return phase_of(await get_task(site.store, execution)) is RunPhase.STARTED

    await until(site, has_started)


async def test_a_job_runs_on_a_real_agent(site: Site, tmp_path: Path) -> None:
    async with agent(site, tmp_path / "state", await join_token(site)):
        execution = await submit(site, "sh -c 'echo hello; echo oops >&2; exit 0'")
        assert (await ended(site, execution)).status is Status.COMPLETED
        failed = await submit(site, "sh -c 'exit 3'")
        assert (await ended(site, failed)).status is Status.FAILED
        assert (await get_execution(site.store, failed)).exit_code == 3
    job, view = await JobReads(site.store, RULES).execution(execution)
    assert (await JobOutputs(site.store).log(view)).data == b"hello\n"
    folded = await JobOutputs(site.store).folded(job, stream="stderr")
    assert [group.count for group in folded.groups] == [1]


async def test_a_cancelled_command_is_killed_on_the_host(site: Site, tmp_path: Path) -> None:
    async with agent(site, tmp_path / "state", await join_token(site)):
        execution = await submit(site, "sleep 600")
        await started(site, execution)
        await site.store.apply([Instruction(execution, Abort("user:ann", "enough"))])
        host = (await get_execution(site.store, execution)).host_id

        async def is_free() -> bool:
            return (await slot_of(site.store, host))[1] is None

        await until(site, is_free)
        assert (await get_execution(site.store, execution)).outcome == "cancelled_killed"


async def test_a_command_outlives_a_kill_of_its_agent(site: Site, tmp_path: Path) -> None:
    join, mark = await join_token(site), tmp_path / "mark"
    async with agent(site, tmp_path / "state", join) as first:
        text = (
            f"sh -c 'echo x >> {mark}; while [ ! -e {mark}.end ]; do sleep 0.01; done; echo done'"
        )
        execution = await submit(site, text)
        await started(site, execution)
        first.kill()
        await first.wait()
    async with agent(site, tmp_path / "state", join):
        mark.with_suffix(".end").touch()
        assert (await ended(site, execution)).status is Status.COMPLETED
    assert mark.read_text() == "x\n"
    assert (await get_execution(site.store, execution)).late_json is None


async def test_a_very_long_word_fails_its_job_only(site: Site, tmp_path: Path) -> None:
    async with agent(site, tmp_path / "state", await join_token(site)):
        long = await submit(site, "a" * 2_500)
        assert (await ended(site, long)).status is Status.FAILED
        assert (await get_execution(site.store, long)).exit_code == 127
        after = await submit(site, "true")
        assert (await ended(site, after)).status is Status.COMPLETED
