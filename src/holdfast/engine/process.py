"""Handlers in separate processes, which can be killed.

Promises: a process runs one task at a time. On a timeout, a cancellation or a lost lease it is killed
(SIGKILL) and replaced. If it dies for another reason, the attempt fails with the exit code. Idle
processes are reused. A child dies with its parent, also in the middle of a handler. The event loop never
blocks on a child that does not read, write or end.
Never: forks (threads and event loops do not survive it); children are spawned.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import chain, repeat
from multiprocessing.process import BaseProcess
from typing import Any, Final

from holdfast.core.callables import signature_of
from holdfast.core.command import Cancel, Snooze
from holdfast.core.failure import formatted, message_of
from holdfast.core.steps import settled
from holdfast.core.submit import RESULT_BYTES_MAX
from holdfast.core.task import Task
from holdfast.engine import boot, process_wire as wire
from holdfast.engine.arguments import ArgumentsRefused, declared_result
from holdfast.engine.around import ImportPath, through
from holdfast.engine.context import Context
from holdfast.engine.declared import Declared, Misfit
from holdfast.engine.handle import Source
from holdfast.engine.handlers import Handler, Reject, import_path
from holdfast.engine.parameters import Parameters, call_with_arguments, parameters_of
from holdfast.engine.pipe_context import PipeContext, plain_value
from holdfast.engine.retry_choice import USUAL, AfterFailure, Retry, after_failure
from holdfast.errors import InvalidInput

IDLE_MAX: Final = 4
SEND_SECONDS_MAX: Final = 60.0
"""The time limit for a process to read its task."""
ALIVE_SECONDS: Final = 1.0
"""The interval between two checks whether a silent process is alive."""
LAST_SECONDS: Final = 0.1
EXIT_SECONDS: Final = 1.0
"""The wait for the exit code of a process that has closed its end of the socket."""
KILL_SECONDS: Final = 5.0
"""The wait for a killed process. One that the kernel cannot end yet is left to the kernel."""
POLL_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02)


class ProcessDied(Exception):
    """The process ended without an answer."""


class Remote(Exception):
    """The base of exceptions that a handler raised in its process."""

    then = USUAL
    """What follows the error. The process of the handler knows its class."""
    traceback = ""
    """The traceback in the process of the handler."""


class ResultRefused(Exception):
    """The result of the handler cannot be stored."""


class Child:
    """A handler process, and the parent's end of the socket to it."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self.process: BaseProcess = spawn.Process(
            target=serve,
            args=(theirs, list(sys.path), os.getpid()),
            daemon=True,
            name=boot.NAME,
        )
        self._booted = False
        self.process.start()
        theirs.close()

    async def send(self, message: object) -> None:
        """Sends without blocking the event loop: a child that boots or hangs reads late or never."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(SEND_SECONDS_MAX):
                await loop.sock_sendall(self.socket, wire.framed(pickle.dumps(message)))
        except TimeoutError:
            raise ProcessDied(
                f"the handler's process did not take its task within {SEND_SECONDS_MAX:g} s"
            ) from None
        except OSError:
            raise await self._died() from None

    async def receive(self) -> tuple[str, Any]:
        """The next message of the child."""
        while True:
            size = wire.size_of(await self._exactly(wire.HEADER_BYTES))
            message: tuple[str, Any] = pickle.loads(await self._exactly(size))
            if message[0] != "booted":
                return message
            self._booted = True

    async def _exactly(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        parts = bytearray()
        while len(parts) < size:
            receiving = asyncio.create_task(loop.sock_recv(self.socket, size - len(parts)))
            try:
                await self._wait(receiving)
                part = receiving.result()
            except OSError:
                part = b""
            finally:
                receiving.cancel()
            if not part:
                raise await self._died()
            parts += part
        return bytes(parts)

    async def _wait(self, receiving: asyncio.Future[bytes]) -> None:
        """Waits until data arrives or the process has ended. The end of the process may close neither the
        socket nor the sentinel of multiprocessing: a process that the handler forked has both open too."""
        was_alive = True
        while not receiving.done():
            if not was_alive:
                raise await self._died()
            was_alive = self.process.is_alive()
            # Read once more after its end: it may have sent data before.
            await asyncio.wait({receiving}, timeout=ALIVE_SECONDS if was_alive else LAST_SECONDS)

    def is_there(self) -> bool:
        """Whether an idle child is alive. Its end of the socket closes when it dies. Reading its exit
        code would race with other readers."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def _died(self) -> ProcessDied:
        await self._ended(EXIT_SECONDS)
        return ProcessDied(boot.died(self.process.exitcode, booted=self._booted))

    async def _ended(self, seconds: float) -> None:
        """Waits until the process has ended, at most this long. It polls, since a process that the handler
        forked may keep the sentinel of multiprocessing open."""
        now = asyncio.get_running_loop().time
        until = now() + seconds
        for pause in chain(POLL_SECONDS, repeat(POLL_SECONDS[-1])):
            if not self.process.is_alive() or now() >= until:
                return
            await asyncio.sleep(pause)

    def kill(self) -> None:
        """Kills the process without waiting. multiprocessing reaps it when the next process starts."""
        self.process.kill()
        self.socket.close()

    async def end(self) -> None:
        """Kills the process and waits for its end."""
        self.process.kill()
        try:
            await self._ended(KILL_SECONDS)
        finally:
            self.socket.close()


