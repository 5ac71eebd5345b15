"""One command under supervision: its process, its output and its limits.

It runs on the host without the packages of Holdfast, also over SSH (`keeper.py`), so it uses the standard
library only. Files of a run, in its folder:

    child      id and start time of the command's process, in case the keeper dies. Its room is taken before
               the command begins, and it says that the command begins before it does
    stdout     the kept output: its beginning, then its end; `exit` says what is missing between them
    stderr     the same
    stop       an agent asks for the end of the command
    exit       how the command ended; written whole, after the output is on the disk

Promises: the command leads a new session. At the time limit, and when an agent asks for it, the whole group
gets SIGTERM and after the grace SIGKILL, and the end is recorded when no process of it runs. Output is bytes;
of what exceeds the limit, the middle is dropped; all of it is counted and hashed. On a full disk output is
given up before the exit record.
Never: a shell (the agent names one if the command type says so), the environment of the agent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import signal
import subprocess
import time
from collections import deque
from typing import Any

from holdfast.agent.files import FILE_MODE, write_all
from holdfast.agent.processes import killable_runs, start_of

READ_BYTES = 65536
POLL_SECONDS = 0.02
"""How often the keeper looks whether the rest of a group that must end is gone."""
POLL_SHARE = 0.1
"""The pause before the next look, of the time since the kill: a process may hang in the kernel for days."""
FULL_SECONDS = 1.0
"""The pause before the exit record is written again to a full disk."""
CHILD_BYTES = 64
BEGUN = {"pid": 0, "start": 0}
"""The process is being made: its id is not known yet."""
STREAMS = ("stdout", "stderr")
NOT_FOUND, NOT_EXECUTABLE = 127, 126
NOT_STOPPED = "the agent has no permission to stop it"


class Output:
    """One stream: its beginning goes to the file at once, its end stays in memory until the command ends."""

    def __init__(self, path: str, limit: int, tail: int) -> None:
        self.size = 0
        self.kept = 0
        self.gap = (0, 0)
        self._path = path
        self._head = limit - tail
        self._tail_max = tail
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._hash = hashlib.sha256()
        self._file: int | None = None

    def take(self, data: bytes) -> None:
        self.size += len(data)
        self._hash.update(data)
        room = self._head - self.kept
        if room > 0 and not self._tail:
            self._write(data[:room])
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_max:
                self._tail_bytes -= len(self._tail.popleft())

    def finish(self) -> None:
        """Writes the end of the stream and syncs the file. What a full disk did not take is missing."""
        end = b"".join(self._tail)
        head = self.kept
        self._write(end[max(0, len(end) - self._tail_max) :])
        self._tail.clear()
        if self.size > self.kept:
            self.gap = (head, self.size - self.kept)
        if self._file is not None:
            file, self._file = self._file, None
            try:
                os.fsync(file)
            except OSError:
                # What the disk has is not known.
                self.give_up()
            finally:
                os.close(file)

    def give_up(self) -> None:
        """Frees the room of the file for the exit record."""
        try:
            os.unlink(self._path)  # noqa: PTH108
        except OSError:
            return
        self.kept, self.gap = 0, (0, self.size)

    def _write(self, data: bytes) -> None:
        if not data:
            return
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._file = os.open(self._path, flags, FILE_MODE)
            write_all(self._file, data)
            self.kept += len(data)
        except OSError:
            # Most likely the disk is full. The file ends where the last whole write ended.
            self._head = self.kept
            if self._file is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self.kept)
                os.lseek(self._file, self.kept, os.SEEK_SET)

    def summary(self) -> dict[str, Any]:
        return {"size": self.size, "sha256": self._hash.hexdigest(), "gap": list(self.gap)}


class Command:
    """A run, from the wait for its release to its exit record."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.folder: str = spec["folder"]
        self.readers: dict[int, Output] = {}
        self.pid = 0
        self._spec = spec
        sizes = spec["limit"], spec["tail"]
        self._outputs = {name: Output(self._path(name), *sizes) for name in STREAMS}
        self._ended: dict[str, Any] | None = None
        self._status: int | None = None
        self._began_at = 0.0
        self._cause = ""
        """Why the command is being ended: `timeout` or `killed`."""
        self._kill_at: float | None = None
        self._is_killed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._write_at = 0.0
        self._fault = ""
        """What failed in the keeper, for the exit record."""

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)  # noqa: PTH118

    def reserve(self) -> None:
        """Takes the room of the file `child`: a disk that is full later cannot hide the process. What
        an earlier process of the name left, e.g. a probe that was not released, says nothing of this one."""
        for name in ("exit", "stop"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))  # noqa: PTH108
        with open(self._path("child"), "wb") as file:  # noqa: PTH123
            file.write(b" " * CHILD_BYTES)

    def _mark(self, child: dict[str, int]) -> None:
        """Writes the file in place."""
        file = os.open(self._path("child"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            write_all(file, json.dumps(child).encode().ljust(CHILD_BYTES))
        finally:
            os.close(file)

    def drop(self, reason: str) -> None:
        """Ends it without a start."""
        self._ended = {"state": "never_started", "reason": reason}

    def begin(self) -> None:
        """Starts the process."""
        self._began_at = time.monotonic()
        try:
            self._mark(BEGUN)
        except OSError as error:
            self.drop(f"its process could not be noted: {_why(error)}")
            return
        argv, env = self._spec["argv"], dict(self._spec["env"])
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                start_new_session=True,
                umask=0o022,
                executable=find_program(argv[0], env.get("PATH", "")),
                **user_of(self._spec["run_as"], env),
                env=env,
            )
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            missing = isinstance(error, FileNotFoundError)
            self._ended = self._record(NOT_FOUND if missing else NOT_EXECUTABLE, None, _why(error))
            return
        self._process, self.pid = process, process.pid
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self.readers[stream.fileno()] = self._outputs[name]
        # Without it, an agent whose keeper was killed does not know whether the command runs.
        with contextlib.suppress(OSError):
            self._mark({"pid": self.pid, "start": start_of(self.pid) or 0})

    def read(self, file: int) -> bool:
        """Takes output. False: there is none at present, or the stream has ended and was removed."""
        try:
            data = os.read(file, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            del self.readers[file]
            return False
        self.readers[file].take(data)
        return True

    def reaped(self, status: int) -> None:
        self._status = status
        if self._process is not None:
            self._process.returncode = os.waitstatus_to_exitcode(status)

    def wants(self, now: float) -> float | None:
        """Seconds until the next look. None: only an event changes something."""
        if self._ended is not None:
            return max(0.0, self._write_at - now)
        if self.pid == 0:
            return None
        if self._kill_at is None:
            limit: float = self._spec["timeout"]
            return max(0.0, self._began_at + limit - now) + 0.001
        if self._status is None:
            # After the kill only its end changes something.
            return None if self._is_killed else max(POLL_SECONDS, self._kill_at - now)
        return max(POLL_SECONDS, (now - self._kill_at) * POLL_SHARE)

    def limit(self, now: float, *, stop: bool) -> None:
        """Enforces the limits. `stop`: an agent asked for the end."""
        if self.pid == 0:
            if stop and self._ended is None:
                self.drop("it was stopped before it began")
            return
        if self._kill_at is None:
            is_late = now >= self._began_at + self._spec["timeout"]
            if self._status is None and (is_late or stop):
                self._cause = "killed" if stop else "timeout"
                self._kill_at = now + self._spec["grace"]
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)
        elif now >= self._kill_at and not self._is_killed:
            self._signal(signal.SIGKILL)
            self._is_killed = True

    def _signal(self, number: int) -> bool:
        """Whether the group had a member."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # A command with the rights of another user. It ends by itself or not at all.
            self._fault = NOT_STOPPED
        return True

    def failed(self, error: Exception) -> None:
        """Something about this command failed in the keeper. One whose process has ended gets its record."""
        self._fault = _why(error)
        if self._ended is None and self._process is not None and self._status is not None:
            self._ended = self._ending()

    def _is_over(self) -> bool:
        """The command has ended; of one that had to end, no process of its group runs that can be ended."""
        if self._status is None:
            return False
        if self._kill_at is None or not self._signal(0):
            return True
        return self._is_killed and not killable_runs(self.pid)

    def exit_record(self, now: float) -> tuple[str, bytes] | None:
        """The exit record and its place. None: the command goes on, or the disk had no room a moment ago."""
        if self._ended is None and self._is_over():
            self._end()
        if self._ended is None or now < self._write_at:
            return None
        streams = {name: made.summary() for name, made in self._outputs.items()}
        return self._path("exit"), json.dumps(dict(self._ended, streams=streams)).encode()

    def make_room(self, now: float) -> None:
        """The disk did not take the record, which is small and the truth: the output goes."""
        for made in self._outputs.values():
            made.give_up()
        self._write_at = now + FULL_SECONDS

    def _end(self) -> None:
        for file in list(self.readers):
            # What the command wrote before its end is in the pipe. A daemon of it may keep the pipe open.
            while self.read(file):
                pass
        for made in self._outputs.values():
            made.finish()
        self._ended = self._ending()

    def _ending(self) -> dict[str, Any]:
        """Closes the pipes, and says how the process ended."""
        assert self._process is not None
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        self.readers.clear()
        code = self._process.returncode
        is_signal = code < 0
        number = -code if is_signal else None
        return self._record(None if is_signal else code, number, self._fault)

    def _record(self, code: int | None, number: int | None, reason: str) -> dict[str, Any]:
        return {
            "state": "exited",
            "exit_code": code,
            "signal": number,
            "timed_out": self._cause == "timeout",
            "killed": self._cause == "killed",
            "seconds": round(time.monotonic() - self._began_at, 6),
            "reason": reason,
        }


def find_program(name: str, path: str) -> str:
    """Where the program is, by the PATH of the command and not by that of the agent."""
    if "/" in name:
        return name
    for folder in path.split(os.pathsep):
        found = os.path.join(folder or ".", name)  # noqa: PTH118
        if os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113
            return found
    raise FileNotFoundError(
        f"there is no program {name!r} in {path} (builtins of a shell need a command type of kind shell)"
    )


def user_of(name: str | None, env: dict[str, str]) -> dict[str, Any]:
    """The user of the command, also in its environment where the command type does not say it."""
    user = pwd.getpwuid(os.getuid()) if name is None else pwd.getpwnam(name)
    for key, value in (("HOME", user.pw_dir), ("USER", user.pw_name), ("LOGNAME", user.pw_name)):
        env.setdefault(key, value)
    if user.pw_uid == os.getuid():
        return {}
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return f"{error.filename or 'the command'}: {os.strerror(error.errno)}"
    return str(error)
