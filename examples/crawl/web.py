"""The web application: it enqueues and asks, and runs no task.

uvicorn web:app
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from tasks import crawl, queue

from holdfast.errors import DuplicateTask


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with queue.producer():  # a wrong address fails here, not in the first request
        yield


app = FastAPI(lifespan=lifespan)


class Wanted(BaseModel):
    site: str
    paths: list[str]
    request_id: str


@app.post("/crawls", status_code=202)
async def start(wanted: Wanted) -> dict[str, str]:
    try:
        await queue.enqueue_many(crawl(wanted.site, wanted.paths, wanted.request_id))
    except (
        DuplicateTask
    ) as error:  # a repeated request is no error: it is answered with the same tasks
        raise HTTPException(409, "this request_id was used for another crawl") from error
    return {"report": f"{wanted.request_id}-report"}


@app.get("/crawls/{report}")
async def look(report: str) -> dict[str, object]:
    task = await queue.get_task(report)
    if task is None:
        raise HTTPException(404, "there is no such crawl")
    why = await queue.why(report) if task.status in ("queued", "blocked") else None
    return {
        "status": task.status,
        "progress": task.progress,
        "titles": task.result,
        "waits": why.reasons[0].text if why else None,
    }
