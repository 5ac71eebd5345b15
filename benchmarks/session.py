"""One subject process, driven over JSON lines."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

from benchmarks.servers import die_with_parent, folder_prefix
from benchmarks.venvs import ROOT


class SubjectError(Exception):
    """The subject failed or took too long; the message says how."""


class Session:
    """A fresh process of an adapter with a probe folder of its own; use as a context manager."""

    def __init__(self, python: Path, module: str, options: dict[str, Any], log: Path) -> None:
        """Start it; the adapter installs its schema and connects."""
        ram = Path("/dev/shm")
        self.probe = tempfile.TemporaryDirectory(
            prefix=folder_prefix(), dir=ram if ram.is_dir() else None
        )
        env = os.environ | {
            "BENCH_OPTIONS": json.dumps(options),
            "BENCH_PROBE": self.probe.name,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DO_NOT_TRACK": "1",
        }
        self.log = log
        with log.open("ab") as stderr:
            self.proc = subprocess.Popen(
                [str(python), "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=env,
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),  # noqa: PLW1509
            )

    def __enter__(self) -> Self:
        """Wait until the adapter is connected."""
        try:
            self._read(60)
        except SubjectError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it; its workers die with it."""
        assert self.proc.stdin
        assert self.proc.stdout
        self.proc.stdin.close()
        try:
            self.proc.wait(5)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()
        self.probe.cleanup()

    def call(self, request: dict[str, Any], limit: float) -> dict[str, float | None]:
        """Send one operation; wait for its measurements."""
        assert self.proc.stdin
        self.proc.stdin.write(json.dumps(request).encode() + b"\n")
        self.proc.stdin.flush()
        return self._read(limit)

    def _read(self, limit: float) -> dict[str, float | None]:
        assert self.proc.stdout
        ready, _, _ = select.select([self.proc.stdout], [], [], limit)
        if not ready:
            self.proc.kill()
            message = f"no answer within {limit:.0f} s"
            raise SubjectError(message)
        line = self.proc.stdout.readline()
        if not line:
            tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            message = f"the process ended: {' '.join(tail)}"
            raise SubjectError(message)
        answer = json.loads(line)
        if "error" in answer:
            raise SubjectError(answer["error"].strip().splitlines()[-1])
        measured: dict[str, float | None] = answer["ok"]
        return measured
