"""The Chromium that tests drive: that of the system, else Debian's package, installed once.

Promises: returns the path of a browser, or raises with what to run. Processes that ask at the same time wait
for one installation. The headless shell comes first: it is the same engine without the interface around
pages, which a full Chromium draws for each window even when nothing shows it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import gettempdir
from typing import Final

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGES: Final = ("chromium-headless-shell", "chromium")
"""Of Debian, the first that there is."""
LOCK: Final = Path(gettempdir()) / "holdfast-chromium.lock"
FLAGS: Final = (
    "--no-sandbox",  # the tests may run as root, and open pages of this repository only
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def find_chromium() -> str:
    """The path of a browser. Installs Debian's if there is none."""
    found = _present()
    if found is not None:
        return found
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _present()
        if found is None:
            _install()
            found = _present()
    if found is None:
        raise RuntimeError("no Chromium was found: apt-get install chromium")
    return found


def _present() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


def _install() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise RuntimeError(
            "tests of pages need Chromium: install it, e.g. apt-get install chromium"
        )
    refused = _apt("update")
    if not refused:
        for package in PACKAGES:
            refused = _apt("install", "-y", "--no-install-recommends", package)
            if not refused:
                return
    raise RuntimeError(f"apt-get failed: {refused[-1_000:]}")


def _apt(*command: str) -> str:
    """Runs apt-get. Returns what it says if it fails."""
    done = subprocess.run(
        ["apt-get", "-qq", *command],
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
    )
    return done.stderr or f"exit code {done.returncode}" if done.returncode else ""
