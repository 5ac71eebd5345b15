"""Mistakes that mypy and pyright find: the lines that end with WRONG, and no others (`test_types.py`)."""

from __future__ import annotations

from holdfast import BlockingContext, Context, Retry, TaskHandle, TaskQueue, Unique

queue = TaskQueue()


@queue.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@queue.task(timeout=3)
async def fetch(ctx: Context, url: str, *, depth: int = 0) -> dict[str, int]:
    return {url: depth}


@queue.task
def render(ctx: BlockingContext, pages: list[str]) -> str:
    return "".join(pages)


@queue.task(priority="hihg")  # WRONG
async def misspelt() -> None: ...


@queue.task(timeuot=3)  # WRONG
async def unknown() -> None: ...


@queue.task(timeout="30s")  # WRONG
async def text() -> None: ...


@queue.task(retry_delay=lambda attempt: 3)  # WRONG
async def paused() -> None:
    raise Retry(after="1h")  # WRONG


@queue.middleware  # WRONG
async def alone(ctx: Context) -> None: ...


@queue.on_stop  # WRONG
async def without_state() -> None: ...


@queue.task(isolation="fiber")  # WRONG
async def isolated() -> None: ...


async def main(ctx: Context) -> None:
    await add.enqueue("one")  # WRONG
    await add.enqueue()  # WRONG
    await add.enqueue(1, 2, 3)  # WRONG
    await add.enqueue(1, c=2)  # WRONG
    await fetch.enqueue(ctx, "u")  # WRONG
    await fetch.enqueue("u", depth="deep")  # WRONG
    await fetch.enqueue("u", 3)  # WRONG
    await render.enqueue([1])  # WRONG
    await add.options(priority="urgent").enqueue(1)  # WRONG
    await add.options(prioritty="high").enqueue(1)  # WRONG
    await add.options(delay="5m").enqueue(1)  # WRONG
    await add.options(priority=2).enqueue(1)  # WRONG
    await add.options(run_at="tomorrow").enqueue(1)  # WRONG
    await queue.schedule("often", 300, "add")  # WRONG
    await add.options(unique=Unique(until="done")).enqueue(1)  # WRONG
    await add.options(unique="ended").enqueue(1)  # WRONG
    await queue.enqueue("add", {"a": 1}, priority="urgent")  # WRONG
    await add.options(depends_on=[3]).enqueue(1)  # WRONG
    await queue.enqueue("add", {"a": 1}, dealy=3)  # WRONG
    handle = await add.enqueue(1)
    number: str = await handle.result()  # WRONG
    page: TaskHandle[str] = await fetch.enqueue("u")  # WRONG
    group = await queue.enqueue_group([add.request(1)])
    strings: list[str] = await group.results()  # WRONG
    add.request("one")  # WRONG
    await ctx.enqueue(add, "one")  # WRONG
    await ctx.enqueue("add", {"a": 1}, dealy=3)  # WRONG
    add.enqueue_sync("one")  # WRONG
    text: str = ctx.state[int]  # WRONG
    print(number, page, strings, text, add(1).real)  # WRONG
