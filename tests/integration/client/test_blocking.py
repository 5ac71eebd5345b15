"""`BlockingClient` over a socket: threads, iterators, forks, the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from holdfast.client.blocking import BlockingClient
from holdfast.client.client import TaskEdit
from holdfast.client.models import NewTask, TaskView
from holdfast.errors import NotFound, NotRunning
from scripts.client_fronts import written
from tests.feed_support import ScriptedFeed, served
from tests.integration.client.conftest import in_background
from tests.integration.gateway.support import ADMIN


@pytest.fixture
def client(gateway: str) -> Iterator[BlockingClient]:
    with BlockingClient(gateway, ADMIN) as made:
        yield made


def test_what_is_generated_is_current() -> None:
    for path, text in written().items():
        assert path.read_text("utf-8") == text, "run python scripts/client_fronts.py"


def test_calls_iterators_and_errors(client: BlockingClient) -> None:
    ref = client.submit("mail", {"to": "ann"})
    assert client.get(ref.id).payload == {"to": "ann"}
    client.submit_many([NewTask(type="mail")] * 5)
    assert len(list(client.tasks())) == 6
    for row in client.tasks():
        assert row.type == "mail"
        break
    assert [event.kind for event in client.history(ref.id)] == ["task.enqueued"]
    assert next(client.queues.list()).counts["queued"] == 6
    with pytest.raises(NotFound):
        client.get("missing")


def test_a_change_may_use_the_client(client: BlockingClient) -> None:
    ref = client.submit("mail", {"n": 1})

    def add(task: TaskView) -> TaskEdit:
        return TaskEdit({"n": client.get(task.id).payload["n"] + 1})

    assert client.update_with_retry(ref.id, add).payload == {"n": 2}


def test_threads_share_a_client(client: BlockingClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(lambda n: client.submit("mail", n), range(40)))
    assert len({ref.id for ref in refs}) == 40


def test_a_closed_client_says_so(gateway: str) -> None:
    client = BlockingClient(gateway, ADMIN)
    client.whoami()
    client.close()
    client.close()
    with pytest.raises(NotRunning):
        client.whoami()


def test_a_watch_blocks_for_the_next_event() -> None:
    feed = ScriptedFeed()
    feed.commit("task.enqueued", "task.started")

    @asynccontextmanager
    async def serve() -> AsyncIterator[str]:
        async with served(feed) as server:
            yield server.http

    for url in in_background(serve):
        client = BlockingClient(url, "ann")
        with client.watch("task:t1", "e1:0") as watch:
            assert [next(watch).kind, next(watch).kind] == ["task.enqueued", "task.started"]
            assert watch.position == "e1:1"
            assert watch.state in ("live", "catching_up")
        client.close()


PROGRAM = """
import os, sys
from holdfast.client.blocking import BlockingClient

client = BlockingClient(sys.argv[1], sys.argv[2])
print(client.whoami().name, flush=True)
rows = client.tasks()
child = os.fork()
if child == 0:
    print(client.submit("mail").status, flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print(status, client.submit("mail").status, len(list(rows)), flush=True)
# No close: the interpreter ends with the client open.
"""


def test_a_fork_and_the_end_of_the_interpreter(gateway: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, gateway, ADMIN],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["user:admin", "queued", "0", "queued", "2"], done.stdout
    assert done.stderr == ""
