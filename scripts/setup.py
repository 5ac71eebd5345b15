"""Creates `.venv` for development: the locked tools and libraries, and holdfast, editable.

    python scripts/setup.py [--force]

Needs only Python 3.11 or later. A second run without changes ends at once: a stamp in `.venv` holds the
hash of everything that the environment was made from.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "holdfast-setup.stamp"
LOCK = ROOT / "requirements" / "dev.txt"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - the one file that an older Python may meet
        print(f"holdfast needs Python 3.11 or later, this is {sys.version.split()[0]}")
        return 1
    wanted = fingerprint()
    if "--force" not in sys.argv and is_current(wanted):
        print(".venv is up to date")
        return 0
    started = time.monotonic()
    STAMP.unlink(missing_ok=True)
    make_venv()
    install()
    STAMP.write_text(wanted, encoding="utf-8")
    print(f".venv is ready ({time.monotonic() - started:.1f} s): try `make help`")
    return 0


def fingerprint() -> str:
    """The hash of all inputs of `.venv`, including its path and its Python."""
    digest = hashlib.sha256()
    for path in (LOCK, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    digest.update(f"{VENV} {sys.version}".encode())
    return digest.hexdigest()


def is_current(wanted: str) -> bool:
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted


def make_venv() -> None:
    """Create the environment, or replace one that another Python made."""
    if VENV.exists() and not made_by_this_python():
        shutil.rmtree(VENV)
    if not PYTHON.exists():
        say("creating .venv")
        venv.create(VENV, with_pip=True, symlinks=os.name != "nt")


def made_by_this_python() -> bool:
    if not PYTHON.exists():
        return False
    command: list[str | Path] = [PYTHON, "-c", "import sys; print(sys.version, end='')"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    return result.returncode == 0 and result.stdout == sys.version


def install() -> None:
    """Fetch uv, then let it install the locked set and the project."""
    pin = locked_version("uv")
    say(f"installing uv {pin}")
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"uv=={pin}")
    say(f"installing {LOCK.relative_to(ROOT)}")
    # uv and this shell may both skip bytecode; without it every start compiles the modules.
    uv("sync", "--require-hashes", "--compile-bytecode", LOCK)
    say("installing holdfast (editable)")
    uv("install", "--no-deps", "--no-build-isolation", "--editable", ROOT)


def locked_version(name: str) -> str:
    match = re.search(rf"^{re.escape(name)}==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{LOCK} does not pin {name}")
    return match[1]


def uv(command: str, *arguments: str | Path) -> None:
    run(PYTHON, "-m", "uv", "pip", command, "--quiet", "--python", PYTHON, *arguments)


def run(*command: str | Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    result = subprocess.run(command, check=False, cwd=ROOT, env=environment)
    if result.returncode:
        raise SystemExit(f"failed ({result.returncode}): {' '.join(map(str, command))}")


def say(line: str) -> None:
    print(f"  {line}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
