"""The check of `holdfast doctor` on the disk of a SQLite file.

Promises: a full disk is named before writes fail. The rule is a function over plain numbers.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from holdfast.queue.check import Check, Level

FAIL_BYTES: Final = 64 * 2**20
"""With less free space, the next writes may fail."""
WARN_BYTES: Final = 2**30
WARN_SHARE: Final = 0.05
MIB: Final = 2**20


def check_disk(path: Path) -> Check:
    """The space for a file and its log, and whether this process may write it."""
    usage = shutil.disk_usage(path.parent)
    wal = path.with_name(path.name + "-wal")
    size = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    return judge_disk(
        size=size,
        free=usage.free,
        total=usage.total,
        is_writable=os.access(path, os.W_OK) and os.access(path.parent, os.W_OK),
    )


def judge_disk(*, size: int, free: int, total: int, is_writable: bool) -> Check:
    """The answer for a file of this size on a disk with this free space, in bytes."""
    text = f"the file has {_mib(size)}, its disk {_mib(free)} free of {_mib(total)}"
    if not is_writable:
        advice = "change the owner of the file and its folder, or run as the user of the workers"
        return Check("disk", Level.FAIL, f"this user may not write the file: {advice}")
    if free < FAIL_BYTES:
        return Check("disk", Level.FAIL, f"{text}: writes are about to fail, free some space")
    if free < WARN_BYTES or free < total * WARN_SHARE:
        return Check("disk", Level.WARN, f"{text}: free some space, or shorten retention")
    return Check("disk", Level.OK, text)


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB" if size < 10 * 2**30 else f"{size / 2**30:,.0f} GiB"
