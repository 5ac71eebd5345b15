"""Output and checkpoints of tasks over the API."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

from holdfast.core.claim_by_id import ClaimById
from holdfast.core.worker.wire import Changes, CheckpointChange, OutputChunk
from holdfast.sync.worker.messages import Inbound
from holdfast.sync.worker.receivers import Start
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.integration.gateway.support import Site, problem

Write = Callable[[Changes], Awaitable[None]]


async def writer(site: Site, task_id: str) -> Write:
    """A worker that runs the task under fence 1."""
    sync = WorkerSync(site.services.store, site.services.clock)
    assert (await sync.hello(Start("w1", 0, "boot"))).receiver is not None
    await site.services.store.by_id.claim(ClaimById(task_id, "w1", "c", 60.0))
    sequence = 0

    async def write(changes: Changes) -> None:
        nonlocal sequence
        sequence += 1
        (answer,) = await sync.apply([Inbound("w1", 1, sequence, changes)])
        assert answer.ack.refused == ()

    return write


def chunk(task_id: str, data: bytes, stream: str = "stdout") -> Changes:
    return Changes(
        output=(OutputChunk(task_id=task_id, fence=1, stream=stream, data=data, start=None),)
    )


async def test_output_is_read_as_text_as_bytes_and_raw(site: Site) -> None:
    task = (await site.task())["id"]
    write = await writer(site, task)
    await write(chunk(task, "grüße\n".encode()))
    await write(chunk(task, b"\xff\x00", "stderr"))
    path = f"/tasks/{task}/output"
    page = (await site.ask("GET", path)).json()
    assert page == {
        "stream": "stdout",
        "fence": 1,
        "start": 0,
        "text": "grüße\n",
        "next": 8,
        "end": 8,
        "complete": False,
        "gaps": [],
    }
    # A page that would end within a character ends before it; the next one starts with it.
    first = (await site.ask("GET", path, limit_bytes=3)).json()
    assert (first["text"], first["next"]) == ("gr", 2)
    rest = (await site.ask("GET", path, start=2)).json()
    assert (rest["text"], rest["next"]) == ("üße\n", 8)
    errors = (await site.ask("GET", path, stream="stderr", fence=1)).json()
    assert base64.b64decode(errors["data_base64"]) == b"\xff\x00"
    raw = await site.ask("GET", path, stream="stderr", headers={"Accept": "text/plain"})
    assert raw.content == b"\xff\x00"
    assert raw.headers["content-type"].startswith("text/plain")
    assert raw.headers["Holdfast-Output-Next"] == "2"
    assert (await site.ask("GET", path, fence=7)).json()["end"] == 0


async def test_wrong_parameters_of_output_are_refused(memory_site: Site) -> None:
    site = memory_site
    task = (await site.task())["id"]
    path = f"/tasks/{task}/output"
    for wrong in (
        {"stream": "stdin"},
        {"start": -1},
        {"limit_bytes": 0},
        {"limit_bytes": 10**9},
        {"fence": -1},
    ):
        assert problem(await site.ask("GET", path, **wrong)) == (422, "invalid-input")
    assert problem(await site.ask("GET", "/tasks/none/output"))[0] == 404
    other = await site.token("viewer", projects=("red",))
    assert problem(await site.ask("GET", path, token=other))[0] == 404
    assert problem(await site.ask("GET", f"/tasks/{task}/checkpoints", token=other))[0] == 404


async def test_checkpoints_are_listed_oldest_first(site: Site) -> None:
    task = (await site.task())["id"]
    write = await writer(site, task)
    for n in range(3):
        point = CheckpointChange(
            task_id=task,
            fence=1,
            checkpoint_id=f"c{n}",
            type="phase",
            data_json=f"[{n}]",
            note="so far",
        )
        await write(Changes(checkpoint=(point,)))
    items = (await site.ask("GET", f"/tasks/{task}/checkpoints")).json()["items"]
    assert [(item["id"], item["nth"], item["data"]) for item in items] == [
        ("c0", 1, [0]),
        ("c1", 2, [1]),
        ("c2", 3, [2]),
    ]
