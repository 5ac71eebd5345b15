"""SAQ on Redis or PostgreSQL, its default of ten tasks at once (a hundred was no faster)."""

from __future__ import annotations

from typing import Any

from saq import Queue, Worker

from proof.bench.probe import KINDS, run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import Options, main, run_async


class SaqSubject(QueueSubject):
    """The URL selects the store; the queue creates its tables when it connects."""

    def __init__(self, options: Options) -> None:
        """Only PostgreSQL can count unfinished jobs."""
        super().__init__(options)
        self.settles = options.url.startswith("postgresql")

    async def open(self) -> None:
        """Connect."""
        self.queue = Queue.from_url(self.options.url)
        await self.queue.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self.queue.disconnect()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One job; its default timeout of ten seconds would end the blocking tasks."""
        if kind == "block":
            await self.queue.enqueue(kind, arg=arg, timeout=0)
        else:
            await self.queue.enqueue(kind, arg=arg)

    async def unfinished(self) -> int:
        """Jobs queued or active."""
        return int(await self.queue.count("incomplete"))

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        queue = Queue.from_url(self.options.url)
        functions: list[Any] = [(kind, _handler(kind)) for kind in KINDS]
        await queue.connect()
        await Worker(queue, functions, concurrency=self.options.concurrency or 10).start()


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(_: Any, *, arg: int) -> None:
        await handle(kind, arg)

    return handler


if __name__ == "__main__":
    main(SaqSubject)
