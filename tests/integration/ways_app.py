"""Handlers of every kind that enqueue further tasks."""

from __future__ import annotations

from typing import Any

from holdfast import BlockingContext, Context, Priority, TaskQueue

tasks = TaskQueue("sqlite:///never-opened.db")


@tasks.task
async def greet(name: str, mark: str = "!") -> str:
    return f"hello {name}{mark}"


@tasks.task
async def in_loop(ctx: Context, name: str) -> list[str]:
    first = await ctx.enqueue(greet, name, mark="?")
    second = await ctx.enqueue("greet", {"name": name}, depends_on=[first], priority="high")
    third = await ctx.enqueue(greet.options(priority=Priority.LOW, depends_on=[first]), name)
    later = await ctx.enqueue(greet.options(delay=600), name)
    assert (await later.cancel(actor="ann", reason="not needed")).status == "aborted"
    return [first.id, second.id, third.id]


def followed(ctx: BlockingContext, name: str) -> list[str]:
    first = ctx.enqueue(greet, name, mark="?")
    second = ctx.enqueue("greet", {"name": name}, depends_on=[first], priority="high")
    third = ctx.enqueue(greet.options(priority=Priority.LOW, depends_on=[first]), name)
    assert first.result(30) == f"hello {name}?"
    assert (first.created, first.get().status) == (True, "completed")
    later = ctx.enqueue(greet.options(delay=600), name)
    assert later.cancel(actor="ann", reason="not needed").status == "aborted"
    return [first.id, second.id, third.id]


@tasks.task
def in_thread(ctx: BlockingContext, name: str) -> list[str]:
    return followed(ctx, name)


@tasks.task(isolation="process")
def in_process(ctx: BlockingContext, name: str) -> list[str]:
    return followed(ctx, name)


@tasks.task(isolation="process", max_attempts=1)
def badly(ctx: BlockingContext, how: str) -> list[str]:
    """The answers to wrong calls are those of a thread."""
    calls: dict[str, Any] = {
        "argument": lambda: ctx.enqueue(greet, "ann", 2, 3),  # type: ignore[call-overload]
        "option": lambda: ctx.enqueue("greet", {"name": "ann"}, dealy=1),  # type: ignore[call-overload]
        "task": lambda: ctx.enqueue(3),  # type: ignore[call-overload]
        "transaction": lambda: ctx.enqueue("greet", {"name": "ann"}, tx=object()),
        "type": lambda: ctx.enqueue("unknown"),
        "value": lambda: ctx.enqueue("greet", {"name": object()}),
    }
    try:
        calls[how]()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


def make(url: str, **settings: Any) -> TaskQueue:
    """A queue with these handlers."""
    queue = TaskQueue(url, **settings)
    for handler in tasks.definitions.handlers:
        queue.definitions.handlers.add(handler)
    return queue
