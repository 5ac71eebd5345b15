"""What the agent asks of the host beside starting commands: files of the journal and of runs.

It runs on the host without the packages of Holdfast, also over SSH (`keeper.py`), so it uses the standard
library only. A local agent calls the functions itself; the SSH driver calls them by name (`HOST_CALLS`)
with values that JSON has.

Promises: a journal is append only; one file for each token. Looking at a run changes nothing.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
from collections.abc import Callable
from typing import Any

from holdfast.agent.files import Disk, boot_id, read_file, read_part
from holdfast.agent.processes import age_of, is_alive
from holdfast.agent.supervisor import BEGUN, STREAMS

TOKEN_DIGITS = 16
SUFFIX = ".log"
TEXT_BYTES_MAX = 200
"""Of a text that `keep_text` keeps: longer ones are damage."""


def journal_path(folder: str, token: int) -> str:
    return f"{folder}/{token:0{TOKEN_DIGITS}d}{SUFFIX}"


def tokens(folder: str) -> list[int]:
    """The tokens that have a journal."""
    names = [name[: -len(SUFFIX)] for name in os.listdir(folder) if name.endswith(SUFFIX)]  # noqa: PTH208
    return sorted(int(name) for name in names if name.isdigit())


def append(disk: Disk, folder: str, token: int, text: str, sync: bool) -> None:
    disk.append(journal_path(folder, token), text.encode(), "journal", sync=sync)


def load(disk: Disk, folder: str) -> dict[str, str]:
    """The journals by token, in base64: a damaged one may have any bytes."""
    disk.make_folder(folder)
    found = {}
    for token in tokens(folder):
        data = read_file(journal_path(folder, token))
        found[str(token)] = base64.b64encode(data or b"").decode()
    return found


def cut(disk: Disk, folder: str, token: int, size: int) -> None:
    disk.cut(journal_path(folder, token), size, "journal")


def forget(disk: Disk, folder: str, token: int) -> None:
    disk.remove(journal_path(folder, token), "journal")


def keep_text(disk: Disk, path: str, text: str) -> str:
    """The text of a file. If the file is missing or damaged, it gets this text."""
    data = read_file(path)
    if data and len(data) <= TEXT_BYTES_MAX and all(ord("!") <= byte <= ord("~") for byte in data):
        return data.decode()
    disk.make_folder(os.path.dirname(path))  # noqa: PTH120
    disk.replace(path, text.encode(), "state")
    return text


def look(disk: Disk, folder: str, pid: int, start: int, boot: str) -> dict[str, Any]:
    """What is left of a run: `exit` (the record or None), `alive`, and `sizes` of the kept output.
    `unkept_seconds`: how long a command has run whose keeper is gone."""
    ended = _exit_record(folder)
    alive = False
    unkept = None
    if ended is None:
        is_kept = is_alive(pid, start)
        may_run = (is_kept and not _has_exit(folder)) or _may_run(folder)
        alive = boot == boot_id() and may_run
        # It may have ended between the two looks.
        ended = None if alive else _exit_record(folder)
        unkept = _age(folder) if alive and not is_kept else None
    return {"exit": ended, "alive": alive, "sizes": sizes(folder), "unkept_seconds": unkept}


def _exit_record(folder: str) -> dict[str, Any] | None:
    """None: there is none, or nothing that can be read."""
    data = read_file(f"{folder}/exit")
    try:
        record = json.loads(data) if data else None
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _has_exit(folder: str) -> bool:
    """Whether the keeper has nothing more to write about the run, also if its record was damaged since."""
    return os.path.exists(f"{folder}/exit")  # noqa: PTH110


def _may_run(folder: str) -> bool:
    """Whether the command may run without its keeper. A keeper that was killed while it made the process has
    left no id: nothing proves then that the command does not run, until the next boot."""
    data = read_file(f"{folder}/child")
    if data is None or not data.strip():
        return False  # It has not begun.
    child = _child(folder)
    return child is None or child == BEGUN or is_alive(child["pid"], child["start"])


def _age(folder: str) -> float | None:
    child = _child(folder)
    return None if child is None or child == BEGUN else age_of(child["start"])


def _child(folder: str) -> dict[str, int] | None:
    """What the keeper wrote about the process of the command. None: nothing that can be read."""
    data = read_file(f"{folder}/child")
    try:
        return json.loads(data) if data else None
    except ValueError:
        return None


def sizes(folder: str) -> dict[str, int]:
    """Bytes of the files of output."""
    found = {}
    for stream in STREAMS:
        try:
            found[stream] = os.stat(f"{folder}/{stream}").st_size  # noqa: PTH116
        except FileNotFoundError:
            continue
    return found


def read(disk: Disk, folder: str, stream: str, start: int, size: int) -> str:
    """A part of the file of a stream, in base64."""
    path = os.path.join(folder, stream)  # noqa: PTH118
    return base64.b64encode(read_part(path, start, size)).decode()


def stop(disk: Disk, folder: str, pid: int, start: int) -> bool:
    """Asks the keeper to end the command. Without a keeper, kills the command's group. Returns
    whether there was something to stop."""
    if is_alive(pid, start):
        disk.append(os.path.join(folder, "stop"), b"", "stop", sync=False)  # noqa: PTH118
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)
        return True
    child = _child(folder)
    if child is None or child == BEGUN or not is_alive(child["pid"], child["start"]):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # One of another user cannot be stopped: it counts as running until it ends.
        os.killpg(child["pid"], signal.SIGKILL)
    return True


def remove_run(disk: Disk, folder: str) -> None:
    disk.remove_folder(folder, "run")


def about(disk: Disk) -> dict[str, Any]:
    """What a driver that is somewhere else needs to know: the boot, the user, and some facts."""
    system = os.uname()
    return {
        "boot_id": boot_id(),
        "home": os.path.expanduser("~"),  # noqa: PTH111
        "is_root": os.geteuid() == 0,
        "facts": {
            "arch": system.machine,
            "cpus": os.cpu_count(),
            "hostname": system.nodename,
            "kernel": system.release,
            "os": system.sysname.lower(),
        },
    }


HOST_CALLS: dict[str, Callable[..., Any]] = {
    "about": about,
    "append": append,
    "load": load,
    "cut": cut,
    "forget": forget,
    "keep_text": keep_text,
    "look": look,
    "read": read,
    "stop": stop,
    "remove_run": remove_run,
}
READING = frozenset({"about", "load", "look", "read"})
"""Calls that change nothing, so that any session may make them."""
