"""The harness's side of a subject: its module, its environment, and its process driven over JSON lines.

The other side is `proof.lab.subject`.
"""

from __future__ import annotations

import json
import select
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from proof.lab import processes
from proof.lab.folders import MEMORY, own_prefix
from proof.lab.processes import ROOT, WorkerTree
from proof.lab.venvs import python_of


@dataclass(frozen=True)
class SubjectSpec:
    """One queue on one store."""

    name: str
    module: str
    store: str
    venv: str = ""
    """Name of the peer's environment; empty: the interpreter that runs the harness."""

    def python(self) -> Path:
        """The interpreter, in an environment that is made or renewed if needed."""
        return python_of(self.venv) if self.venv else Path(sys.executable)


class SubjectError(Exception):
    """The subject failed or took too long; the message says how."""


class Session:
    """A fresh process of an adapter with its own probe folder; use as a context manager."""

    def __init__(self, spec: SubjectSpec, python: Path, options: dict[str, Any], log: Path) -> None:
        """Starts it; the adapter installs its schema and connects."""
        self._spec, self._python, self._options = spec, python, options
        self.log = log
        base = MEMORY if MEMORY.is_dir() else None
        self._folder = TemporaryDirectory(dir=base, prefix=own_prefix())
        self.probe = Path(self._folder.name)
        self._env = {
            "BENCH_OPTIONS": json.dumps(options),
            "BENCH_PROBE": self._folder.name,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DO_NOT_TRACK": "1",
        }
        self.proc = processes.start([python, "-m", spec.module], env=self._env, log=log)

    def workers(self, count: int, **options: Any) -> list[WorkerTree]:
        """Worker processes beside the producer, each with its process tree; `options` replace the
        session's."""
        return [
            WorkerTree(
                self._spec.module,
                self._options | options,
                1,
                python=self._python,
                env=self._env,
                log=self.log,
            )
            for _ in range(count)
        ]

    def __enter__(self) -> Self:
        """Waits until the adapter is connected."""
        try:
            self._read(60)
        except SubjectError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it; its workers end with it."""
        processes.stop(self.proc, 5)
        self._folder.cleanup()

    def call(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Sends one operation and waits for its result."""
        assert self.proc.stdin
        self.proc.stdin.write(json.dumps(request).encode() + b"\n")
        self.proc.stdin.flush()
        return self._read(limit)

    def _read(self, limit: float) -> dict[str, Any]:
        assert self.proc.stdout
        ready, _, _ = select.select([self.proc.stdout], [], [], limit)
        if not ready:
            self.proc.kill()
            raise SubjectError(f"no answer within {limit:.0f} s")
        line = self.proc.stdout.readline()
        if not line:
            tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise SubjectError(f"the process ended: {' '.join(tail)}")
        answer = json.loads(line)
        if "error" in answer:
            raise SubjectError(answer["error"].strip().splitlines()[-1])
        result: dict[str, Any] = answer["ok"]
        return result
