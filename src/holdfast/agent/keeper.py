"""The keeper: a small process that starts commands, keeps them, and outlives the agent.

It runs on the host without the packages of Holdfast: the agent, or the SSH driver, sends it the sources of
its modules (`boot.py`), then requests as lines of JSON. Answers are lines of JSON too. A command is started
with vfork from this small process; forking the agent would copy its page tables.

Promises: a command begins only after the request `release` of the process that prepared it. When the requests
end, because that process died or closes, what was not released never begins, and its exit record says so.
What runs goes on, and the keeper ends after the last exit record is on the disk. Orphans of commands are
reaped. However a connection ends, it ends the requests and nothing else.
Never: waits for a command, or for a process that does not read its answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections import deque
from typing import Any

from holdfast.agent.files import FOLDER_MODE, Disk
from holdfast.agent.host import HOST_CALLS, READING
from holdfast.agent.processes import start_of
from holdfast.agent.session import Session, SessionEnded
from holdfast.agent.supervisor import Command

READ_BYTES = 1048576
REQUESTS_MAX = 16
"""Requests of one turn of the loop. The start of a command takes about half a millisecond."""
UNSENT_BYTES_MAX = 1048576
"""With more unread answers than this, no further requests are read."""
PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """The loop: requests in, answers and ends of commands out."""

    def __init__(self, requests: int, answers: int) -> None:
        self._in, self._out = requests, answers
        self._start = start_of(os.getpid()) or 0
        self._disk = Disk()
        self._commands: dict[str, Command] = {}
        self._waiting: set[str] = set()
        """Commands that were not released."""
        self._session: Session | None = None
        """Which driver may change something here. None: the one local agent."""
        self._buffer = b""
        self._requests: deque[bytes] = deque()
        """Requests that were read and are not answered yet."""
        self._unsent = b""
        self._is_open = True
        self._is_heard = True
        """Whether the other end may read the answers."""
        self._poll = select.poll()
        self._wake, writer = os.pipe()
        for file in (self._wake, writer):
            os.set_blocking(file, False)
        for number in (
            signal.SIGCHLD,
            signal.SIGUSR1,
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
        ):
            # Handlers and not SIG_IGN: a command would inherit that.
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def run(self) -> None:
        """Until the requests have ended and nothing runs."""
        for file in (self._in, self._out):
            os.set_blocking(file, False)
        self._poll.register(self._wake, select.POLLIN)
        while self._is_open or self._requests or self._commands or self._unsent:
            self._listen()
            wait_ms = 0 if self._requests else self._wait_ms()
            ready = [file for file, _ in self._poll.poll(wait_ms)]
            is_signal = self._wake in ready
            if is_signal:
                os.read(self._wake, 4096)
            if self._unsent:
                self._send()
            if self._is_open and self._in in ready:
                self._read_requests()
            self._answer_some()
            for command in self._commands.values():
                for file in [file for file in ready if file in command.readers]:
                    self._read(command, file)
            if is_signal:
                self._reap()
            self._look(is_signal)

    def _wait_ms(self) -> float | None:
        now = time.monotonic()
        wants = [command.wants(now) for command in self._commands.values()]
        seconds = min((one for one in wants if one is not None), default=None)
        return None if seconds is None else seconds * 1000

    # -- requests ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Waits for requests, unless too many answers wait for their reader; and for the reader, if some do.
        Both may be one file."""
        has_room = not self._requests and len(self._unsent) <= UNSENT_BYTES_MAX
        is_open = self._is_open and has_room
        wanted = {self._in: 0, self._out: 0}
        wanted[self._in] |= select.POLLIN if is_open else 0
        wanted[self._out] |= select.POLLOUT if self._unsent else 0
        for file, events in wanted.items():
            if events:
                self._poll.register(file, events)
            else:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(file)

    def _read_requests(self) -> None:
        try:
            data = os.read(self._in, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # A connection that broke, e.g. ECONNRESET with unread answers.
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        self._requests.extend(lines)
        self._is_open = bool(data)

    def _answer_some(self) -> None:
        """Only some at a time, so that commands which have ended are reported while others begin."""
        for _ in range(min(REQUESTS_MAX, len(self._requests))):
            self._answer(json.loads(self._requests.popleft()))
        if not self._is_open and not self._requests:
            self._drop_waiting()

    def _drop_waiting(self) -> None:
        for run in self._waiting:
            self._commands[run].drop("it was not released")
        self._waiting.clear()

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            answer = self._do(request)
        except SessionEnded as error:
            self._drop_waiting()
            answer = {"error": str(error), "errno": errno.ESTALE}
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": str(error), "errno": getattr(error, "errno", None)}
        if answer is not None:
            self.say(dict(answer, n=request.get("n")))

    def _do(self, request: dict[str, Any]) -> dict[str, Any] | None:
        name = request["do"]
        if name == "session":
            self._session = Session(request["folder"], request["id"])
            return {"value": None}
        if self._session is not None and name not in READING:
            with self._session.held():
                return self._change(name, request)
        return self._change(name, request)

    def _change(self, name: str, request: dict[str, Any]) -> dict[str, Any] | None:
        if name == "prepare":
            os.makedirs(request["folder"], FOLDER_MODE, exist_ok=True)  # noqa: PTH103
            command = Command(request)
            command.reserve()
            self._commands[request["id"]] = command
            self._waiting.add(request["id"])
            return {"pid": os.getpid(), "start": self._start}
        if name == "release":
            self._release(request["id"])
            return None
        if name == "drop":
            if request["id"] in self._waiting:
                self._waiting.remove(request["id"])
                self._commands[request["id"]].drop("it was not released")
            return None
        return {"value": HOST_CALLS[name](self._disk, *request["args"])}

    def _release(self, run: str) -> None:
        if run not in self._waiting:
            return
        self._waiting.remove(run)
        command = self._commands[run]
        if _is_asked(command):
            command.drop("it was stopped before it began")
        else:
            command.begin()
            for file in command.readers:
                self._poll.register(file, select.POLLIN)

    # -- commands ----------------------------------------------------------------------------------

    def _read(self, command: Command, file: int) -> None:
        try:
            command.read(file)
        except Exception as error:  # Of this command: the others go on.
            command.failed(error)
        if file not in command.readers:
            self._poll.unregister(file)

    def _reap(self) -> None:
        """Also orphans of commands, whose parent this process is."""
        by_pid = {command.pid: command for command in self._commands.values() if command.pid}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                by_pid[pid].reaped(status)

    def _look(self, is_signal: bool) -> None:
        now = time.monotonic()
        ended: list[tuple[str, Command, tuple[str, bytes]]] = []
        for run, command in list(self._commands.items()):
            files = list(command.readers)
            record = None
            try:
                command.limit(now, stop=is_signal and _is_asked(command))
                record = command.exit_record(now)
            except Exception as error:  # Of this command: the others go on.
                command.failed(error)
            for file in files:
                if file not in command.readers:
                    self._poll.unregister(file)
            if record is not None:
                ended.append((run, command, record))
        self._write_exits(ended, now)

    def _write_exits(self, ended: list[tuple[str, Command, tuple[str, bytes]]], now: float) -> None:
        records = [record for _, _, record in ended]
        failures = self._disk.replace_all(records, "exit record")
        for nth, (run, command, _) in enumerate(ended):
            failure = failures[nth]
            if failure is not None and not isinstance(failure, FileNotFoundError):
                command.make_room(now)
                continue
            # Without its folder there is no place for the record, and no agent that looks for it.
            del self._commands[run]
            self._waiting.discard(run)
            self.say({"ended": run})

    def say(self, answer: dict[str, Any]) -> None:
        if self._is_heard:
            self._unsent += json.dumps(answer).encode() + b"\n"
            self._send()

    def _send(self) -> None:
        """As much as the reader takes."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._out, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            # The agent is gone; its successor looks at the files.
            self._unsent, self._is_heard = b"", False


def _is_asked(command: Command) -> bool:
    """Whether an agent has asked for the end of the command."""
    return os.path.exists(os.path.join(command.folder, "stop"))  # noqa: PTH110, PTH118


def main() -> None:
    """Serves the requests of stdin."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    gc.freeze()
    try:
        os.setsid()
    except PermissionError:
        pass  # It leads a session already.
    os.chdir("/")
    os.umask(0o077)
    keeper = Keeper(0, 1)
    try:
        keeper.run()
    except BaseException:
        keeper.say({"failed": traceback.format_exc()})
        raise
