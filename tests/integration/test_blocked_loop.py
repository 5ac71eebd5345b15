"""A handler that blocks the event loop of a real worker process: its lease is kept, within bounds, and the
process is not reported as a dead one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast import Status, TaskHandle, TaskQueue
from holdfast.queue.check import Level
from holdfast.queue.checks import handlers
from tests.acceptance.apps.harness import whole_feed
from tests.integration.remote.support import SECONDS, environ, said, server
from tests.looks import look_again

LEASE_SECONDS = 0.6
NAME = "tests.integration.blocking_app:queue"


@asynccontextmanager
async def worker(folder: Path, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`holdfast worker`, when it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "holdfast", "worker", NAME),
        cwd=folder,
        env=environ(**env),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await said(process, "ready: pid")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def pipe_in(folder: Path) -> str:
    path = folder / "pipe"
    os.mkfifo(path)
    return str(path)


async def unblock(pipe: str) -> None:
    await asyncio.to_thread(Path(pipe).write_text, "free")


async def lease_until(queue: TaskQueue, handle: TaskHandle[object]) -> float:
    """When the lease of the task ends."""
    task = (await (await queue.open()).store.reads.get([handle.id]))[handle.id]
    return task.lease_until or 0.0


async def kept_for(queue: TaskQueue, handle: TaskHandle[object], seconds: float) -> None:
    """Waits until the lease of the task was renewed for so long."""
    first = await lease_until(queue, handle)
    async with asyncio.timeout(SECONDS):
        while await lease_until(queue, handle) < first + seconds:
            await look_again()


async def test_the_lease_of_a_blocked_loop_is_kept(shared_url: str, tmp_path: Path) -> None:
    pipe = pipe_in(tmp_path)
    other = TaskQueue(shared_url, lease_seconds=LEASE_SECONDS)
    other.register_handler("other", lambda task: None)
    async with worker(tmp_path, BLOCKING_URL=shared_url) as process, other:
        handle = await other.enqueue("hold", {"pipe": pipe})
        line = await said(process, "has been blocked for")
        assert f"by the handler of task {handle} (hold)" in line
        assert "blocking_app.py" in await said(
            process, "File "
        )  # The stack begins with the handler.
        await said(process, "Path(pipe).read_text()")
        await kept_for(other, handle, 2 * LEASE_SECONDS)
        assert "the node is alive, but its event loop has been blocked" in str(
            await other.why(handle)
        )
        finding = await handlers(other, 0.0)
        assert finding.level is Level.WARN
        assert f"by the handler of task {handle} (hold)" in finding.text
        await unblock(pipe)
        assert await handle.result(SECONDS) == "free"
        task = await handle.get()
        assert (task.attempts, task.deaths) == (1, 0)
        await said(process, "the event loop runs again after")
        kinds = [event.kind for event in await whole_feed(other) if event.task_id == handle.id]
    assert kinds == ["task.enqueued", "task.started", "task.completed"]


async def test_a_lease_is_not_kept_beyond_the_timeout(shared_url: str, tmp_path: Path) -> None:
    pipe = pipe_in(tmp_path)
    other = TaskQueue(shared_url, lease_seconds=LEASE_SECONDS)
    other.register_handler("other", lambda task: None)
    async with worker(tmp_path, BLOCKING_URL=shared_url) as process, other:
        handle = await other.enqueue("hold_briefly", {"pipe": pipe})
        line = await said(process, "its lease is not renewed any more")
        assert str(handle) in line
        assert "the event loop has been blocked for" in line
        task = await handle.wait(SECONDS)
        assert task.status is Status.FAILED
        assert "is alive, but its event loop has been blocked for" in (task.error or "")
        await unblock(pipe)
        await said(process, "came too late and was refused")


async def test_the_lease_of_a_blocked_remote_worker_is_kept(tmp_path: Path) -> None:
    """The thread speaks plain HTTP, whatever the transport of the worker."""
    pipe = pipe_in(tmp_path)
    url = f"sqlite:///{tmp_path}/holdfast.db"
    async with server(tmp_path, url) as gateway:
        token = await gateway.joining()
        env = {"HOLDFAST_GATEWAY": gateway.address, "HOLDFAST_TOKEN": token}
        other = TaskQueue(url)
        async with worker(tmp_path, **env) as process, other.producer():
            handle = await other.enqueue("hold", {"pipe": pipe})
            await said(process, "has been blocked for")
            await kept_for(other, handle, 2 * LEASE_SECONDS)
            assert "the node is alive, but its event loop" in str(await other.why(handle))
            await unblock(pipe)
            assert await handle.result(SECONDS) == "free"
            task = await handle.get()
            assert (task.attempts, task.deaths) == (1, 0)
