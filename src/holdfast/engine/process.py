"""Handlers in processes of their own, which can be killed.

Promises: a process runs one task at a time; on timeout, cancellation or loss of the lease it is killed
(SIGKILL) and replaced; one that dies by itself fails the attempt with what is known. Idle processes are kept
for the next task. A child dies with its parent, also in the middle of a handler. The event loop never blocks
on a child that does not read, write or end.
Never: fork (threads and event loops do not survive it); children are spawned.
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
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from multiprocessing.process import BaseProcess
from typing import Any, Final

from holdfast.core import once as course
from holdfast.core.codec import Json, dumps, loads
from holdfast.core.command import Cancel, Snooze
from holdfast.core.ledger import EntryLease
from holdfast.core.once import ErrorPolicy, OnError, RunStep, Step
from holdfast.core.steps import drive, settled
from holdfast.core.task import Task
from holdfast.engine import boot, process_wire as wire
from holdfast.engine.context import Context
from holdfast.engine.handlers import Handler, Reject, place_of
from holdfast.errors import InvalidInput, LeaseLost

IDLE_MAX: Final = 4
SEND_SECONDS_MAX: Final = 60.0
"""A process that has not taken its task by then never will."""
ALIVE_SECONDS: Final = 1.0
"""Between two looks whether a process that says nothing is still there."""
LAST_SECONDS: Final = 0.1
EXIT_SECONDS: Final = 1.0
"""For the exit code of a process that has closed its end of the socket."""
KILL_SECONDS: Final = 5.0
"""A process that the kernel has not ended by then (it waits for a disk, say) is left to it."""
POLL_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02)


class ProcessDied(Exception):
    """The process ended without an answer."""


class Remote(Exception):
    """An exception that a handler raised in its process."""


class ResultRefused(Exception):
    """The handler's value cannot be kept."""


