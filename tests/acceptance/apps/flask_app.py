"""A Flask application that enqueues, also while it is imported."""

from __future__ import annotations

import os

from flask import Flask

from holdfast import TaskQueue

queue = TaskQueue(os.environ["APP_URL"])
app = Flask(__name__)


@queue.task
def note(pid: int) -> int:
    return pid


note.enqueue_sync(os.getpid())


@app.post("/plain")
def plain() -> dict[str, object]:
    task = note.enqueue_sync(os.getpid())
    return {"pid": os.getpid(), "task": task}


@app.post("/async")
async def in_a_loop() -> dict[str, object]:
    task = await note.enqueue(os.getpid())
    return {"pid": os.getpid(), "task": task}
