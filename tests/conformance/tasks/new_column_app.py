"""Runs with a copy of the package whose task has the column `region` (see `test_new_column.py`).

Opens the store at the given URL, inserts tasks on each path, finishes all and prints what the rows have.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import holdfast
from holdfast.clock import SystemClock
from holdfast.core.claiming import ClaimRequest
from holdfast.core.command import Complete, Instruction
from holdfast.core.decide import Transition
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import Submission, submit
from holdfast.core.task import Status, Task
from holdfast.store.backends import store_for
from holdfast.store.store import Store

CLAIM = ClaimRequest(
    node="node-a", queues=("default",), types=("work",), limit=10, lease_seconds=60.0
)


def submission(store: Store, task_id: str, region: str, *, id_given: bool = False) -> Submission:
    request = EnqueueRequest(type="work", payload={"n": 1})
    made = submit(request, task_id=task_id, now=store.now(), id_given=id_given)
    return replace(made, task=replace(made.task, region=region))


async def finish(store: Store, tasks: list[Task]) -> None:
    pairs = [(task, Instruction(task.id, Complete("null"), fence=task.fence)) for task in tasks]
    for ruling in await store.finish(pairs):
        assert isinstance(ruling, Transition), ruling


async def main(url: str) -> dict[str, Any]:
    store = store_for(url, SystemClock())()
    await store.open()
    await finish(store, await store.reads.find(status=Status.RUNNING))
    # With the direct start, a task of the older version is claimed together with the new one.
    _, claimed = await store.insert_and_claim([submission(store, "new-direct", "eu")], CLAIM)
    await finish(store, claimed.tasks)
    await store.insert([submission(store, "new-general", "eu", id_given=True)])
    await store.insert([submission(store, "new-one", "us")])
    await store.insert([submission(store, "new-1", "eu"), submission(store, "new-2", "us")])
    regions: dict[str, Any] = {task.id: region_of(task) for task in claimed.tasks}
    while tasks := (await store.claim(CLAIM)).tasks:
        regions |= {task.id: region_of(task) for task in tasks}
        await finish(store, tasks)
    rows = await store.reads.find(limit=100)
    assert regions.items() <= {task.id: region_of(task) for task in rows}.items()
    await store.close()
    return {
        "package": str(Path(holdfast.__file__).parent),
        "regions": {task.id: region_of(task) for task in rows},
        "completed": sorted(task.id for task in rows if task.status is Status.COMPLETED),
    }


def region_of(task: Task) -> str | None:
    region: str | None = getattr(task, "region")  # noqa: B009  # The repository's Task has no such field.
    return region


print(json.dumps(asyncio.run(main(sys.argv[1]))))
