"""Processes of the host, as `/proc` shows them.

It runs on the host without the packages of Holdfast, also over SSH (`keeper.py`), so it uses the standard
library only.

Promises: a zombie does not run. A process that ends while it is looked at does not run.
Never: signals, other than the one that only asks for permission.
"""

from __future__ import annotations

import os

from holdfast.agent.files import read_file

ENDED = (b"Z", b"X")
STATE, START = 0, 19
"""Places in `/proc/PID/stat`, behind the name."""


def _fields(pid: int) -> list[bytes] | None:
    """What the kernel says of a process that runs."""
    try:
        data = read_file(f"/proc/{pid}/stat") if pid > 0 else None
    except ProcessLookupError:
        return None
    if data is None:
        return None
    fields = data.rpartition(b")")[2].split()
    return None if fields[STATE] in ENDED else fields


def start_of(pid: int) -> int | None:
    """When the process started, in ticks since the boot. None: it does not run."""
    fields = _fields(pid)
    return None if fields is None else int(fields[START])


def age_of(start: int) -> float:
    """Seconds since a process started that did so at this tick after the boot."""
    uptime = float((read_file("/proc/uptime") or b"0").split()[0])
    return max(0.0, uptime - start / os.sysconf("SC_CLK_TCK"))


def is_alive(pid: int, start: int) -> bool:
    """Whether the process with this start time runs. Ids of processes are used again."""
    return start_of(pid) == start


def killable_runs(group: int) -> bool:
    """Whether a process of the group runs that this process may kill. After SIGKILL one may run on for
    a moment, and in a system call that cannot be interrupted for longer."""
    return any(
        _group_of(pid) == group and _may_kill(pid) and _may_run(pid)
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))  # noqa: PTH208
    )


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _may_run(pid: int) -> bool:
    try:
        return _fields(pid) is not None
    except PermissionError:
        # Mounted with `hidepid`, `/proc` does not say it of a process with other rights.
        return True


def _may_kill(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
