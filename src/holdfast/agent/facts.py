"""What an agent tells about its host: system, kernel, processors, memory, names.

Promises: a fact that the system does not tell is missing. Never: names of users, addresses, serial numbers.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Final

from holdfast.agent.files import boot_id

RELEASE: Final = Path("/etc/os-release")


def read_facts(version: str, name: str) -> dict[str, Any]:
    """The facts of this host."""
    system = os.uname()
    release = _release()
    facts: dict[str, Any] = {
        "agent_version": version,
        "arch": system.machine,
        "boot_id": boot_id(),
        "cpus": os.cpu_count(),
        "hostname": system.nodename,
        "kernel": system.release,
        "memory_bytes": _memory(),
        "name": name,
        "os": release.get("ID", system.sysname.lower()),
        "os_name": release.get("PRETTY_NAME"),
        "os_version": release.get("VERSION_ID"),
        "python": platform.python_version(),
    }
    return {key: value for key, value in facts.items() if value is not None}


def _release() -> dict[str, str]:
    try:
        text = RELEASE.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None
