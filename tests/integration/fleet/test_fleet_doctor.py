"""What the doctor says about executions: they wait for hosts, not for workers."""

from __future__ import annotations

from holdfast import TaskQueue
from holdfast.queue.check import Level
from holdfast.queue.checks import nodes
from tests.conformance.fleet.agent_support import add_job


async def test_executions_that_wait_for_hosts_need_no_worker() -> None:
    queue = TaskQueue("sqlite://")
    queue.register_handler("mail", _mail)
    try:
        store = (await queue.open()).store
        await add_job(store, ["hst_1"])
        assert (await nodes(queue, 0.0)).level is Level.WARN
        await queue.enqueue("mail", {})
        assert (await nodes(queue, 0.0)).level is Level.FAIL
    finally:
        await queue.stop()


async def _mail(_: object) -> None:
    return None