class ProcessHost:
    """Runs tasks in processes, and keeps idle processes."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        # One thread for the lifetime of the host: on Linux a child dies with the thread that started it.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="holdfast-spawner")

    async def run(
        self, handler: Handler, context: Context, layers: Sequence[ImportPath] = ()
    ) -> Any:
        """Runs a task. `layers`: the middleware around the function."""
        function_path = import_path(handler)
        child = self._take_idle() or await self._spawn()
        try:
            await child.send(
                (
                    function_path,
                    handler.by_keyword,
                    handler.wants_context,
                    handler.retries,
                    (context.task, context.trace),
                    layers,
                )
            )
            value = await self._answer(child, context)
        except BaseException:
            # Cancelled, timed out, dead or raised: a process is reused only after a clean answer.
            await child.end()
            raise
        if len(self._idle) < IDLE_MAX:
            self._idle.append(child)
        else:
            child.kill()  # Not awaited: a cancellation there would lose the value.
        return value

    def _take_idle(self) -> Child | None:
        """An idle child that is alive. An idle process may have been killed from outside."""
        while self._idle:
            child = self._idle.pop()
            if child.is_there():
                return child
            child.kill()
        return None

    async def _answer(self, child: Child, context: Context) -> Any:
        while True:
            kind, value = await child.receive()
            match kind:
                case "result":
                    return value
                case "refused":
                    raise ResultRefused(value)
                case "misfit":
                    raise ArgumentsRefused(value)
                case "reject":
                    raise Reject(value)
                case "error":
                    error_type, message, text, then = value
                    error = type(error_type, (Remote,), {"then": then, "traceback": text})(message)
                    error.add_note(text)
                    raise error
                case _:
                    await child.send(await _served(kind, value, context))

    async def _spawn(self) -> Child:
        """Starts a process. If the caller is cancelled, the process is killed as soon as it has started."""
        starting = asyncio.get_running_loop().run_in_executor(self._spawner, Child)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(
                lambda done: None if done.exception() else done.result().kill()
            )
            raise

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.end() for child in idle))
        self._spawner.shutdown(wait=False)


async def _served(kind: str, value: Any, context: Context) -> tuple[str, object]:
    """The answer to a request of a handler. An error is raised in the handler. If the task was cancelled, the
    error is raised here instead, and the process is killed."""
    try:
        return "ok", await _serve(kind, value, context)
    except Exception as error:
        if context.cancel_requested:
            raise
        return "raise", wire.portable(error)


async def _of_task(kind: str, value: Any, source: Source) -> Task:
    """The call of a handle."""
    match kind:
        case "get_task":
            return await source.get(value)
        case "wait_task":
            return await source.wait(*value)
        case _:
            task_id, actor, reason = value
            return await source.cancel_task(task_id, actor=actor, reason=reason)


async def _serve(kind: str, value: Any, context: Context) -> object:
    match kind:
        case "progress":
            await context.progress(**value)
            return None
        case "output":
            await context.output(*value)
            return None
        case "metrics":
            await context.metrics(**value)
            return None
        case "save":
            await context.save(value)
            return None
        case "checkpoint":
            return await context.checkpoint(*value)
        case "parents":
            return await context.parents()
        case "enqueue":
            handle = await context.enqueue(value.pop("type"), value.pop("payload"), **value)
            return handle.inserted, handle.pressure
        case "get_task" | "wait_task" | "cancel_task":
            return await _of_task(kind, value, context.source)
        case "step_request":
            return context.step_request(*value)
        case "step":
            request, step = value
            return settled(await context.do_step(request, step, None))
    raise AssertionError(f"a handler's process asked for '{kind}'")


def serve(end: socket.socket, path: list[str], parent: int) -> None:
    """The main function of a child: runs one task after the other until the parent is gone."""
    wire.die_with(parent, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path
    pipe = wire.Pipe(end)
    pipe.send(("booted", None))
    while True:
        try:
            function_path, by_keyword, wants_context, retries, run, layers = pipe.recv()
        except (EOFError, OSError):
            return
        context, task = PipeContext(pipe, *run), run[0]
        try:
            function = _imported(*function_path)
            call = partial(_call, function, by_keyword, wants_context, context)
            value = through([_imported(*path) for path in layers], context, call)
            if isinstance(value, Retry):
                raise value
            context.end(*_outcome(value, _declared(function, task.type)[1] if by_keyword else None))
        except ArgumentsRefused as error:
            context.end("misfit", str(error))
        except Reject as error:
            context.end("reject", str(error))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            # Also a CancelledError of what the handler awaited.
            context.end("error", _said(error, after_failure(retries, task.attempts, error)))


def _said(error: BaseException, then: AfterFailure) -> tuple[str, str, str, AfterFailure]:
    """The last message of a handler that raised an error."""
    text = formatted(error)
    shown = error.evidence if isinstance(error, Retry) else error
    return type(shown).__qualname__, message_of(shown), text, then


def _outcome(value: object, declared: Declared | None) -> tuple[str, object]:
    """The last message of a handler that returned: the value as plain JSON, or why it cannot be stored."""
    if isinstance(value, Cancel | Snooze):
        return "result", value
    try:
        value = value if declared is None else declared.write_any(value)
        return "result", plain_value(value, "result", RESULT_BYTES_MAX)
    except (InvalidInput, Misfit) as error:
        return "refused", str(error)


@cache
def _imported(module: str, name: str) -> Callable[..., Any]:
    """The function of a handler."""
    target: Any = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    function: Callable[..., Any] = getattr(target, "function", target)
    return function


@cache
def _declared(function: Callable[..., Any], task_type: str) -> tuple[Parameters, Declared | None]:
    """The arguments and the result of a function, by its annotations."""
    signature = signature_of(function)
    parameters = parameters_of(task_type, function, signature)
    return parameters, declared_result(function, signature.return_annotation)


def _call(
    function: Callable[..., Any], by_keyword: bool, wants_context: bool, context: PipeContext
) -> Any:
    task = context.task
    if by_keyword:
        value = call_with_arguments(function, _declared(function, task.type)[0], task, context)
    else:
        value = function(task, context) if wants_context else function(task)
    if asyncio.iscoroutine(value):
        value = asyncio.run(value)
    return value
