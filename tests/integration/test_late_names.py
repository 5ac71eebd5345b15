"""Functions whose annotations name what exists later, or only for type checkers: in a module with
`from __future__ import annotations`, and from Python 3.14 on in every module."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast import TaskQueue

LAZY = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
SOURCE = """
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import TaskQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast import BlockingContext, Context, WorkerState

tasks = TaskQueue("sqlite:///%s")
seen: list[str] = []


@tasks.task
async def in_loop(job: Context, box: Box, boxes: list[Box] | None = None) -> list[Any]:
    return [job.attempt, *(each.size for each in (box, *(boxes or ())))]


@tasks.task
def in_thread(box: Box, job: BlockingContext) -> list[Any]:
    return [job.attempt, box.size]


@tasks.task(isolation="process")
def in_process(box: Box, job: BlockingContext) -> list[Any]:
    return [job.attempt, box.size]


@tasks.middleware
async def around(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    seen.append(ctx.task.type)
    return await call_next()


@tasks.on_start
async def begins(state: WorkerState = None) -> None:
    seen.append("start")


@tasks.on_stop
async def ends(state: WorkerState) -> None:
    seen.append("stop")


class Box(msgspec.Struct):
    size: int
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An application in a new module."""
    name = f"late_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(LAZY + SOURCE % (tmp_path / "db"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name)


async def test_names_that_exist_later_are_those_of_the_first_use(app: ModuleType) -> None:
    """The context is found, the arguments arrive as declared, middleware and hooks are called."""
    queue: TaskQueue = app.tasks
    box = app.Box(3)
    async with queue:
        handles = [
            await app.in_loop.enqueue(box, [app.Box(4)]),
            await app.in_thread.enqueue(box),
            await app.in_process.enqueue(box),
        ]
        assert [await handle.result(60) for handle in handles] == [[1, 3, 4], [1, 3], [1, 3]]
    assert app.seen[0] == "start"
    assert sorted(app.seen[1:-1]) == ["in_loop", "in_process", "in_thread"]
    assert app.seen[-1] == "stop"
