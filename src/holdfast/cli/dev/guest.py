"""A worker to connect to `holdfast dev` from another terminal.

holdfast worker holdfast.cli.dev.guest:queue --gateway holdfast://127.0.0.1:8787 --token TOKEN
holdfast enqueue hello name=you --wait
"""

from __future__ import annotations

from holdfast.app import TaskQueue
from holdfast.engine.context import Context

queue = TaskQueue()


@queue.task(name="hello", max_attempts=3)
async def hello(ctx: Context, name: str = "you") -> str:
    """Greets."""
    await ctx.output(f"hello {name}, this is attempt {ctx.attempt}\n")
    return f"hello {name}"
