"""Handlers that run the functions of Django tasks.

Promises: a plain function runs in a thread, an async one in the event loop. Connections of Django that are
too old or broken are closed before and after it. The signals `task_started` and `task_finished` are sent; an
attempt that will be repeated is not finished. A receiver of `task_finished` that fails is logged by Django:
the work is done, and another attempt would repeat it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from msgspec.structs import replace

from holdfast import BlockingContext, Context
from holdfast.core import codec
from holdfast.core.failure import from_exception
from holdfast.core.submit import RESULT_BYTES_MAX, encode_payload
from holdfast.core.task import Status, Task
from holdfast.django.interface import TaskContext, signals
from holdfast.django.results import result_of
from holdfast.errors import HoldfastError


def handler_of(given: Any, backend: str) -> Callable[..., Any]:
    """The handler of a Django task."""
    call = _Call(given, backend)
    if inspect.iscoroutinefunction(given.func):

        async def arun(task: Task, ctx: Context) -> Any:
            return await call.arun(task)

        return arun

    def run(task: Task, ctx: BlockingContext) -> Any:
        return call.run(task)

    return run


class _Call:
    """Calls the function of one Django task."""

    def __init__(self, given: Any, backend: str) -> None:
        self._given = given
        self._backend = backend
        self._sender = type(given.get_backend())

    def run(self, task: Task) -> Any:
        close_old_connections()
        try:
            started = self._result(task)
            signals.task_started.send(self._sender, task_result=started)
            try:
                value = self._given.func(*self._arguments(task, started), **started.kwargs)
            except Exception as error:
                if is_last(task):
                    ended = self._failed(task, error)
                    signals.task_finished.send_robust(self._sender, task_result=ended)
                raise
            signals.task_finished.send_robust(self._sender, task_result=self._done(task, value))
            return value
        finally:
            close_old_connections()

    async def arun(self, task: Task) -> Any:
        await sync_to_async(close_old_connections)()
        try:
            started = self._result(task)
            await signals.task_started.asend(self._sender, task_result=started)
            try:
                value = await self._given.func(*self._arguments(task, started), **started.kwargs)
            except Exception as error:
                if is_last(task):
                    ended = self._failed(task, error)
                    await signals.task_finished.asend_robust(self._sender, task_result=ended)
                raise
            done = self._done(task, value)
            await signals.task_finished.asend_robust(self._sender, task_result=done)
            return value
        finally:
            await sync_to_async(close_old_connections)()

    def _arguments(self, task: Task, started: Any) -> list[Any]:
        if self._given.takes_context:
            return [TaskContext(task_result=started), *started.args]
        return list(started.args)

    def _result(self, task: Task) -> Any:
        return result_of(task, self._given, self._backend)

    def _done(self, task: Task, value: Any) -> Any:
        """The result of a function that has returned. A value that cannot be stored is a failure, which the
        worker finds out too; then the work is not repeated."""
        try:
            text = encode_payload(value, what="result", limit=RESULT_BYTES_MAX)
        except HoldfastError as error:
            return self._failed(task, error)
        return self._result(replace(task, status=Status.COMPLETED, result_json=text))

    def _failed(self, task: Task, error: Exception) -> Any:
        failure = codec.dumps(from_exception(task.type, error))
        return self._result(replace(task, status=Status.FAILED, failure_json=failure))


def is_last(task: Task) -> bool:
    """Whether a failure of this attempt is a dead letter."""
    return task.attempts >= task.max_attempts
