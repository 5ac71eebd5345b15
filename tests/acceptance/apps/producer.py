"""Enqueues from several callers without end, and prints each id when it is acknowledged."""

from __future__ import annotations

import asyncio
import sys

from holdfast import TaskQueue


async def produce(queue: TaskQueue) -> None:
    while True:
        print(await queue.enqueue("work", {}), flush=True)


async def main(url: str) -> None:
    queue = TaskQueue(url)
    await asyncio.gather(*(produce(queue) for _ in range(8)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
