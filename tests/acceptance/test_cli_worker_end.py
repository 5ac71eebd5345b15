"""`holdfast worker` exits after its stop, with any threads and tasks left in the process."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.acceptance.cli_support import APP, Cli
from tests.acceptance.test_cli_worker import until_running

STUCK = (
    APP
    + """
import atexit, sys, threading
from concurrent.futures import ThreadPoolExecutor

own = ThreadPoolExecutor()

def stuck_work() -> None:
    print("in the thread", file=sys.stderr, flush=True)
    threading.Event().wait()

@queue.task(queue="slow")
async def to_thread() -> None:
    await asyncio.to_thread(stuck_work)

@queue.task(queue="slow")
async def in_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(own, stuck_work)

@queue.task(queue="slow")
async def own_thread() -> None:
    threading.Thread(target=stuck_work).start()
    await asyncio.Event().wait()
"""
)
ENGINE_FAILED = (
    STUCK
    + """
from holdfast.errors import EngineFailed

async def engine_failed():
    await asyncio.sleep(0)
    asyncio.get_running_loop().run_in_executor(None, stuck_work)
    return EngineFailed("the dispatcher died 11 times")

queue.wait_failed = engine_failed
"""
)
LOCKED = (
    STUCK
    + """
import logging

def lock_the_log() -> None:
    logging.getLogger().handlers[0].acquire()
    stuck_work()

async def lock_at_the_end() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(lock_the_log)

class AtTheStop(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "stopped":
            self.task = asyncio.create_task(lock_at_the_end())

logging.getLogger("holdfast.worker").addHandler(AtTheStop())
"""
)
HOOKED = (
    STUCK
    + """
own.submit(int).result()  # leaves an idle thread
atexit.register(lambda: print("the exit hook has run", file=sys.stderr))
"""
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, f"sqlite:///{tmp_path / 'holdfast.db'}")


@pytest.mark.parametrize("kind", ["to_thread", "in_executor", "own_thread"])
@pytest.mark.parametrize(("signals", "code"), [("one", 0), ("two", 130)])
def test_a_thread_that_does_not_return_does_not_keep_the_process_alive(
    cli: Cli, kind: str, signals: str, code: int
) -> None:
    seconds = "0.1s" if signals == "one" else "60s"
    with cli.worker("--shutdown-timeout", seconds, app=STUCK) as worker:
        worker.ready()
        task = asyncio.run(until_running(cli.env["HOLDFAST_URL"], kind))
        worker.until("in the thread")
        worker.send(signal.SIGTERM)
        if signals == "two":
            worker.until("waiting for running ones")
            worker.send(signal.SIGINT)
        assert worker.ends() == code
    stderr = "".join(worker.said)
    assert "the process ends without waiting for them" in stderr
    assert "in stuck_work" in stderr
    row = cli.see("task", "show", task)
    assert (row["status"], row["attempts"], row["deaths"]) == ("queued", 0, 0)
    assert cli.see("stats")["nodes"] == 0


def test_each_of_many_processes_ends(cli: Cli) -> None:
    with cli.worker("-p", "2", "--shutdown-timeout", "0.1s", app=STUCK) as worker:
        worker.ready(2)
        asyncio.run(until_running(cli.env["HOLDFAST_URL"], "to_thread"))
        worker.until("in the thread")
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0


def test_an_engine_failure_is_reported_with_a_remaining_thread(cli: Cli) -> None:
    with cli.worker(app=ENGINE_FAILED) as worker:
        assert worker.ends() == 1
    assert sum("error[engine-failed]" in line for line in worker.said) == 1
    assert "in stuck_work" in "".join(worker.said)


def test_exit_hooks_run_when_no_thread_is_left(cli: Cli) -> None:
    """An idle executor thread does not count."""
    with cli.worker(app=HOOKED) as worker:
        worker.ready()
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
    stderr = "".join(worker.said)
    assert "the exit hook has run" in stderr
    assert "ends without waiting" not in stderr


def test_a_thread_that_holds_the_log_lock_does_not_keep_the_process_alive(cli: Cli) -> None:
    with cli.worker(app=LOCKED) as worker:
        worker.ready()
        worker.send(signal.SIGTERM)
        worker.until("in the thread")
        assert worker.ends() == 0
