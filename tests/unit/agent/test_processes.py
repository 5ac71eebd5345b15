"""What the agent knows of processes, as `/proc` shows them."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from holdfast.agent import processes
from holdfast.agent.processes import killable_runs


def test_a_group_is_seen_where_proc_hides_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `hidepid=1` the files of processes of others cannot be read, also those of one's own that have
    changed their rights."""

    def hidden(path: str) -> bytes | None:
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(processes, "read_file", hidden)
    command = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    try:
        assert killable_runs(command.pid)
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()
    assert not killable_runs(command.pid)
