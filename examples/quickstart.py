"""A durable task in one process: python examples/quickstart.py"""

import asyncio

from holdfast import TaskQueue

queue = TaskQueue("sqlite:///holdfast.db")


@queue.task(priority="high", max_attempts=5, timeout=30)
async def send_email(to: str, subject: str) -> str:
    return f"sent {subject!r} to {to}"


async def main() -> None:
    async with queue:  # workers run inside
        task = await send_email.enqueue("a@example.com", subject="Hello")
        print(await task.result())


if __name__ == "__main__":
    asyncio.run(main())
