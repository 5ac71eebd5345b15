"""gunicorn that loads a Flask application before it forks, and views that enqueue.

FastAPI with two lifespans and Flask in one process: `test_processes_page.py`.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast import TaskQueue
from tests.backends import SHARED, url_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@contextmanager
def gunicorn(url: str, folder: Path) -> Iterator[str]:
    """The address of a server with two workers, which inherit the application."""
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2"]
    process = subprocess.Popen(
        [
            *command,
            "--threads",
            "4",
            "--bind",
            "127.0.0.1:0",
            "tests.acceptance.apps.flask_app:app",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "APP_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"Listening at: (http://\S+)", line):
                yield found[1]
                break
        else:
            pytest.fail("".join(lines))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


async def test_gunicorn_preload(url: str, tmp_path: Path) -> None:
    """The parent has enqueued before it forked; views enqueue in plain and async functions."""
    with gunicorn(url, tmp_path) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=30) as client:
            paths = ["/plain", "/async"] * 6
            answers = await asyncio.gather(*(client.post(path) for path in paths))
        assert [answer.status_code for answer in answers] == [200] * 12
        pids = {answer.json()["pid"] for answer in answers}
        ids = {answer.json()["task"] for answer in answers}
    queue = TaskQueue(url)
    tasks = [await queue.get_task(task_id) for task_id in ids]
    assert {task.payload["pid"] for task in tasks if task is not None} == pids
    assert await queue.get_queue_size() == 13  # one of the parent
    await queue.stop()