class Child:
    """One process and this side of the socket to it."""

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
        """Without blocking the event loop: a child that boots, or hangs, reads late or never."""
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
        """The child's next message."""
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
        """Until something has come, or the process has ended. Its end need not close the socket, nor the
        sentinel of multiprocessing: a process that the handler has forked has both open too."""
        was_alive = True
        while not receiving.done():
            if not was_alive:
                raise await self._died()
            was_alive = self.process.is_alive()
            # Once more after its end: what it has sent before is there.
            await asyncio.wait({receiving}, timeout=ALIVE_SECONDS if was_alive else LAST_SECONDS)

    def is_there(self) -> bool:
        """Whether an idle child still waits for its next task. Its end of the socket closes with it; asking
        for its exit code would race with others that do."""
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
        """Until the process has ended, at most this long. It polls, since the sentinel of multiprocessing may
        be open in a process that the handler has forked."""
        now = asyncio.get_running_loop().time
        until = now() + seconds
        for pause in chain(POLL_SECONDS, repeat(POLL_SECONDS[-1])):
            if not self.process.is_alive() or now() >= until:
                return
            await asyncio.sleep(pause)

    def kill(self) -> None:
        """Does not wait for the end; multiprocessing reaps the process at its next start of another one."""
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
    """Hands tasks to processes."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        # One thread for as long as the host lives: on Linux a child dies with the thread that made it.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="holdfast-spawner")

    async def run(self, handler: Handler, context: Context) -> Any:
        place = place_of(handler)
        child = self._take_idle() or await self._spawn()
        try:
            await child.send(
                (
                    place,
                    handler.by_keyword,
                    handler.wants_context,
                    handler.context_name,
                    context.task,
                )
            )
            value = await self._answer(child, context)
        except BaseException:
            # Cancelled, timed out, dead or raising: only a clean answer leaves a reusable process.
            await child.end()
            raise
        if len(self._idle) < IDLE_MAX:
            self._idle.append(child)
        else:
            child.kill()  # Without an await, in which a cancellation would cost the value.
        return value

    def _take_idle(self) -> Child | None:
        """One that still lives; somebody else may have killed it while it waited."""
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
                case "reject":
                    raise Reject(value)
                case "error":
                    error_type, message, text = value
                    error = type(error_type, (Remote,), {})(message)
                    error.add_note(text)
                    raise error
                case _:
                    await child.send(await _served(kind, value, context))

    async def _spawn(self) -> Child:
        """A new process; when nobody waits for it any more, it is killed as soon as it is there."""
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
    """The answer to a question of a handler; an error is raised there, as in any other handler. A task that
    was taken away ends the process."""
    try:
        return "ok", await _serve(kind, value, context)
    except Exception as error:
        if context.cancel_requested:
            raise
        return "raise", wire.portable(error)


async def _serve(kind: str, value: Any, context: Context) -> object:
    match kind:
        case "progress":
            await context.progress(*value)
            return None
        case "save":
            await context.save(value)
            return None
        case "parents":
            return await context.parents()
        case "ask":
            return context.step_ask(*value)
        case "step":
            ask, wanted = value
            return settled(await context.do_step(ask, wanted, None))
    raise AssertionError(f"a handler's process asked for '{kind}'")


class PipeContext:
    """The context inside the process; the parent does the writing. Any thread of the handler may use it, one
    at a time, until the handler's end."""

    def __init__(self, pipe: wire.Pipe, task: Task) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._is_over = False
        self.task = task
        self.attempt = task.attempts
        self.fence = task.fence
        self.saved = task.checkpoint
        self.cancel_requested = False

    def progress(self, done: float, note: str = "") -> None:
        self._ask("progress", (done, note))

    def save(self, checkpoint: object) -> None:
        self._ask("save", checkpoint)
        self.saved = loads(dumps(checkpoint))

    def parents(self) -> Any:
        return self._ask("parents", None)

    def once(
        self,
        step: str,
        effect: Callable[[EntryLease], object],
        *,
        request: object = None,
        on_error: ErrorPolicy = OnError.FORGET,
        tx: object = None,
    ) -> Json:
        """See `Context.once`. Transactions belong to the process that has the store open."""
        if tx is not None:
            raise InvalidInput(
                "a handler in a process of its own cannot carry a step in its transaction: run it in the "
                "event loop or in a thread"
            )
        ask = self._ask("ask", (step, request))

        def perform(wanted: Step) -> object:
            if isinstance(wanted, RunStep):
                return effect(wanted.lease)
            return self._ask("step", (ask, wanted))

        return drive(course.call(on_error=on_error), perform)

    def _ask(self, kind: str, value: object) -> Any:
        with self._lock:
            if self._is_over:
                raise LeaseLost(f"the handler of task {self.task.id} has ended: stop working on it")
            self._pipe.send((kind, value))
            answer, found = self._pipe.recv()
        if answer == "raise":
            raise found
        return found

    def end(self, kind: str, value: object) -> None:
        """The last message of this attempt: a thread that goes on cannot speak in the next one."""
        with self._lock:
            self._is_over = True
            self._pipe.send((kind, value))


def serve(end: socket.socket, path: list[str], parent: int) -> None:
    """The life of a child: run what comes, one at a time, until the parent is gone."""
    wire.die_with(parent, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path
    pipe = wire.Pipe(end)
    pipe.send(("booted", None))
    while True:
        try:
            place, by_keyword, wants_context, context_name, task = pipe.recv()
        except (EOFError, OSError):
            return
        context = PipeContext(pipe, task)
        try:
            value = _call(place, by_keyword, wants_context, context_name, task, context)
            refusal = None if isinstance(value, Cancel | Snooze) else _refusal(value)
            context.end(*(("refused", refusal) if refusal else ("result", value)))
        except Reject as error:
            context.end("reject", str(error))
        except Exception as error:
            context.end("error", (type(error).__qualname__, str(error), traceback.format_exc()))


def _refusal(value: object) -> str | None:
    """Why a value cannot be a result."""
    from holdfast.core.submit import RESULT_BYTES_MAX, encode_payload

    try:
        encode_payload(value, what="result", limit=RESULT_BYTES_MAX)
    except InvalidInput as error:
        return str(error)
    return None


def _call(
    place: tuple[str, str],
    by_keyword: bool,
    wants_context: bool,
    context_name: str | None,
    task: Task,
    context: PipeContext,
) -> Any:
    target: Any = importlib.import_module(place[0])
    for part in place[1].split("."):
        target = getattr(target, part)
    function = getattr(target, "function", target)
    if by_keyword:
        arguments = dict(task.payload or {})
        if context_name is not None:
            arguments[context_name] = context
        value = function(**arguments)
    else:
        value = function(task, context) if wants_context else function(task)
    if asyncio.iscoroutine(value):
        value = asyncio.run(value)
    return value
