"""Handlers of every kind that fail with the error that they are given."""

from __future__ import annotations

from typing import Any

from holdfast import TaskQueue


class Temporary(ConnectionError): ...


class Permanent(Exception): ...


ERRORS: dict[str, type[Exception]] = {
    "connection": ConnectionError,
    "temporary": Temporary,
    "permanent": Permanent,
    "value": ValueError,
}


async def in_loop(name: str) -> None:
    raise ERRORS[name](name)


def in_thread(name: str) -> None:
    raise ERRORS[name](name)


def in_process(name: str) -> None:
    raise ERRORS[name](name)


FUNCTIONS = {"loop": in_loop, "thread": in_thread, "process": in_process}


def make(url: str, isolation: str, **options: Any) -> TaskQueue:
    queue = TaskQueue(url, base_retry_delay=0.001)
    define: Any = queue.task
    define(name="fail", max_attempts=2, isolation=isolation, **options)(FUNCTIONS[isolation])
    return queue
