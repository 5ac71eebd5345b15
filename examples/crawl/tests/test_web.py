"""The web application, and workers in this process, on a file."""

import asyncio

import pytest
from fastapi.testclient import TestClient
from tasks import queue

from web import app

WANTED = {"site": "https://example.com", "paths": ["/", "/flaky"], "request_id": "r7"}


async def work(task_id: str) -> None:
    """In place of `holdfast worker tasks:queue`."""
    async with queue:
        await queue.wait_task(task_id, 60)


def test_a_crawl_from_the_request_to_its_titles() -> None:
    with TestClient(app) as client:
        asked = client.post("/crawls", json=WANTED)
        assert (asked.status_code, asked.json()) == (202, {"report": "r7-report"})
        assert client.post("/crawls", json=WANTED).status_code == 202  # repeated: nothing new
        assert client.post("/crawls", json={**WANTED, "paths": ["/"]}).status_code == 409
        waiting = client.get("/crawls/r7-report").json()
        assert (waiting["status"], waiting["titles"]) == ("blocked", None)
        assert client.get("/crawls/r8-report").status_code == 404
    asyncio.run(work("r7-report"))
    with TestClient(app) as client:  # the second start of the application in one process
        done = client.get("/crawls/r7-report").json()
    assert (done["status"], done["titles"]) == ("completed", ["Home", "At the second try"])
    assert done["progress"]["note"] == "2 of 2 pages of https://example.com"


@pytest.mark.parametrize("paths", ["/", None])
def test_a_malformed_request_is_refused(paths: str | None) -> None:
    with TestClient(app) as client:
        assert client.post("/crawls", json={**WANTED, "paths": paths}).status_code == 422
