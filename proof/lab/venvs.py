"""Virtual environments of the peers, made when first needed, each with pinned requirements.

They live in ``.venv-bench/<peer>`` of the repository (ignored by git). uv makes them in a second or
two; without uv, ``venv`` and pip do. A change of the requirements file makes a new environment.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from proof.lab.processes import ROOT

HOME = ROOT / ".venv-bench"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements"


class VenvError(Exception):
    """A peer cannot be installed here; the message says why."""


def python_of(peer: str) -> Path:
    """Interpreter of a peer's environment, which is made or renewed if needed."""
    requirements = REQUIREMENTS / f"{peer}.txt"
    stamp_text = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    folder = HOME / peer
    stamp, python = folder / "requirements.stamp", folder / "bin/python"
    if stamp.exists() and stamp.read_text() == stamp_text and python.exists():
        return python
    HOME.mkdir(exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    shutil.rmtree(folder, ignore_errors=True)
    for command in _commands(folder, python, requirements):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise VenvError((done.stderr or done.stdout).strip()[-800:])
    stamp.write_text(stamp_text)
    return python


def _commands(folder: Path, python: Path, requirements: Path) -> list[list[str]]:
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        install = [uv, "pip", "install", "--python", str(python), "--compile-bytecode"]
        return [
            [uv, "venv", "--python", sys.executable, str(folder)],
            [*install, "-r", str(requirements)],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "-r", str(requirements)],
    ]
